// MPI calls of which only one thing matters: whether they are given device memory, which ends
// checkpoints by name (device_refused.inc). Arguments are passed on as they came, in all the
// registers and places of the stack that any of these calls uses: a call that takes fewer does not
// look at the others.

#include "interpose/mpi/calls.h"

namespace gpusnap::mpi {
namespace {

constexpr int kNone = -1;

// As many as the longest of these has, in Fortran with its error.
// clang-format off
#define PARAMETERS \
  uintptr_t a0, uintptr_t a1, uintptr_t a2, uintptr_t a3, uintptr_t a4, uintptr_t a5, \
  uintptr_t a6, uintptr_t a7, uintptr_t a8, uintptr_t a9, uintptr_t a10
#define ARGUMENTS a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
// clang-format on
using Word = uintptr_t;
using Anything = Word (*)(PARAMETERS);

struct Checked {
  const char* name;   // of the symbol
  const char* known;  // as messages have it
  int first, second;  // buffers
  bool descriptors;   // in the place of buffers: the address is their first word
  std::atomic<Anything> real{nullptr};

  void look(Word argument) const {
    const void* address = reinterpret_cast<const void*>(argument);
    if (descriptors && address != nullptr) address = *static_cast<void* const*>(address);
    Process::get().refuse_device(known, address);
  }

  Word operator()(PARAMETERS) noexcept {
    auto next = real.load(std::memory_order_acquire);
    if (next == nullptr) {
      next = reinterpret_cast<Anything>(mpi_symbol(name));
      real.store(next, std::memory_order_release);
    }
    if (next == nullptr) return kOtherError;
    if (!Guard::held()) {
      const Guard guard;
      const Word given[] = {ARGUMENTS};
      if (first != kNone) look(given[first]);
      if (second != kNone) look(given[second]);
    }
    // Not guarded: what is called behind it may be followed.
    return next(ARGUMENTS);
  }
};

}  // namespace
}  // namespace gpusnap::mpi

#pragma GCC visibility push(default)

// clang-format off
#define CHECKED(symbol, known, first, second, descriptors) \
  extern "C" uintptr_t symbol(PARAMETERS) { \
    static constinit gpusnap::mpi::Checked checked{#symbol, known, first, second, descriptors}; \
    return checked(ARGUMENTS); \
  }
#define FORTRAN(lower, upper, first, second) \
  CHECKED(mpi_##lower##_, "MPI_" #upper, first, second, false) \
  CHECKED(mpi_##lower##_f08_, "MPI_" #upper, first, second, false) \
  CHECKED(mpi_##lower##_f08ts_, "MPI_" #upper, first, second, true)
#define X(lower, upper, first, second) \
  CHECKED(MPI_##upper, "MPI_" #upper, first, second, false) \
  FORTRAN(lower, upper, first, second)
// clang-format on

#include "interpose/mpi/device_refused.inc"

// Those that are followed in C (calls_c.cpp), and not in Fortran.
FORTRAN(send, Send, 0, -1)
FORTRAN(ssend, Ssend, 0, -1)
FORTRAN(bsend, Bsend, 0, -1)
FORTRAN(rsend, Rsend, 0, -1)
FORTRAN(isend, Isend, 0, -1)
FORTRAN(issend, Issend, 0, -1)
FORTRAN(ibsend, Ibsend, 0, -1)
FORTRAN(irsend, Irsend, 0, -1)
FORTRAN(bcast, Bcast, 0, -1)
FORTRAN(reduce, Reduce, 0, 1)

#pragma GCC visibility pop
