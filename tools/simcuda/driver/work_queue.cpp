#include "tools/simcuda/driver/work_queue.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

namespace simcuda {
namespace {

thread_local bool t_stream = false;  // the thread is a queue's

}  // namespace

bool Point::reached() const {
  if (!queue) return true;
  std::lock_guard lock(queue->mutex_);
  return queue->done_ >= number;
}

void Point::wait() const {
  if (queue) queue->wait_until_done(number);
}

void WorkQueue::wait_until_done(uint64_t number) {
  std::unique_lock lock(mutex_);
  if (done_ >= number) return;
  if (clock_ == nullptr) {
    changed_.wait(lock, [&] { return done_ >= number; });
    return;
  }
  Waiter waiter{number, t_stream ? Sleeper::kStream : Sleeper::kHost};
  waiters_.push_back(&waiter);
  clock_->fall_asleep(waiter.sleeper);
  changed_.wait(lock, [&] { return waiter.awake; });
  lock.unlock();
  if (waiter.sleeper == Sleeper::kHost) clock_->awake();
}

void WorkQueue::wake_waiters() {
  std::erase_if(waiters_, [this](Waiter* waiter) {
    if (waiter->number > done_) return false;
    waiter->awake = true;
    clock_->wake();
    return true;
  });
}

bool Point::before(const Point& later) const {
  if (!queue) return true;
  if (!later.queue) return false;
  if (queue == later.queue) return number <= later.number;
  if (!later.past) return number == 0;
  auto known = later.past->find(queue->id_);
  return number <= (known == later.past->end() ? 0 : known->second);
}

uint64_t WorkQueue::next_id() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

void WorkQueue::remember(const std::vector<Point>& after) {
  Point newest{shared_from_this(), pushed_, past_};
  if (std::ranges::all_of(after, [&](const Point& point) { return point.before(newest); })) return;
  auto past = past_ ? std::make_shared<Past>(*past_) : std::make_shared<Past>();
  auto add = [&](uint64_t queue, uint64_t number) {
    if (queue == id_) return;
    uint64_t& known = (*past)[queue];
    known = std::max(known, number);
  };
  for (const Point& point : after) {
    if (!point.queue) continue;
    add(point.queue->id_, point.number);
    if (!point.past) continue;
    for (const auto& [queue, number] : *point.past) add(queue, number);
  }
  past_ = std::move(past);
}

Point WorkQueue::push(std::vector<Point> after, Task task) {
  std::lock_guard lock(mutex_);
  if (!started_) start();
  remember(after);
  items_.push_back({std::move(after), std::move(task)});
  ++pushed_;
  if (idle_ && clock_ != nullptr) clock_->wake();
  idle_ = false;
  changed_.notify_all();
  return {shared_from_this(), pushed_, past_};
}

void WorkQueue::wait_for_room() {
  for (;;) {
    uint64_t number = 0;  // of tasks that have to be done, for less than kDepth to be left
    {
      std::lock_guard lock(mutex_);
      if (items_.size() < kDepth) return;
      number = pushed_ + 1 - kDepth;
    }
    wait_until_done(number);
  }
}

Point WorkQueue::last() {
  std::lock_guard lock(mutex_);
  return {shared_from_this(), pushed_, past_};
}

void WorkQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool WorkQueue::drained() {
  std::lock_guard lock(mutex_);
  return closed_ && done_ == pushed_;
}

// The program's signals are for the program's threads: ours takes none.
void WorkQueue::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  std::thread([self = shared_from_this()] { self->work(); }).detach();
  started_ = true;
}

// False: the queue is closed and nothing is left.
bool WorkQueue::wait_for_item(std::unique_lock<std::mutex>& lock) {
  if (!items_.empty()) return true;
  idle_ = true;
  if (clock_ != nullptr) clock_->fall_asleep(Sleeper::kStream);
  changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
  return !items_.empty();
}

void WorkQueue::work() {
  t_stream = true;
  std::unique_lock lock(mutex_);
  while (wait_for_item(lock)) {
    {
      Item item = std::move(items_.front());
      lock.unlock();
      for (const Point& point : item.after) point.wait();
      item.task();
    }
    lock.lock();
    items_.pop_front();
    ++done_;
    wake_waiters();
    changed_.notify_all();
  }
  started_ = false;  // a thread that was late with a push starts another
}

}  // namespace simcuda
