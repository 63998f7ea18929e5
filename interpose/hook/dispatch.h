// The way of a hooked call from its exported wrapper to its handler.
#pragma once

#include <type_traits>

#include "interpose/cuda/cuda_abi.h"
#include "interpose/hook/activation.h"
#include "interpose/hook/hook.h"
#include "interpose/hook/real_function.h"

namespace gpusnap {

// Calls the handler with (Call, args...) where the process is followed and the thread is not in a
// hooked call already; else the real function. Nothing may be thrown into the program.
template <class R, class... A, class Handler>
inline R dispatch(Hook<R(A...)>& hook, Handler handler, std::type_identity_t<A>... args) noexcept {
  const auto real = real_of(hook);
  if (real == nullptr) [[unlikely]]
    return kNoDriver;
  if (!process_active.load(std::memory_order_acquire) || Guard::held()) return real(args...);
  const Guard guard;
  for (;;) {
    try {
      return handler(Call<R(A...)>{hook, guard, real}, args...);
    } catch (const EntryMismatch&) {
      // It waits for its entry as soon as it is called again.
    }
  }
}

// cuInit: the same, and its first success starts the session. The handler sees later ones only.
template <class R, class... A, class Handler>
inline R dispatch_init(Hook<R(A...)>& hook, Handler handler,
                       std::type_identity_t<A>... args) noexcept {
  if (process_active.load(std::memory_order_acquire) || Guard::held()) {
    return dispatch(hook, handler, args...);
  }
  const auto real = real_of(hook);
  if (real == nullptr) return kNoDriver;
  const Guard guard;
  const R result = real(args...);
  if (result == CUDA_SUCCESS) activate(guard);
  return result;
}

}  // namespace gpusnap
