// The state of the process's driver, and how every call begins.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "tools/simcuda/driver/arrays.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/core_dumps.h"
#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/engines.h"
#include "tools/simcuda/driver/faults.h"
#include "tools/simcuda/driver/graph.h"
#include "tools/simcuda/driver/graph_memory.h"
#include "tools/simcuda/driver/handles.h"
#include "tools/simcuda/driver/memory.h"
#include "tools/simcuda/driver/module.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/settings.h"
#include "tools/simcuda/driver/stats.h"

namespace simcuda {

struct Event;

struct PrimaryContext {
  std::shared_ptr<Context> context;  // null: not active
  CUcontext handle = nullptr;        // the same each time it is made
  unsigned retained = 0;
  unsigned flags = 0;
};

// Made by the first successful cuInit, never destroyed: threads may use it to the very end.
struct Driver {
  Driver(Settings settings_, Stats& stats_);

  const Settings settings;
  Stats& stats;
  // Where launches of the kernel are counted: SIMCUDA_UNCOUNTED leaves some out.
  Counters& counters_for(std::string_view kernel);
  Faults faults;
  Engines engines;
  Memory memory;
  Pools pools;
  Arrays arrays;

  HandleTable<CUcontext, Context> contexts{0x1'0000'0000};
  HandleTable<CUstream, Stream> streams{0x2'0000'0000};
  HandleTable<CUevent, Event> events{0x3'0000'0000};
  HandleTable<CUmodule, Module> modules{0x4'0000'0000};
  HandleTable<CUfunction, Function> functions{0x5'0000'0000};
  HandleTable<CUlibrary, Library> libraries{0x6'0000'0000};
  HandleTable<CUkernel, LibraryKernel> kernels{0x7'0000'0000};
  HandleTable<CUuserObject, UserObject> user_objects{0xc'0000'0000};
  HandleTable<CUtexref, TextureReference> texture_references{0xe'0000'0000};
  HandleTable<CUsurfref, SurfaceReference> surface_references{0xf'0000'0000};
  Graphs graphs;
  GraphMemory graph_memory;  // guarded by the lock of graphs
  Captures captures{graphs};
  CoreDumps core_dumps;

  std::mutex primary_mutex;
  std::vector<PrimaryContext> primaries;  // guarded by primary_mutex

  bool is_device(CUdevice device) const { return device >= 0 && device < settings.devices; }
  std::shared_ptr<Context> make_context(CUcontext handle, int device, unsigned flags, bool primary);
  // Waits for the context's work and takes away all that was made in it.
  void destroy_context(const std::shared_ptr<Context>& context);
  // Waits for all that is queued in all contexts: memory that was retired before is then unused.
  void wait_for_all();
  // Memory of graphs that none needs any more. The lock of graphs is the caller's to hold.
  void drop_unused_graph_memory();
  // Releases allocations that were retired, after waiting.
  void release(const std::vector<Allocation>& retired);

  // The thread's current context.
  CUresult current(std::shared_ptr<Context>* context);
  // The stream that an argument names; the null stream and the special ones need a current context.
  CUresult stream(CUstream handle, std::shared_ptr<Stream>* stream);
};

// Null before cuInit, and in a forked child for ever.
Driver* driver();
CUresult initialise();

// The thread's stack of contexts, the current one last.
std::vector<CUcontext>& context_stack();

// RuntimeTable::primary_handle.
CUresult primary_handle(CUcontext* context, CUdevice device);

// While it lives, the thread runs a callback of the program, in which no driver call is allowed.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  static bool inside();
};

// Every call but the few that work before cuInit runs inside one of these. They let no exception
// out, and return the error of a driver that is not ready, a context that is lost, and the like.
template <class Body>
CUresult in_driver(Body&& body) {
  Driver* state = driver();
  if (state == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (CallbackScope::inside()) return CUDA_ERROR_NOT_PERMITTED;
  if (VirtualClock* clock = state->engines.clock()) clock->meet_host_thread();
  try {
    return body(*state);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;  // no more threads
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// body(Driver&, Context&) with the current context.
template <class Body>
CUresult in_context(Body&& body) {
  return in_driver([&](Driver& state) {
    std::shared_ptr<Context> context;
    if (CUresult result = state.current(&context); result != CUDA_SUCCESS) return result;
    if (CUresult error = context->error(); error != CUDA_SUCCESS) return error;
    return static_cast<CUresult>(body(state, *context));
  });
}

// body(Driver&, Context&, Stream&) with a stream and its own context.
template <class Body>
CUresult in_stream(CUstream handle, Body&& body) {
  return in_driver([&](Driver& state) {
    std::shared_ptr<Stream> stream;
    if (CUresult result = state.stream(handle, &stream); result != CUDA_SUCCESS) return result;
    if (CUresult error = stream->context->error(); error != CUDA_SUCCESS) return error;
    return static_cast<CUresult>(body(state, *stream->context, *stream));
  });
}

// The same for calls that queue work which cannot be captured: blocks while the stream is full.
template <class Body>
CUresult queue_in(CUstream handle, Body&& body) {
  return in_stream(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (auto refused = state.captures.refuse(stream)) return *refused;
    stream.queue->wait_for_room();
    return static_cast<CUresult>(body(state, context, stream));
  });
}

// The same for calls after which the host may count on something: they are no part of a capture.
template <class Body>
CUresult queue_and_wait(CUstream handle, Body&& body) {
  return queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
    return static_cast<CUresult>(body(state, context, stream));
  });
}

// For calls that queue work, or become a node where the stream is captured: then
// describe(Driver&, Context&, Work*) says of what, instead of body; it may ask for the Stream, too,
// before the Work.
template <class Describe, class Body>
CUresult queue_or_capture(CUstream handle, Describe&& describe, Body&& body) {
  return in_stream(handle, [&](Driver& state, Context& context, Stream& stream) {
    auto captured = state.captures.record(stream, [&](Work* work) {
      if constexpr (requires { describe(state, context, stream, work); }) {
        return static_cast<CUresult>(describe(state, context, stream, work));
      } else {
        return static_cast<CUresult>(describe(state, context, work));
      }
    });
    if (captured) return *captured;
    stream.queue->wait_for_room();
    return static_cast<CUresult>(body(state, context, stream));
  });
}

}  // namespace simcuda
