// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/pages_ahead.h"

#include <algorithm>

#include "tiers/staging/pages.h"

namespace gpusnap::veloc {

PagesAhead::PagesAhead(std::byte* start, uint64_t bytes, uint64_t step_bytes, unsigned threads)
    : start_(start),
      bytes_(bytes),
      step_bytes_(step_bytes),
      is_made_((bytes + step_bytes - 1) / step_bytes) {
  const std::lock_guard lock(mutex_);
  for (unsigned number = 0; number < threads; ++number) {
    Result<Join> started = start_thread({}, "history", [this] { run(); });
    if (!started.ok()) break;
    threads_.push_back(std::move(started.value()));
    ++running_;
  }
}

PagesAhead::~PagesAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  for (const Join& join : threads_) join();
}

void PagesAhead::wait_for(uint64_t step) {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [this, step] { return running_ == 0 || is_made_[step]; });
}

void PagesAhead::run() {
  std::unique_lock lock(mutex_);
  while (!is_ending_ && next_ < is_made_.size()) {
    const uint64_t step = next_++;
    lock.unlock();
    const bool made = make(step);
    lock.lock();
    is_made_[step] = true;
    if (!made) next_ = is_made_.size();
    made_.notify_all();
  }
  --running_;
  made_.notify_all();
}

// False: this system does not, or has no memory.
bool PagesAhead::make(uint64_t step) {
  std::byte* const start = start_ + step * step_bytes_;
  const uint64_t bytes = std::min(step_bytes_, bytes_ - step * step_bytes_);
  return populate_pages(start, bytes).ok();
}

}  // namespace gpusnap::veloc
