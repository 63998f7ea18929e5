// Streams, events and functions of the host that run in streams.

#include <algorithm>
#include <utility>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/event.h"
#include "tools/simcuda/driver/node_work.h"

namespace simcuda {
namespace {

CUresult create_stream(CUstream* handle, unsigned flags, int priority) {
  return in_context([&](Driver& state, Context& context) {
    if (handle == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    CUstream fresh = state.streams.reserve();
    int clamped = std::clamp(priority, kGreatestPriority, kLeastPriority);
    state.streams.insert(fresh, context.make_stream(fresh, flags, clamped));
    *handle = fresh;
    return CUDA_SUCCESS;
  });
}

bool is_stream_attribute(CUstreamAttrID attribute) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return true;
    default:
      return false;
  }
}

// The points that a synchronisation with a stream waits for: its own work. For the legacy default
// stream, they include the work that its next operation would wait for.
std::vector<Point> due(Context& context, Stream& stream) {
  std::vector<Point> points;
  if (stream.legacy) points = context.pending(false);
  points.push_back(stream.queue->last());
  return points;
}

// body(Driver&, Event&) with an event whose context is not lost.
template <class Body>
CUresult with_event(CUevent handle, Body&& body) {
  return in_driver([&](Driver& state) {
    auto event = state.events.find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    auto context = state.contexts.find(event->context);
    if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (CUresult error = context->error(); error != CUDA_SUCCESS) return error;
    CUresult result = body(state, *event);
    return context->error() != CUDA_SUCCESS ? context->error() : result;
  });
}

// In a function of the program time passes as it does for the host.
class HostFunctionScope {
 public:
  explicit HostFunctionScope(Driver& state) : clock_(state.engines.clock()) {
    if (clock_ != nullptr) clock_->enter_host_function();
  }
  ~HostFunctionScope() {
    if (clock_ != nullptr) clock_->leave_host_function();
  }
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;

 private:
  VirtualClock* clock_;
  CallbackScope scope_;
};

// An external record is done each time the graph is launched; any other only orders the capture.
CUresult record(CUevent handle, CUstream stream_handle, bool external) {
  return in_stream(stream_handle, [&](Driver& state, Context& context, Stream& stream) {
    auto event = state.events.find(handle);
    if (!event || event->context != context.handle()) return CUDA_ERROR_INVALID_HANDLE;
    auto captured = external ? state.captures.record(stream,
                                                     [&](Work* work) {
                                                       *work = RecordCall{handle};
                                                       return CUDA_SUCCESS;
                                                     })
                             : state.captures.record_event(stream, *event);
    if (captured) return *captured;
    stream.queue->wait_for_room();
    record_now(state, context, stream, *event);
    return CUDA_SUCCESS;
  });
}

// The same for a stream.
CUresult check_stream(Driver& state, const Stream& stream) {
  if (auto refused = state.captures.refuse(stream)) return *refused;
  return state.captures.check_unsafe();
}

// The task of a stream that waits for an event. If processes share it, it waits for their records.
WorkQueue::Task wait_for_others(Driver& state, Context& context, Event& event) {
  if (!event.shared) return [] {};
  return [&context, clock = state.engines.clock(), shared = event.shared,
          number = event.shared->latest()] {
    shared->wait(number, clock, [&] { return context.cancelled().load(); });
  };
}

// Checks that a call may ask for the event's place in its stream.
CUresult check_event(Driver& state, Event& event) {
  if (event.captured().capture) return CUDA_ERROR_CAPTURED_EVENT;
  return state.captures.check_unsafe();
}

CUresult elapsed(float* milliseconds, CUevent start, CUevent end) {
  return with_event(start, [&](Driver& state, Event& first) {
    auto second = state.events.find(end);
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!second || ((first.flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    Event::Record from = first.latest();
    Event::Record to = second->latest();
    if (!from.nanoseconds || !to.nanoseconds) return CUDA_ERROR_INVALID_HANDLE;
    if (!from.point.reached() || !to.point.reached()) return CUDA_ERROR_NOT_READY;
    *milliseconds =
        static_cast<float>(static_cast<double>(*to.nanoseconds - *from.nanoseconds) / 1e6);
    return CUDA_SUCCESS;
  });
}

}  // namespace

void run_host_function(Driver& state, CUhostFn function, void* user) {
  HostFunctionScope scope(state);
  function(user);
}

Point record_now(Driver& state, Context& context, const Stream& stream, Event& event) {
  auto time = std::make_shared<std::atomic<int64_t>>(0);
  Point point = context.submit(
      stream,
      [time, &state, shared = event.shared, number = event.shared ? event.shared->record() : 0] {
        *time = state.engines.now();
        if (shared) shared->reach(number);
      },
      Context::When::kAlways);
  event.set({point, std::move(time)});
  return point;
}

}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::Event;
using simcuda::in_context;
using simcuda::in_driver;
using simcuda::in_stream;
using simcuda::Point;
using simcuda::queue_in;
using simcuda::Stream;
using simcuda::with_event;

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return simcuda::create_stream(stream, flags, simcuda::kLeastPriority);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return simcuda::create_stream(stream, flags, priority);
}

// Returns at once; what is queued is still done. CUDA's documents say nothing of streams that are
// captured. NVIDIA's own cuda.core destroys each stream that it has joined while the capture goes
// on; where one was destroyed unjoined, the end of the capture says so (NVIDIA/cuda-python, issue
// 2776 and pull request 2881).
CUresult cuStreamDestroy_v2(CUstream handle) {
  const CUresult result = in_driver([&](Driver& state) {
    auto stream = state.streams.remove(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    state.captures.forget(*stream);
    stream->queue->close();
    return stream->context->error();
  });
  simcuda::clean_up_graphs();
  return result;
}

CUresult cuStreamDestroy(CUstream stream) {
  return cuStreamDestroy_v2(stream);
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return in_stream(handle, [&](Driver&, Context&, Stream& stream) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return in_stream(handle, [&](Driver&, Context&, Stream& stream) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return in_stream(handle, [&](Driver&, Context&, Stream& stream) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return in_stream(handle, [&](Driver&, Context& context, Stream&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = context.device();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return in_stream(handle, [&](Driver&, Context& context, Stream&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = context.handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, out);
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  return in_stream(handle, [&](Driver&, Context& context, Stream& stream) {
    if (value == nullptr || !simcuda::is_stream_attribute(attribute)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto attributes = context.attributes_of(stream.id);
    const auto found = attributes.find(attribute);
    *value = found != attributes.end() ? found->second : CUstreamAttrValue{};
    if (found != attributes.end()) return CUDA_SUCCESS;
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream.priority;
    if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
      value->syncPolicy = CU_SYNC_POLICY_AUTO;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                              const CUstreamAttrValue* value) {
  return in_stream(handle, [&](Driver&, Context& context, Stream& stream) {
    if (value == nullptr || !simcuda::is_stream_attribute(attribute)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto attributes = context.attributes_of(stream.id);
    attributes[attribute] = *value;
    context.set_attributes_of(stream.id, std::move(attributes));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return in_stream(from, [&](Driver& state, Context& context, Stream& source) {
    std::shared_ptr<Stream> target;
    const CUresult result = state.stream(to, &target);
    if (result != CUDA_SUCCESS) return result;
    if (target->context.get() != &context) return CUDA_ERROR_INVALID_VALUE;
    context.set_attributes_of(target->id, context.attributes_of(source.id));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return in_stream(handle, [](Driver& state, Context& context, Stream& stream) {
    if (CUresult bad = simcuda::check_stream(state, stream); bad != CUDA_SUCCESS) return bad;
    for (const Point& point : simcuda::due(context, stream)) {
      if (!point.reached()) return CUDA_ERROR_NOT_READY;
    }
    return context.error();
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return in_stream(handle, [](Driver& state, Context& context, Stream& stream) {
    if (CUresult bad = simcuda::check_stream(state, stream); bad != CUDA_SUCCESS) return bad;
    const auto points = simcuda::due(context, stream);
    for (const Point& point : points) point.wait();
    for (const Point& point : points) state.pools.synchronised(point);
    context.show_printed();
    return context.error();
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return in_stream(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    auto event = state.events.find(event_handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    auto captured = flags == CU_EVENT_WAIT_EXTERNAL
                        ? state.captures.record(stream,
                                                [&](simcuda::Work* work) {
                                                  *work = simcuda::WaitCall{event_handle};
                                                  return CUDA_SUCCESS;
                                                })
                        : state.captures.wait_event(stream, *event);
    if (captured) return *captured;
    stream.queue->wait_for_room();
    // Also behind an event that has passed: what is ordered must not depend on how far streams are.
    context.submit(stream, simcuda::wait_for_others(state, context, *event), Context::When::kAlways,
                   {event->latest().point});
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
  if (function == nullptr) {
    return in_stream(handle, [](auto&, auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return simcuda::queue_or_capture(
      handle,
      [&](Driver&, Context&, simcuda::Work* work) {
        *work = simcuda::HostCall{function, user};
        return CUDA_SUCCESS;
      },
      [&](Driver& state, Context& context, Stream& stream) {
        context.submit(stream, [=, &state] { simcuda::run_host_function(state, function, user); });
        return CUDA_SUCCESS;
      });
}

// Unlike a host function, a callback is called after a fault too, and told.
CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user,
                             unsigned flags) {
  return queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto call = [callback, user, handle, &state, owner = context.shared_from_this()] {
      simcuda::HostFunctionScope scope(state);
      callback(handle, owner->error(), user);
    };
    context.submit(stream, std::move(call), Context::When::kAlways);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    constexpr unsigned kKnown =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
    if (event == nullptr || (flags & ~kKnown) != 0 ||
        (shared && (flags & CU_EVENT_DISABLE_TIMING) == 0)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto fresh = std::make_shared<Event>();
    if (shared) fresh->shared = simcuda::SharedMarks::make();
    if (shared && !fresh->shared) return CUDA_ERROR_OUT_OF_MEMORY;
    fresh->handle = state.events.reserve();
    fresh->context = context.handle();
    fresh->flags = flags;
    *event = fresh->handle;
    state.events.insert(*event, std::move(fresh));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return in_driver([&](Driver& state) {
    return state.events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuEventDestroy(CUevent event) {
  return cuEventDestroy_v2(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return simcuda::record(event, stream, false);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::record(event, stream, flags == CU_EVENT_RECORD_EXTERNAL);
}

CUresult cuEventQuery(CUevent handle) {
  return with_event(handle, [](Driver& state, Event& event) {
    if (CUresult bad = simcuda::check_event(state, event); bad != CUDA_SUCCESS) return bad;
    const bool others = !event.shared || event.shared->reached(event.shared->latest());
    return others && event.latest().point.reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return with_event(handle, [](Driver& state, Event& event) {
    if (CUresult bad = simcuda::check_event(state, event); bad != CUDA_SUCCESS) return bad;
    const Point point = event.latest().point;
    point.wait();
    state.pools.synchronised(point);
    if (event.shared) {
      event.shared->wait(event.shared->latest(), nullptr, [] { return false; });
    }
    if (const auto context = state.contexts.find(event.context)) context->show_printed();
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return simcuda::elapsed(milliseconds, start, end);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return simcuda::elapsed(milliseconds, start, end);
}
