#include "interpose/snapshot/stream_waits.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gpusnap {

namespace {
// A stream that is about to leave its wait may share a hardware queue with work of another stream
// that is not over yet: the end of a snapshot waits no longer for it.
constexpr std::chrono::seconds kLongestEnd{1};
}  // namespace

CUevent StreamWaits::begin(CUstream stream) {
  const CUevent from = events_.take();
  if (from == nullptr || driver_.cuEventRecord(from, stream) == CUDA_SUCCESS) return from;
  events_.give_back(from);
  return nullptr;
}

void StreamWaits::end(CUevent from, CUstream stream) {
  if (from == nullptr) return;
  Wait wait{from, events_.take()};
  if (wait.to == nullptr || driver_.cuEventRecord(wait.to, stream) != CUDA_SUCCESS) {
    events_.give_back(wait.to);
    wait = {from, from, false};
  }
  std::lock_guard lock(mutex_);
  waits_.push_back(wait);
}

void StreamWaits::collect() {
  for (;;) {
    Wait oldest;
    {
      std::lock_guard lock(mutex_);
      if (waits_.empty()) return;
      oldest = waits_.front();
    }
    if (!passed(oldest.to)) return;
    settle(oldest);
    std::lock_guard lock(mutex_);
    waits_.pop_front();
  }
}

uint64_t StreamWaits::finish() {
  std::deque<Wait> waits;
  {
    std::lock_guard lock(mutex_);
    waits.swap(waits_);
  }
  std::deque<Wait> open;
  for (Wait& wait : waits) {
    await_end(wait);
    if (passed(wait.to)) {
      settle(wait);
    } else {
      // Its events cannot be used for anything else before the stream has come to them.
      wait.counts = false;
      open.push_back(wait);
    }
  }
  std::lock_guard lock(mutex_);
  waits_.insert(waits_.begin(), open.begin(), open.end());
  return std::exchange(total_ns_, 0);
}

// A stream that has not come to its wait yet will not wait: the copies have arrived.
void StreamWaits::await_end(Wait& wait) {
  wait.counts = wait.counts && passed(wait.from);
  const auto limit = std::chrono::steady_clock::now() + kLongestEnd;
  while (wait.counts && !passed(wait.to) && std::chrono::steady_clock::now() < limit) usleep(20);
}

// A wait that ended by an error has passed, too; its time is not known.
bool StreamWaits::passed(CUevent event) const {
  return driver_.cuEventQuery(event) != CUDA_ERROR_NOT_READY;
}

void StreamWaits::settle(const Wait& wait) {
  float milliseconds = 0;
  if (wait.counts &&
      driver_.cuEventElapsedTime(&milliseconds, wait.from, wait.to) == CUDA_SUCCESS) {
    total_ns_ += static_cast<uint64_t>(std::max(milliseconds, 0.0F) * 1e6F);
  }
  events_.give_back(wait.from);
  if (wait.to != wait.from) events_.give_back(wait.to);
}

}  // namespace gpusnap
