// SPDX-License-Identifier: Apache-2.0
//
// The calls of a recording that are being made, whose entries are still to come. The session's lock
// guards it.
#pragma once

namespace gpusnap {

class CallsInDriver {
 public:
  // While one lives, such a call is being made. Lives under the lock, which may be given back
  // meanwhile.
  class Scope {
   public:
    [[gnu::always_inline]] explicit Scope(CallsInDriver& calls) : calls_(calls) { ++calls_.count_; }
    [[gnu::always_inline]] ~Scope() { --calls_.count_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallsInDriver& calls_;
  };

  // A second thread of the program has made a call.
  void see_several_threads() { several_threads_ = true; }
  bool several_threads() const { return several_threads_; }
  // The program's only thread is in such a call, and runs no host code meanwhile.
  bool hold_only_thread() const { return !several_threads_ && count_ != 0; }

 private:
  unsigned count_ = 0;
  bool several_threads_ = false;
};

}  // namespace gpusnap
