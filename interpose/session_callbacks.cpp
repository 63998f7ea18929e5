// Functions of the host that run in streams. While recording they run on the driver's threads; the
// journal has where each began, with what it could see of memory that the device writes too, and
// where it ended. In a replay it is begun when its entry comes up, on a thread of ours, and what
// came after its end waits for it.

#include <unistd.h>

#include <utility>

#include "interpose/session.h"

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;
}  // namespace

void Session::lock_foreign() {
  if (!own_.met) {
    own_.met = true;
    lock_.share();
  }
  lock_.lock();
}

void Session::callback_launched(HostCallback& callback) {
  callback.number = callback_count_++;
  callback.journaled = true;
  callback_changed_.notify_all();
}

void Session::remember_callback(const HostFunction& function) {
  callbacks_[callback_count_++].function = function;
}

bool Session::note_told(const char* what) {
  Session* s = the_session_.load(std::memory_order_acquire);
  if (s == nullptr || s->mode() == Mode::kOff) return true;
  if (own_.in_driver && s->recording()) s->foreign_.store(what, std::memory_order_relaxed);
  return own_.in_driver;
}

// It may look at all that its stream has brought the host, and at what other streams have that it
// comes after.
void Session::journal_callback(uint64_t number, CUresult status, Deliveries::Moment moment) {
  // Otherwise the program's host code may be changing that memory.
  const bool in_call = !several_threads_ && calls_in_driver_ != 0;
  const auto taken = deliveries_.collect(moment, in_call && !deliveries_.function_runs());
  if (taken.doubt != nullptr) foreign_.store(taken.doubt, std::memory_order_relaxed);
  deliveries_.function_begins();
  const uint8_t flags = taken.flags | (in_call ? kInCall : 0);
  recorder_->append_callback(kCallbackEntry, number, status, flags, deliveries_.deliveries());
}

void Session::callback_begins(HostCallback& callback, CUresult status) {
  lock_foreign();
  while (recording() && !callback.journaled) {
    (void)lock_.wait_until(callback_changed_, Clock::now() + kLongWait);
  }
  if (recording()) journal_callback(callback.number, status, Deliveries::Moment::kFunction);
  lock_.unlock();
}

void Session::graph_launched(const std::vector<GraphCallback*>& callbacks) {
  if (callbacks.empty()) return;
  for (GraphCallback* callback : callbacks) callback->launched.push_back(callback_count_++);
  callback_changed_.notify_all();
}

// The launches of one executable graph run one after the other, so its runs are theirs in order.
void Session::run_in_graph(GraphCallback& callback) {
  lock_foreign();
  while (recording() && callback.launched.empty()) {
    (void)lock_.wait_until(callback_changed_, Clock::now() + kLongWait);
  }
  const bool known = !callback.launched.empty();
  const uint64_t number = known ? callback.launched.front() : 0;
  if (known) callback.launched.pop_front();
  ++callback.running;
  if (recording() && known) {
    journal_callback(number, CUDA_SUCCESS, Deliveries::Moment::kGraphFunction);
  }
  lock_.unlock();
  callback.function(callback.user);
  lock_foreign();
  if (known) end_callback(number);
  --callback.running;
  lock_.unlock();
}

void run_graph_callback(void* user) {
  auto& callback = *static_cast<GraphCallback*>(user);
  callback.session->run_in_graph(callback);
}

void Session::callback_ends(const HostCallback& callback) {
  lock_foreign();
  if (callback.journaled) end_callback(callback.number);
  lock_.unlock();
}

void Session::end_callback(uint64_t number) {
  if (!recording()) return;
  recorder_->append_callback(kCallbackEndEntry, number, CUDA_SUCCESS, 0, {});
  deliveries_.function_ends();
}

// Reads the next entry. Callbacks are nobody's turn: they begin when they come up; one that began
// inside a call, only when its thread has come to that call (is `in_call`), since host code before
// it must not meet what this one is to see.
void Session::pass_callbacks(std::string_view in_call) {
  for (;;) {
    read_next();
    const uint16_t kind = entry_.head.hook;
    if (kind != kCallbackEntry && kind != kCallbackEndEntry) return;
    const auto found = entry_.words.empty() ? callbacks_.end() : callbacks_.find(entry_.words[0]);
    if (found == callbacks_.end()) {
      fatal(kExitDamaged, "the replay journal has a host function that was not launched");
    }
    if (kind == kCallbackEntry) {
      if ((entry_.head.flags & kInCall) != 0 && in_call != replayer_->thread()) return;
      deliver(entry_);
      found->second.status = static_cast<CUresult>(entry_.head.result);
      begin_callback(found->first);
    } else if (found->second.done) {
      callbacks_.erase(found);
    } else {
      return;
    }
    entry_read_ = false;
  }
}

void Session::begin_callback(uint64_t number) {
  ready_callbacks_.push_back(number);
  // All at work: one of them takes it when it is done.
  (void)callers_.spawn([this] { run_callbacks(); });
}

void Session::run_callbacks() {
  lock_foreign();
  host_function_threads_.insert(gettid());
  while (!ready_callbacks_.empty()) {
    const uint64_t number = ready_callbacks_.front();
    ready_callbacks_.erase(ready_callbacks_.begin());
    const ReplayedCallback callback = callbacks_.at(number);
    lock_.unlock();
    callback.function.run(callback.status);
    lock_.lock();
    callbacks_.at(number).done = true;
    callback_changed_.notify_all();
    // A thread inside a call passes them at its end.
    if (!turn_taken_ && replaying() && !cut_delivered_) {
      const std::string thread = replayer_->thread();
      pass_callbacks(waiting_.contains(path_at(thread)) ? thread : "");
    }
    if (!turn_taken_) wake();
  }
  lock_.unlock();
}

void HostFunction::run(CUresult status) const {
  plain != nullptr ? plain(user) : callback(stream, status, user);
}

void run_stream_callback(CUstream stream, CUresult status, void* user) {
  const std::unique_ptr<HostCallback> callback(static_cast<HostCallback*>(user));
  callback->function.stream = stream;
  callback->session->callback_begins(*callback, status);
  callback->function.run(status);
  callback->session->callback_ends(*callback);
}

void run_host_callback(void* user) {
  run_stream_callback(nullptr, CUDA_SUCCESS, user);
}

}  // namespace gpusnap
