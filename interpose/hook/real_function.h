// Which function of the driver a hook stands before.
#pragma once

#include "interpose/hook/hook.h"
#include "interpose/hook/resolve.h"

namespace gpusnap {

// The real function of a hook; found at the first call of a program that is linked to the driver.
// Null: there is no driver in the process.
template <class R, class... A>
inline auto real_of(Hook<R(A...)>& hook) -> R (*)(A...) {
  auto real = hook.real.load(std::memory_order_acquire);
  if (real == nullptr) [[unlikely]] {
    real = reinterpret_cast<R (*)(A...)>(driver_symbol(hook.symbol));
    hook.real.store(real, std::memory_order_release);
  }
  return real;
}

}  // namespace gpusnap
