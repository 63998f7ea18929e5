// What CUevent names.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/work_queue.h"

namespace simcuda {

struct Event {
  CUevent handle = nullptr;
  CUcontext context = nullptr;
  unsigned flags = 0;

  // One cuEventRecord: where it stands in its stream, and when the stream came there.
  struct Record {
    Point point;
    std::shared_ptr<std::atomic<int64_t>> nanoseconds;  // null: never recorded
  };
  Record latest() {
    std::lock_guard lock(mutex_);
    return record_;
  }
  void set(Record record) {
    std::lock_guard lock(mutex_);
    record_ = std::move(record);
  }

 private:
  std::mutex mutex_;
  Record record_;
};

}  // namespace simcuda
