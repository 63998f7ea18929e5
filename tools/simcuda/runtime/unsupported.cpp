// The rest of the public API. Arguments do not matter, so none are declared: the caller removes
// them in the C calling convention.
#include <atomic>
#include <cstdio>

#include "tools/simcuda/runtime/errors.h"

namespace {

// Said once for each, since programs try what they can do without.
cudaError_t not_simulated(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true)) std::fprintf(stderr, "simcuda: %s is not simulated\n", name);
  return simcuda::runtime::record(cudaErrorNotSupported);
}

}  // namespace

#define UNSUPPORTED(name)                           \
  CUDART_API(name, (void)) {                        \
    static constinit std::atomic<bool> said{false}; \
    return not_simulated(#name, said);              \
  }
#include "tools/simcuda/runtime/unsupported.inc"
#undef UNSUPPORTED
