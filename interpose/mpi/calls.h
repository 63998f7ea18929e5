// How the exported MPI functions reach the ones behind them.
#pragma once

#include <atomic>

#include "interpose/hook/hook.h"
#include "interpose/hook/resolve.h"
#include "interpose/mpi/library.h"
#include "interpose/mpi/process.h"

namespace gpusnap::mpi {

// A C function of MPI. Called with what is to be done about it, which gets the real function, and
// the program's arguments. The real one's own calls of MPI or CUDA are not the program's doing, and
// go straight through.
template <class... A>
struct Function {
  const char* name;
  std::atomic<int (*)(A...)> real{nullptr};

  template <class Body>
  int operator()(Body&& body, A... args) noexcept {
    const auto next = behind();
    if (next == nullptr) return kOtherError;
    if (Guard::held()) return next(args...);
    const Guard guard;
    return body(next);
  }
  int (*behind())(A...) {
    auto next = real.load(std::memory_order_acquire);
    if (next == nullptr) [[unlikely]] {
      next = reinterpret_cast<int (*)(A...)>(mpi_symbol(name));
      real.store(next, std::memory_order_release);
    }
    return next;
  }
};

// The same for Fortran: the error comes back in a last argument, which may be absent.
template <class... A>
struct Subroutine {
  const char* name;
  std::atomic<void (*)(A..., int*)> real{nullptr};

  template <class Body>
  void operator()(Body&& body, int* error, A... args) noexcept {
    const auto next = behind();
    int result = kOtherError;
    if (next != nullptr && Guard::held()) return next(args..., error);
    if (next != nullptr) {
      const Guard guard;
      result = body([next](A... given) {
        int came = kSuccess;
        next(given..., &came);
        return came;
      });
    }
    if (error != nullptr) *error = result;
  }
  void (*behind())(A..., int*) {
    auto next = real.load(std::memory_order_acquire);
    if (next == nullptr) [[unlikely]] {
      next = reinterpret_cast<void (*)(A..., int*)>(mpi_symbol(name));
      real.store(next, std::memory_order_release);
    }
    return next;
  }
};

}  // namespace gpusnap::mpi
