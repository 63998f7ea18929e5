// The virtual clock of all devices, for SIMCUDA_CLOCK=virtual: the time in which operations take as
// long as the bytes that they touch take at the bandwidths that were set, however long the
// interpreter takes. The model is described in tools/simcuda/README.md.
//
// The clock stands still while anything happens at this very moment: each thread of a stream that
// is awake holds it. The waker of such a thread takes the hold for it, so that no time passes
// while the thread gets going, and an operation begins exactly when what it waited for ended. When
// nobody holds it, the clock runs towards the next end of an operation, SIMCUDA_PACE times slower
// than the host's; and at once where every thread of the host that uses the driver waits in it.
// Where some sleep elsewhere, as a thread that waits for work or polls now and then, it goes there
// after a while, so that who sleeps for less than that is not passed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "tools/simcuda/driver/engine_settings.h"
#include "tools/simcuda/driver/stats.h"

namespace simcuda {

// The thread that waits: a stream's, or one of the host's.
enum class Sleeper : uint8_t { kStream, kHost };

// Does one operation after the other: an engine of a device, or a link to another device.
struct Channel {
  static constexpr int kNoPeer = -1;

  int device = 0;
  Engine engine = Engine::kCompute;
  int peer = kNoPeer;  // with kCopy: the link from `device` to this one
};

// Thread-safe. Times are nanoseconds since the clock was made.
class VirtualClock {
 public:
  VirtualClock(const ClockSettings& settings, int devices, Stats& stats);

  int64_t now();

  // Keeps the clock where it is until as many release() as hold().
  void hold();
  void release();

  // The calling thread is one of the host's, from its first call here to its end.
  void meet_host_thread();
  // The calling thread is about to wait: a stream's gives up its hold.
  void fall_asleep(Sleeper sleeper);
  // Said of a sleeper by who ended its wait. It holds the clock from then on; a thread of the host
  // says when it is awake, which releases it.
  void wake();
  void awake();
  // The calling thread of a stream runs a function of the program in between, in time of the host.
  void enter_host_function();
  void leave_host_function();

  // Waits until the channel has nothing else to do, and takes it. Channels do what comes in the
  // order in which it came. The caller holds the clock, then and afterwards.
  void acquire(const Channel& channel);
  // The operation takes `duration` from now on: waits for its end and hands the channel over.
  void finish(const Channel& channel, int64_t duration);

 private:
  struct HostThread;  // registers the thread that it is local to
  struct Host {
    int thread = 0;  // as the system numbers them
    bool waits = false;
  };

  struct Line {
    bool busy = false;
    std::deque<bool*> waiting;  // set to true: it is theirs
  };

  int64_t now_locked() const;
  void hold_locked();
  void release_locked();
  void sleep_until(std::unique_lock<std::mutex>& lock, int64_t end);
  // Every thread of the host that uses the driver waits in it, or sleeps in the system.
  bool host_waits() const;
  bool host_sleeps() const;
  Line& line(const Channel& channel) {
    const size_t device = static_cast<size_t>(channel.device) * (kEngines + devices_);
    return lines_[device + (channel.peer == Channel::kNoPeer
                                ? static_cast<size_t>(channel.engine)
                                : kEngines + static_cast<size_t>(channel.peer))];
  }

  const int64_t pace_;
  const size_t devices_;
  Stats& stats_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t base_ = 0;  // virtual time when the clock last stood still
  int64_t wall_ = 0;  // the host's time when it last began to run
  int64_t told_ = 0;  // virtual time that is in the statistics
  int holds_ = 0;
  std::list<Host> hosts_;
  int host_functions_ = 0;
  std::multiset<int64_t> ends_;  // of operations in flight: the clock passes none
  std::vector<Line> lines_;      // of each device: its engines, then its links
};

}  // namespace simcuda
