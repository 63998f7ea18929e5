// The rest of what a driver exports. Arguments do not matter, so none are declared: the caller
// removes them in the C calling convention.
#include <atomic>
#include <cstdio>

#include "interpose/cuda/cuda_types.h"

namespace {

// Said once for each, since programs try what they can do without.
CUresult not_simulated(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true)) std::fprintf(stderr, "simcuda: %s is not simulated\n", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

#define UNSUPPORTED(name)                                                \
  extern "C" __attribute__((visibility("default"))) CUresult name(void); \
  CUresult name(void) {                                                  \
    static constinit std::atomic<bool> said{false};                      \
    return not_simulated(#name, said);                                   \
  }
#include "tools/simcuda/driver/unsupported.inc"
#undef UNSUPPORTED
