// Decides about a replay in which nothing moves: whether it goes on waiting, says who waits for
// whom, or is given up. Pure logic: it is told what is seen and when, and knows no clock, thread or
// driver.
//
// Nothing in a replay waits for ever, and no replay is given up because the machine is busy. A
// replay is given up after most of a minute in which
//   - no turn was taken, no entry was passed, no host function began or ended,
//   - no thread of the process computed, and
//   - each thread that matters (it has made a CUDA call, or is the awaited one) waited for its turn
//   or
//     for another thread, or had ended.
// A thread that sleeps for a time of its own, or waits for what comes from outside of the process,
// may go on by itself. While one that matters does so, the replay is not given up, and it is said
// again who waits for whom. Other threads do not count then: most programs have some that wait for
// work.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>

namespace gpusnap {

enum class Activity : uint8_t {
  kEnded,      // or never begun
  kTurn,       // waits in a call, for its turn in the replay
  kLock,       // waits for another thread: a lock, a condition, the end of a thread
  kTimedLock,  // the same, up to some moment
  kOutside,    // waits for a moment, or for what comes from outside of the process
  kRunning,
};

struct SeenThread {
  int id = 0;  // the system's
  Activity activity = Activity::kEnded;
  uint64_t cpu_ns = 0;  // that it has used so far
  bool matters = false;
  bool awaited = false;  // for its turn to come
};

class StallJudge {
 public:
  using Duration = std::chrono::nanoseconds;
  struct Limits {
    Duration look = std::chrono::seconds(5);      // from one look to the next, at least
    Duration counted = std::chrono::seconds(10);  // at most, of what is between two looks
    Duration say = std::chrono::seconds(10);      // until it is said for the first time
    Duration say_again = std::chrono::seconds(60);
    Duration stuck = std::chrono::seconds(10);
    Duration give_up = std::chrono::seconds(45);
  };
  enum class Verdict : uint8_t { kGoOn, kSay, kGiveUp };

  StallJudge() = default;
  explicit StallJudge(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  // Whether it is time to look at the threads. `progress` is another number whenever something has
  // moved. `now` is of any clock that does not go back.
  bool wants_look(uint64_t progress, Duration now);
  // After wants_look() has said so. All threads of the process.
  Verdict judge(std::span<const SeenThread> threads, Duration now);
  // For so long, up to the last look, nothing has moved and no thread has computed.
  Duration idle() const { return idle_; }
  // For a while now; and the awaited thread waits for another one, or is not there.
  bool awaited_is_stuck() const { return stuck_; }

 private:
  // A thread has computed that has used one such part of the time. One that only looks now and then
  // whether it may go on uses less, and one that shares its processor with twenty others uses more.
  static constexpr int kComputesFrom = 50;

  Limits limits_;
  bool begun_ = false;
  uint64_t progress_ = 0;
  Duration looked_{};  // when
  Duration waited_{};  // since something moved
  bool stuck_ = false;
  Duration idle_{};                 // since something moved or somebody computed
  Duration next_words_{};           // after so long
  std::map<int, uint64_t> cpu_ns_;  // at the last look
};

}  // namespace gpusnap
