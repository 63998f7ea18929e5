// SPDX-License-Identifier: Apache-2.0
#include "interpose/record/host_callbacks.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <semaphore>
#include <utility>

#include "interpose/record/thread_state.h"
#include "tiers/unlocked.h"

namespace gpusnap {

HostCallbacks::HostCallbacks(const Neighbours& neighbours, std::function<void()> ended)
    : with_(neighbours), ended_(std::move(ended)) {}

// Looks again after a while: the end of the recording is not notified.
void HostCallbacks::wait() {
  constexpr std::chrono::seconds kLongWait{10};
  (void)with_.lock.wait_until(changed_, CallLock::Clock::now() + kLongWait);
}

void HostCallbacks::launched(HostCallback& callback) {
  callback.number = count_++;
  callback.journaled = true;
  changed_.notify_all();
}

void HostCallbacks::launched(const std::vector<GraphCallback*>& callbacks) {
  if (callbacks.empty()) return;
  for (GraphCallback* callback : callbacks) callback->launched.push_back(count_++);
  changed_.notify_all();
}

// It may look at all that its stream has brought the host, and at what other streams have that it
// comes after.
void HostCallbacks::journal_begin(uint64_t number, CUresult status, Deliveries::Moment moment) {
  Deliveries& deliveries = with_.deliveries;
  // Otherwise the program's host code may be changing that memory.
  const bool in_call = with_.calls.hold_only_thread();
  const auto taken = deliveries.collect(moment, in_call && !deliveries.function_runs());
  if (taken.doubt != nullptr) with_.doubt.store(taken.doubt, std::memory_order_relaxed);
  deliveries.function_begins();
  const uint8_t flags = taken.flags | (in_call ? kInCall : 0);
  recorder_->append_callback(kCallbackEntry, number, status, flags, deliveries.deliveries());
}

void HostCallbacks::journal_end(uint64_t number) {
  if (!recording()) return;
  recorder_->append_callback(kCallbackEndEntry, number, CUDA_SUCCESS, 0, {});
  with_.deliveries.function_ends();
}

void HostCallbacks::run(HostCallback& callback, CUresult status) {
  const ForeignLock lock(with_.lock);
  while (recording() && !callback.journaled) wait();
  if (recording()) journal_begin(callback.number, status, Deliveries::Moment::kFunction);
  {
    const Unlocked unlocked(with_.lock);
    const InFunction in_function;
    callback.function.run(status);
  }
  if (callback.journaled) journal_end(callback.number);
}

// The launches of one executable graph run one after the other, so its runs are theirs in order.
void HostCallbacks::run(GraphCallback& callback) {
  const ForeignLock lock(with_.lock);
  while (recording() && callback.launched.empty()) wait();
  const bool known = !callback.launched.empty();
  const uint64_t number = known ? callback.launched.front() : 0;
  if (known) callback.launched.pop_front();
  ++callback.running;
  if (recording() && known) {
    journal_begin(number, CUDA_SUCCESS, Deliveries::Moment::kGraphFunction);
  }
  {
    const Unlocked unlocked(with_.lock);
    const InFunction in_function;
    callback.function(callback.user);
  }
  if (known) journal_end(number);
  --callback.running;
}

void HostCallbacks::remember(HostFunction function) {
  (void)with_.driver.cuCtxGetCurrent(&function.context);
  launched_[count_++].function = function;
  ++moves_;
}

void HostCallbacks::begin(uint64_t number, CUresult status) {
  launched_.at(number).status = status;
  ready_.push_back(number);
  ++moves_;
  // All at work: one of them takes it when it is done.
  (void)with_.workers.spawn([this] { run_ready(); });
}

bool HostCallbacks::has_ended(uint64_t number) const {
  const auto found = launched_.find(number);
  return found == launched_.end() || found->second.done;
}

void HostCallbacks::take_ended(uint64_t number) {
  launched_.erase(number);
  ++moves_;
}

void HostCallbacks::run_here(const Launched& launched) {
  {
    const ForeignLock lock(with_.lock);
    threads_.insert(gettid());
  }
  const InFunction in_function;
  launched.function.run(launched.status);
}

// On this thread where the context or the function's own call is gone.
void HostCallbacks::run_in_stream(const Launched& launched) {
  struct Turn {
    HostCallbacks& callbacks;
    const Launched& launched;
    std::binary_semaphore ended{0};
  } turn{*this, launched};
  const Driver& driver = with_.driver;
  const RelaxedCapture relaxed(driver);
  const CurrentContext current(driver, launched.function.context);
  CUstream stream = nullptr;
  if (driver.cuLaunchHostFunc == nullptr ||
      driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    return run_here(launched);
  }
  const auto run = [](void* user) {
    auto& mine = *static_cast<Turn*>(user);
    mine.callbacks.run_here(mine.launched);
    mine.ended.release();
  };
  if (driver.cuLaunchHostFunc(stream, run, &turn) == CUDA_SUCCESS) {
    turn.ended.acquire();
  } else {
    run_here(launched);
  }
  if (driver.cuStreamDestroy_v2 != nullptr) (void)driver.cuStreamDestroy_v2(stream);
}

void HostCallbacks::run_ready() {
  const ForeignLock lock(with_.lock);
  while (!ready_.empty()) {
    const uint64_t number = ready_.front();
    ready_.erase(ready_.begin());
    ++moves_;
    const Launched launched = launched_.at(number);
    {
      const Unlocked unlocked(with_.lock);
      run_in_stream(launched);
    }
    launched_.at(number).done = true;
    ++moves_;
    changed_.notify_all();
    ended_();
  }
}

void HostFunction::run(CUresult status) const {
  plain != nullptr ? plain(user) : callback(stream, status, user);
}

void run_stream_callback(CUstream stream, CUresult status, void* user) {
  const std::unique_ptr<HostCallback> callback(static_cast<HostCallback*>(user));
  callback->function.stream = stream;
  callback->callbacks->run(*callback, status);
}

void run_host_callback(void* user) {
  run_stream_callback(nullptr, CUDA_SUCCESS, user);
}

void run_graph_callback(void* user) {
  auto& callback = *static_cast<GraphCallback*>(user);
  callback.callbacks->run(callback);
}

}  // namespace gpusnap
