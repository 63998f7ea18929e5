#include "tools/simcuda/driver/virtual_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tools/simcuda/driver/thread_owned.h"

namespace simcuda {
namespace {

using Wall = std::chrono::steady_clock;

// A thread that sleeps for less than this is awake again before the clock goes on by itself.
constexpr auto kShortSleep = std::chrono::microseconds(200);

// Whether a thread of this process waits for something other than a disk.
bool sleeps(int thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[256] = {};
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  // The state comes after the name, which may hold anything.
  const char* name_end = size > 0 ? std::strrchr(text, ')') : nullptr;
  return name_end != nullptr && name_end + 2 < text + size && name_end[2] == 'S';
}

int64_t wall() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Wall::now().time_since_epoch())
      .count();
}

}  // namespace

VirtualClock::VirtualClock(const ClockSettings& settings, int devices, Stats& stats)
    : pace_(static_cast<int64_t>(settings.pace)),
      devices_(static_cast<size_t>(devices)),
      stats_(stats),
      wall_(wall()),
      lines_(devices_ * (kEngines + devices_)) {}

int64_t VirtualClock::now_locked() const {
  if (holds_ > 0) return base_;
  int64_t time = base_ + (wall() - wall_) / pace_;
  return ends_.empty() ? time : std::min(time, *ends_.begin());
}

int64_t VirtualClock::now() {
  std::lock_guard lock(mutex_);
  return now_locked();
}

void VirtualClock::hold_locked() {
  base_ = now_locked();
  ++holds_;
}

void VirtualClock::release_locked() {
  if (--holds_ > 0) return;
  wall_ = wall();
  changed_.notify_all();
}

void VirtualClock::hold() {
  std::lock_guard lock(mutex_);
  hold_locked();
}

void VirtualClock::release() {
  std::lock_guard lock(mutex_);
  release_locked();
}

struct VirtualClock::HostThread {
  VirtualClock* clock = nullptr;
  pid_t process = 0;
  std::list<Host>::iterator place;
  ~HostThread() {
    // In a forked child the lock may be one that nobody opens any more.
    if (clock == nullptr || process != getpid()) return;
    std::lock_guard lock(clock->mutex_);
    clock->hosts_.erase(place);
    clock->changed_.notify_all();
  }
  static HostThread& mine() { return thread_owned<HostThread>(); }
};

void VirtualClock::meet_host_thread() {
  HostThread& mine = HostThread::mine();
  if (mine.clock != nullptr) return;
  std::lock_guard lock(mutex_);
  mine.clock = this;
  mine.process = getpid();
  mine.place = hosts_.insert(hosts_.end(), {gettid(), false});
}

bool VirtualClock::host_waits() const {
  return host_functions_ == 0 && !hosts_.empty() &&
         std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.waits; });
}

bool VirtualClock::host_sleeps() const {
  return host_functions_ == 0 && std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
           return host.waits || sleeps(host.thread);
         });
}

void VirtualClock::fall_asleep(Sleeper sleeper) {
  std::lock_guard lock(mutex_);
  if (sleeper == Sleeper::kStream) {
    release_locked();
  } else {
    HostThread::mine().place->waits = true;
    changed_.notify_all();
  }
}

void VirtualClock::wake() {
  std::lock_guard lock(mutex_);
  hold_locked();
}

void VirtualClock::awake() {
  std::lock_guard lock(mutex_);
  HostThread::mine().place->waits = false;
  release_locked();
}

void VirtualClock::enter_host_function() {
  std::lock_guard lock(mutex_);
  ++host_functions_;
  release_locked();
}

void VirtualClock::leave_host_function() {
  std::lock_guard lock(mutex_);
  hold_locked();
  --host_functions_;
}

void VirtualClock::acquire(const Channel& channel) {
  std::unique_lock lock(mutex_);
  Line& queue = line(channel);
  if (!queue.busy) {
    queue.busy = true;
    return;
  }
  bool mine = false;
  queue.waiting.push_back(&mine);
  release_locked();
  changed_.wait(lock, [&] { return mine; });
}

void VirtualClock::finish(const Channel& channel, int64_t duration) {
  std::unique_lock lock(mutex_);
  sleep_until(lock, base_ + duration);
  stats_.busy[static_cast<size_t>(channel.engine)] += static_cast<uint64_t>(duration);
  stats_.virtual_nanoseconds += static_cast<uint64_t>(base_ - told_);
  told_ = base_;
  Line& queue = line(channel);
  if (queue.waiting.empty()) {
    queue.busy = false;
    return;
  }
  *queue.waiting.front() = true;
  queue.waiting.pop_front();
  hold_locked();
  changed_.notify_all();
}

// Operations that end together are woken one by one; the clock stands still until the last of them
// holds it, since it passes no end.
void VirtualClock::sleep_until(std::unique_lock<std::mutex>& lock, int64_t end) {
  auto place = ends_.insert(end);
  release_locked();
  while (now_locked() < end) {
    if (holds_ > 0 || *ends_.begin() < end) {
      changed_.wait(lock);
    } else if (host_waits()) {
      base_ = end;
      wall_ = wall();
    } else {
      const auto due = Wall::time_point(std::chrono::nanoseconds(wall_ + (end - base_) * pace_));
      const auto look = Wall::now() + kShortSleep;
      if (changed_.wait_until(lock, std::min(look, due)) == std::cv_status::no_timeout) continue;
      if (holds_ == 0 && *ends_.begin() == end && host_sleeps()) {
        base_ = end;
        wall_ = wall();
      }
    }
  }
  hold_locked();
  ends_.erase(place);
  changed_.notify_all();
}

}  // namespace simcuda
