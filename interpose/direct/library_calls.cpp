// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/library_calls.h"

#include <utility>

namespace gpusnap {

struct LibraryCalls::Call {
  CUcontext context = nullptr;
  std::function<void()> body;
  bool has_ended = false;
};

LibraryCalls::CallPtr LibraryCalls::add(CUcontext context, std::function<void()> body) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() == kMost) return nullptr;
  waiting_.push_back(std::make_shared<Call>(Call{context, std::move(body)}));
  added_.notify_one();
  return waiting_.back();
}

bool LibraryCalls::has_ended(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return call.has_ended;
}

bool LibraryCalls::withdraw(Call& call) {
  std::function<void()> body;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const size_t removed =
      std::erase_if(waiting_, [&](const CallPtr& each) { return each.get() == &call; });
  if (removed == 0) return false;
  body = std::move(call.body);
  return true;
}

bool LibraryCalls::is_under_way() const {
  const std::lock_guard lock(mutex_);
  return under_way_;
}

void LibraryCalls::make_next(const Driver& driver) {
  CallPtr call;
  {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [this] { return !waiting_.empty(); });
    call = std::move(waiting_.front());
    waiting_.pop_front();
    under_way_ = true;
  }
  {
    const CurrentContext current(driver, call->context);
    const RelaxedCapture relaxed(driver);
    call->body();
    call->body = nullptr;
  }
  const std::lock_guard lock(mutex_);
  call->has_ended = true;
  under_way_ = false;
}

}  // namespace gpusnap
