// SPDX-License-Identifier: Apache-2.0
//
// Whether the process records, replays or is off, and which threads may be inside a hooked call of
// a recording.
//
// A thread that makes a cut closes admission: nobody enters any more, and it waits until it is the
// only one inside. Threads in host code are not stopped. Opening lets those in who have come.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>

#include "interpose/record/call_lock.h"
#include "interpose/record/thread_state.h"

namespace gpusnap {

// The course of a process: off for good, or it records, or it replays and then records.
enum class Mode : uint8_t { kOff, kRecord, kReplay };

// The rules alone, for one thread at a time: no lock, no wait.
class AdmissionRules {
 public:
  // Recording, and not closed.
  bool is_open() const { return open_; }
  bool is_closed() const { return closed_; }
  void set_recording(bool recording) {
    recording_ = recording;
    open_ = recording && !closed_;
  }
  // Whether a thread that comes with a call has to wait. One that comes when nothing is recorded
  // does not enter, and does not wait.
  bool must_wait() const { return closed_ && recording_; }
  void enter() { ++inside_; }
  void leave() { --inside_; }
  // By a thread that is inside. False: another one has closed it.
  bool close() {
    if (closed_) return false;
    closed_ = true;
    open_ = false;
    return true;
  }
  // Threads inside beside the one that has closed it, or asks.
  int others() const { return inside_ - 1; }
  void open() {
    closed_ = false;
    open_ = recording_;
  }

 private:
  int inside_ = 0;
  bool closed_ = false;
  bool recording_ = false;
  bool open_ = false;
};

// The caller holds the session's lock, which is given back while a thread waits; mode() and what it
// says may be asked by any thread.
class Admission {
 public:
  explicit Admission(CallLock& lock) : lock_(lock) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  bool is_recording() const { return mode() == Mode::kRecord; }
  bool is_replaying() const { return mode() == Mode::kReplay; }
  void set_mode(Mode mode);

  [[gnu::always_inline]] bool is_open() const { return rules_.is_open(); }
  bool is_closed() const { return rules_.is_closed(); }
  // Between these two the calling thread is inside a call of a recording.
  [[gnu::always_inline]] void enter() {
    rules_.enter();
    own_state.admitted = true;
  }
  [[gnu::always_inline]] void leave() {
    own_state.admitted = false;
    rules_.leave();
  }
  // The same where it may be closed.
  void leave_closed();
  // Waits while no more may enter. On return the process may not be recording any more.
  void await_entry();
  // For a thread that is not to go on during another one's cut: waits for its end, unless the
  // calling thread is inside a call, or makes the cut itself.
  void await_end_of_cut();

  enum class Closing : uint8_t {
    kClosed,     // the calling thread is the only one inside
    kElsewhere,  // another one has closed it
    kNotLeft,    // others() did not leave by the deadline; it is open again
  };
  // By a thread that is inside.
  Closing close(CallLock::Clock::time_point deadline);
  int others() const { return rules_.others(); }
  void open();

 private:
  // A thread that waits looks again after so long.
  static constexpr std::chrono::seconds kLongWait{10};
  void wait() { (void)lock_.wait_until(changed_, CallLock::Clock::now() + kLongWait); }

  CallLock& lock_;
  std::atomic<Mode> mode_{Mode::kOff};
  AdmissionRules rules_;
  std::condition_variable changed_;
};

}  // namespace gpusnap
