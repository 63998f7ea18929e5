// The object that a CUevent names.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/shared_marks.h"
#include "tools/simcuda/driver/work_queue.h"

namespace simcuda {

class Context;
struct Capture;
struct GraphNode;

struct Event {
  CUevent handle = nullptr;
  CUcontext context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<SharedMarks>
      shared;  // of all processes that have it; null: it is this one's alone

  // One cuEventRecord: where it stands in its stream, and when the stream came there.
  struct Record {
    Point point;
    std::shared_ptr<std::atomic<int64_t>> nanoseconds;  // null: never recorded
  };
  // Recorded in a captured stream: it stands for nodes and never for a moment.
  struct Captured {
    std::shared_ptr<Capture> capture;  // null: it was not
    std::vector<std::shared_ptr<GraphNode>> heads;
  };
  Captured captured() {
    std::lock_guard lock(mutex_);
    return captured_;
  }
  void set_captured(Captured captured) {
    std::lock_guard lock(mutex_);
    captured_ = std::move(captured);
  }
  Record latest() {
    std::lock_guard lock(mutex_);
    return record_;
  }
  void set(Record record) {
    std::lock_guard lock(mutex_);
    record_ = std::move(record);
    captured_ = {};
  }

 private:
  std::mutex mutex_;
  Record record_;
  Captured captured_;
};

struct Driver;
struct Stream;

// Records the event in the stream, which is not captured.
Point record_now(Driver& state, Context& context, const Stream& stream, Event& event);

}  // namespace simcuda
