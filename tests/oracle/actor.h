// One host thread of a random program: its streams, its memory, and the order in which its streams
// touch that memory. Two actors never touch the same memory at the same time, and whatever of one
// actor touches memory that another stream touched last waits for that stream: races are excluded
// by construction, so the program computes the same in every run.
//
// All that is drawn comes from the seed and the actor's number.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace oracle {

[[noreturn]] inline void fail(const char* what, CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  std::fprintf(stderr, "random_program: %s: %s\n", what, name);
  std::_Exit(1);
}
// --faults: a call may fail for want of something, once; the program then goes on without what it
// was to do.
inline bool tolerant = false;

// Whether the call did what it was to do; ends the program where it must have.
inline bool done(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return true;
  if (tolerant && (result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_OPERATING_SYSTEM ||
                   result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)) {
    return false;
  }
  fail(call, result);
}
#define TRY(call) oracle::done((call), #call)
#define CHECK(call) (void)TRY(call)
// For calls of an actor: in whichever form suits the stream.
#define IN_STREAM(call, stream, ...) \
  CHECK(in_stream(call, call##_ptsz, stream __VA_OPT__(, ) __VA_ARGS__))
#define AT_ONCE(call, stream, ...) \
  CHECK(((stream) == CU_STREAM_PER_THREAD ? call##_ptds : (call))(__VA_ARGS__))
// For what the program cannot go on without.
#define AGAIN(call) \
  do {              \
  } while (!TRY(call))

class Draw {
 public:
  Draw(uint64_t seed, uint64_t actor) : engine_(seed * 0x9e3779b97f4a7c15 + actor) {}
  // 0 .. limit - 1
  uint64_t below(uint64_t limit) { return engine_() % limit; }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  unsigned word() { return static_cast<unsigned>(engine_()); }
  template <class T>
  T& of(std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// Physical memory and where it is mapped: pieces in a row, at one range of addresses or at two.
struct Mapped {
  std::vector<CUmemGenericAllocationHandle> pieces;
  bool held = true;  // beside its mappings
  CUdeviceptr address = 0;
  CUdeviceptr twin = 0;  // 0: it has none
};

// Bytes that the device can reach, and the stream that touched them last.
struct Memory {
  enum class Kind { kDevice, kVariable, kPinned, kManaged };
  Kind kind = Kind::kDevice;
  CUdeviceptr address = 0;
  uint64_t size = 0;               // bytes
  bool pool = false;               // stream-ordered
  std::unique_ptr<Mapped> mapped;  // virtual memory management's
  CUstream last = nullptr;
  bool touched = false;  // since the host last waited for `last`

  uint64_t words() const { return size / 4; }
  // Where it is a second time.
  CUdeviceptr twin() const { return mapped->twin + (address - mapped->address); }
};

// A part of a memory.
struct Part {
  Memory* memory = nullptr;
  CUdeviceptr address = 0;
  uint64_t size = 0;  // bytes

  unsigned* pointer() const { return reinterpret_cast<unsigned*>(address); }
  unsigned words() const { return static_cast<unsigned>(size / 4); }
};

// --trace: what each step touches, to standard error.
inline bool tracing = false;
[[gnu::format(printf, 1, 2)]] inline void trace(const char* format, ...) {
  if (!tracing) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
}

class Actor {
 public:
  Actor(uint64_t seed, unsigned number, CUcontext context, unsigned steps, bool uses_pools)
      : draw_(seed, number), context_(context), steps_(steps), uses_pools_(uses_pools) {}
  virtual ~Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Folds what the program has seen into one number, the same in every run.
  uint64_t seen() const { return seen_; }

 protected:
  // ---- streams and their order
  CUstream pick_stream() { return draw_.of(streams_); }
  // For calls that name none: that of calls for per-thread streams, too.
  CUstream pick_default() { return draw_.chance(70) ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD; }
  // A null stream is one or the other default stream, by the call's form: whether that for
  // per-thread streams is to be used, and what it is to be given.
  std::pair<bool, CUstream> given_as(CUstream stream);
  // A call of the form that suits the stream, which is its last argument.
  template <class F, class... A>
  CUresult in_stream(F* plain, F* per_thread, CUstream stream, A... arguments) {
    const auto [use_ptsz, given] = given_as(stream);
    return (use_ptsz ? per_thread : plain)(arguments..., given);
  }
  void add_stream();
  void drop_stream();
  // `stream` is about to touch the memory.
  void touch(Memory& memory, CUstream stream);
  // The host is about to touch the memory.
  void wait_for(Memory& memory);
  void wait_for(CUstream stream);
  void wait_for_all();
  // An event behind all that this actor's streams have done to the memory.
  CUevent mark(Memory& memory);

  // ---- memory
  Memory& allocate(uint64_t size);
  void release(size_t index);
  void add_pool();
  void drop_pool();
  // A few bytes around the border of two pieces of physical memory, or at the end of one.
  Memory& allocate_mapped();
  // Goes elsewhere, is mapped a second time, or is nowhere for some time.
  void remap(Memory& memory);
  // Pools let go of what nobody uses.
  void trim_pools();
  uint64_t random_size();
  uint64_t bytes_allocated() const;
  Memory& pick_memory() { return *draw_.of(memories_); }
  // At least one word, at a multiple of four.
  Part pick_part(Memory& memory);
  // Parts of two different memories, or disjoint halves of one.
  std::pair<Part, Part> pick_two();
  // Bytes for a copy from the host; they stay until the host has waited for everything.
  std::vector<unsigned char>& host_bytes(uint64_t size);

  void see(const void* bytes, size_t size);

  Draw draw_;
  const CUcontext context_;
  const unsigned steps_;
  const bool uses_pools_;
  std::vector<CUstream> streams_;  // legacy and per-thread ones among them
  std::vector<CUstream>
      blocking_;  // of those, the ones that legacy work waits for and that wait for it
  std::vector<std::unique_ptr<Memory>> memories_;  // allocations
  std::vector<std::unique_ptr<Memory>> others_;  // variables of the module, what the host sees too
  std::vector<std::vector<unsigned char>> kept_;
  uint64_t seen_ = 0xcbf29ce484222325;
  CUmemoryPool pool_ = nullptr;  // its own, beside the device's

 private:
  void allocate_ordered(Memory& memory);
  CUdeviceptr map(const Mapped& mapped);
  static void unmap(const Mapped& mapped, CUdeviceptr address);
  void hold(Mapped& mapped);
  CUdeviceptr place_of(const Memory& memory);
  bool ordered_anyway(CUstream one, CUstream other) const;
  template <class Is>
  void settle(const Is& is_settled);
};

}  // namespace oracle
