#include "tools/simcuda/driver/work_queue.h"

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

Point WorkQueue::push(std::vector<Point> after, Task task) {
  std::lock_guard lock(mutex_);
  if (!started_) start();
  items_.push_back({std::move(after), std::move(task)});
  ++pushed_;
  changed_.notify_all();
  return {shared_from_this(), pushed_};
}

void WorkQueue::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return items_.size() < kDepth; });
}

Point WorkQueue::last() {
  std::lock_guard lock(mutex_);
  return {shared_from_this(), pushed_};
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
