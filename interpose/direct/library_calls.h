// SPDX-License-Identifier: Apache-2.0
// Calls of the cuFile library that may have to wait for an SSD: one thread makes them, one after
// the other. A caller looks whether its call has ended, and is never held up by it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "interpose/hook/driver.h"

namespace gpusnap {

// Thread-safe.
class LibraryCalls {
 public:
  // Calls that wait. Each context of a process has at most two: one, and the end of a file.
  static constexpr size_t kMost = 32;

  struct Call;
  using CallPtr = std::shared_ptr<Call>;

  // The thread makes `body` with the context current, and then destroys it. Null: too many are
  // waiting.
  CallPtr add(CUcontext context, std::function<void()> body);
  bool has_ended(const Call& call) const;
  // True: the call has not begun and never will. Its body is destroyed.
  bool withdraw(Call& call);
  // Whether a call is being made.
  bool is_under_way() const;

  // For the thread: waits for a call and makes it.
  void make_next(const Driver& driver);

 private:
  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::deque<CallPtr> waiting_;
  bool under_way_ = false;
};

}  // namespace gpusnap
