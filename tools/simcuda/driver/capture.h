// Streams that are captured: what is asked of them becomes nodes of a graph, and nothing runs.
//
// Thread-safe. A call that CUDA does not allow while a capture is open is an error here and makes
// the capture invalid; cuStreamEndCapture then says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/event.h"
#include "tools/simcuda/driver/graph.h"

namespace simcuda {

struct Capture {
  struct Member {
    std::shared_ptr<WorkQueue> queue;
    CUcontext context = nullptr;
    bool blocking = false;
    std::vector<std::shared_ptr<GraphNode>> heads;  // what its next node comes after
    std::vector<CUgraphNode> told;                  // the same, as last told to the program
  };
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;  // that began it
  std::shared_ptr<Graph> graph;
  bool given = false;  // the graph is the program's, and only grows
  const WorkQueue* origin = nullptr;
  bool invalid = false;
  bool open = true;
  std::map<const WorkQueue*, Member> members;
  // The last nodes of members that are gone: they have to be joined all the same.
  std::vector<std::shared_ptr<GraphNode>> left;
};

class Captures {
 public:
  struct Info {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    CUgraph graph = nullptr;
    const std::vector<CUgraphNode>* heads = nullptr;  // until the stream's next call
  };

  explicit Captures(Graphs& graphs) : graphs_(graphs) {}

  // `graph`: that what is captured becomes part of, behind `heads`; null: a new one.
  CUresult begin(const Stream& stream, CUstreamCaptureMode mode,
                 const std::shared_ptr<Graph>& graph = nullptr,
                 std::vector<std::shared_ptr<GraphNode>> heads = {});
  // The stream's next node also comes after `nodes`; with `replace`, after these alone.
  CUresult set_heads(const Stream& stream, const CUgraphNode* nodes, size_t count, bool replace);
  CUresult end(const Stream& stream, CUgraph* graph);
  CUresult info(const Stream& stream, Info* info);
  // The stream is gone. A capture that began in it ends with it; any other goes on without it.
  void forget(const Stream& stream);
  // Whether the stream is captured or was; for calls that then do other things.
  bool holds(const Stream& stream);

  // A call that queues work. Nothing: the stream is not captured, the call goes its way. Otherwise
  // what the call returns; describe(Work*) said what it is, which is a node now.
  template <class Describe>
  std::optional<CUresult> record(const Stream& stream, Describe&& describe) {
    if (count_ == 0) return std::nullopt;
    auto hold = graphs_.hold();
    Capture* capture = nullptr;
    CUresult result = check_use(stream, &capture);
    if (result != CUDA_SUCCESS) return result;
    if (capture == nullptr) return std::nullopt;
    Work work;
    result = describe(&work);
    if (result == CUDA_SUCCESS) add(*capture, stream, std::move(work));
    return result;
  }
  // For describe(): of a stream that is captured.
  CUgraph graph_of(const Stream& stream) { return find(stream)->graph->handle; }
  // The same for an event that is recorded, and for a wait for one, which may bring the stream in.
  std::optional<CUresult> record_event(const Stream& stream, Event& event);
  std::optional<CUresult> wait_event(const Stream& stream, Event& event);
  // A call that cannot be captured, and waits for the stream or asks how far it is.
  std::optional<CUresult> refuse(const Stream& stream);
  // A call that waits for all of a context.
  CUresult check_wait(const Context& context);
  // A call that a capture does not see and that might be meant to be part of it.
  CUresult check_unsafe();
  // The calling thread's mode, which decides what counts as unsafe.
  static CUstreamCaptureMode& thread_mode();

 private:
  Capture* find(const Stream& stream);
  // A capture of a stream that this legacy default stream would wait for, or null.
  Capture* waits_for_captured(const Stream& stream) const;
  CUresult check_use(const Stream& stream, Capture** capture);
  void add(Capture& capture, const Stream& stream, Work work);
  void close(Capture* capture);
  // Closes it, and with it goes the graph that was made for it.
  void discard(Capture& capture);

  Graphs& graphs_;  // whose lock guards all of this
  std::atomic<int> count_{0};
  uint64_t next_id_ = 1;
  std::vector<std::shared_ptr<Capture>> open_;
};

}  // namespace simcuda
