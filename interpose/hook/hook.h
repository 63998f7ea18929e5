// How a hooked call runs: the exported wrapper -> dispatch() -> a handler (handlers.h), which calls
// the real function when and as it must. Wrappers are generated from hooks.table.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/cuda/hooks_generated_ids.h"  // HookId, name_of(), threads_of()

namespace gpusnap {

// The device memory that a call may write: the table's column, where each is explained.
enum class Writes : uint8_t { kNothing, kDestination, kKernel, kGraph, kFreed, kEverything };

// Any thread may make the call for all others: what comes of it is no thread's own.
constexpr bool is_made_for_all(HookId id) {
  return threads_of(id) == Threads::kAll || threads_of(id) == Threads::kCode;
}
// The call tells threads of a pool apart.
constexpr bool tells_apart(HookId id) {
  return threads_of(id) == Threads::kApart || threads_of(id) == Threads::kLaunch;
}

// One exported driver function. `real` is filled in by the resolvers, or by looking the symbol up
// in libcuda.so.1 at the first call.
template <class F>
struct Hook;
template <class R, class... A>
struct Hook<R(A...)> {
  HookId id;
  const char* symbol;      // "cuMemcpyHtoD_v2_ptds"
  bool per_thread_stream;  // the null stream means the calling thread's own
  Writes writes;
  std::atomic<R (*)(A...)> real{nullptr};
};

// Held while a thread is inside a hooked call of the program. A hooked call that arrives while it
// is held (the driver calling itself, or us calling the driver) goes straight to the real function.
// Passed as a parameter to prove that it is held.
class Guard {
 public:
  Guard() { held_ = true; }  // the thread does not hold one yet
  ~Guard() { held_ = false; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  static bool held() { return held_; }

 private:
  // In the static TLS block: reading it is one instruction, and never allocates.
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local bool held_ = false;
};

// Thrown by what compares a call with its entry, through the handler, which is called again: the
// call is not this one, and may be that of an entry to come.
struct EntryMismatch {};

// The parameter that a handler gets beside the call's own arguments.
template <class F>
struct Call;
template <class R, class... A>
struct Call<R(A...)> {
  const Hook<R(A...)>& hook;
  const Guard& guard;
  R (*real)(A...);
};

}  // namespace gpusnap
