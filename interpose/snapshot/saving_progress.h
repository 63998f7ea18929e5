// How this process's checkpoints get on, as it is told to who asks from outside. Any thread; no
// call holds another one up for longer than it takes to copy a few words.
#pragma once

#include <cstdint>
#include <mutex>

#include "interpose/services/control.h"

namespace gpusnap {

class SavingProgress {
 public:
  struct Complete {
    uint64_t epoch = 0;
    int64_t cut_unix_ns = 0;
    uint64_t stall_ns = 0;
    bool in_memory = false;  // and nowhere else
  };

  // The program has a context: there is something to save.
  void has_context() {
    const std::lock_guard lock(mutex_);
    any_context_ = true;
  }
  // The cut has been made; so many bytes are to be saved.
  void begins(uint64_t epoch, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    saving_ = epoch;
    bytes_ = bytes;
  }
  // The checkpoint is not on its way any more, whatever came of it.
  void ends() { begins(0, 0); }
  // This is the last one that is complete; none is on its way.
  void is_complete(const Complete& last) {
    const std::lock_guard lock(mutex_);
    last_ = last;
    saving_ = bytes_ = 0;
  }
  void program_ends() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }

  // `doing`: the session's mode, which says nothing before there is a context, but in a replay.
  // `saved_bytes`: of the last one that began.
  void tell(Doing doing, uint64_t saved_bytes, ProcessStatus& status) const {
    const std::lock_guard lock(mutex_);
    const bool begun = any_context_ || doing == Doing::kReplaying;
    status.doing = ending_ ? Doing::kEnding : begun ? doing : Doing::kStarting;
    status.epoch = last_.epoch;
    status.cut_unix_ns = last_.cut_unix_ns;
    status.stall_ns = last_.stall_ns;
    status.in_memory = last_.in_memory;
    status.saving = saving_;
    status.bytes = bytes_;
    status.saved_bytes = saving_ == 0 ? 0 : saved_bytes;
  }

 private:
  mutable std::mutex mutex_;
  bool any_context_ = false;
  bool ending_ = false;
  Complete last_;
  uint64_t saving_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gpusnap
