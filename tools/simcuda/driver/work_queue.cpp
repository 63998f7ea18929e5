#include "tools/simcuda/driver/work_queue.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>

namespace simcuda {

bool Point::reached() const {
  if (!queue) return true;
  std::lock_guard lock(queue->mutex_);
  return queue->done_ >= number;
}

void Point::wait() const {
  if (!queue) return;
  std::unique_lock lock(queue->mutex_);
  queue->changed_.wait(lock, [this] { return queue->done_ >= number; });
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
  changed_.notify_all();
  return {shared_from_this(), pushed_, past_};
}

void WorkQueue::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return items_.size() < kDepth; });
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

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      started_ = false;  // a thread that was late with a push starts another
      return;
    }
    {
      Item item = std::move(items_.front());
      lock.unlock();
      for (const Point& point : item.after) point.wait();
      item.task();
    }
    lock.lock();
    items_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace simcuda
