// SPDX-License-Identifier: Apache-2.0
//
// The session's state of each thread, and its lock as threads take it that make no hooked calls.
#pragma once

#include <cstdint>

#include "interpose/cuda/cuda_types.h"
#include "interpose/record/call_lock.h"

namespace gpusnap {

// How the session knows a thread.
enum class Standing : uint8_t {
  kUnknown,
  kMet,         // the session's lock knows it
  kInFunction,  // and it runs a host function, where the driver permits no calls
};

// Per-thread state. Zero-initialised; trivially destructible.
struct ThreadState {
  Standing standing = Standing::kUnknown;
  bool admitted = false;     // inside a call of a recording
  bool has_turn = false;     // inside a call of a replay, which is that of the entry
  bool in_driver = false;    // inside the call that the program has made
  CUcontext sets = nullptr;  // that it is about to make current
  uint16_t poll_hook = 0;    // of the run of busy polls that it is in
  uint64_t polls_left = 0;   // of that run
  uint64_t number = 0;       // where it had to be told from others
};

// The calling thread's. In the static TLS block: reading it is one instruction, and never
// allocates.
[[gnu::tls_model("initial-exec")]] constinit inline thread_local ThreadState own_state;

// Holds the lock, for threads that make no hooked calls.
class ForeignLock {
 public:
  explicit ForeignLock(CallLock& lock) : lock_(lock) {
    if (own_state.standing == Standing::kUnknown) {
      own_state.standing = Standing::kMet;
      lock_.share();
    }
    lock_.lock();
  }
  ~ForeignLock() { lock_.unlock(); }
  ForeignLock(const ForeignLock&) = delete;
  ForeignLock& operator=(const ForeignLock&) = delete;

 private:
  CallLock& lock_;
};

// While it lives, the thread runs a host function of the program. Calls of that function are the
// driver's alone, which refuses them: no cut is made before one, and no replay repeats one.
class InFunction {
 public:
  InFunction() : before_(own_state.standing) { own_state.standing = Standing::kInFunction; }
  ~InFunction() { own_state.standing = before_; }
  InFunction(const InFunction&) = delete;
  InFunction& operator=(const InFunction&) = delete;

 private:
  const Standing before_;
};

}  // namespace gpusnap
