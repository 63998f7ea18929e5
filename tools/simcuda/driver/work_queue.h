// A stream's engine: a thread that does tasks in order, each after the tasks of other queues that
// it was told to wait for. Nothing else orders two queues, so a dependency that a program forgot
// shows.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/virtual_clock.h"

namespace simcuda {

class WorkQueue;

// The last task of each other queue, by its id, that lies before a place in a queue.
using Past = std::map<uint64_t, uint64_t>;

// A place in a queue: reached when the task of that number, and so all before it, is done.
struct Point {
  std::shared_ptr<WorkQueue> queue;  // null: reached from the start
  uint64_t number = 0;
  std::shared_ptr<const Past> past;  // null: nothing of other queues
  bool reached() const;
  void wait() const;
  // Whether this is reached whenever `later` is, by the order that the program asked for: never by
  // how far the queues happen to have come.
  bool before(const Point& later) const;
};

// Thread-safe. The thread starts with the first task, and ends after close() when nothing is left.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  using Task = std::function<void()>;

  // With a clock, the queue's thread and those that wait for it tell it what they do.
  explicit WorkQueue(VirtualClock* clock) : clock_(clock) {}

  // Most tasks that may wait before wait_for_room() blocks, as launches block on a real device.
  static constexpr size_t kDepth = 1024;

  // Appends a task that begins once all before it and every point in `after` are done. Tasks must
  // not throw. Throws std::bad_alloc or std::system_error when memory or threads have run out; the
  // queue is then as before.
  Point push(std::vector<Point> after, Task task);
  void wait_for_room();
  // The newest task.
  Point last();
  // No more tasks will come; what is queued still runs.
  void close();
  // Closed, and nothing is left to do.
  bool drained();

 private:
  friend struct Point;
  void remember(const std::vector<Point>& after);

  struct Item {
    std::vector<Point> after;
    Task task;
  };

  static uint64_t next_id();
  // A thread that waits until a number of tasks is done.
  struct Waiter {
    uint64_t number = 0;
    Sleeper sleeper;
    bool awake = false;
  };

  void start();
  void work();
  bool wait_for_item(std::unique_lock<std::mutex>& lock);
  void wait_until_done(uint64_t number);
  void wake_waiters();

  VirtualClock* const clock_;  // null: there is none

  const uint64_t id_ = next_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::shared_ptr<const Past> past_;  // of the newest task
  std::vector<Waiter*> waiters_;      // only with a clock
  uint64_t pushed_ = 0;
  uint64_t done_ = 0;
  bool started_ = false;
  bool idle_ = true;  // its thread, should there be one, waits for tasks
  bool closed_ = false;
};

}  // namespace simcuda
