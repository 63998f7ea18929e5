// The rest of the public API. Arguments do not matter, so none are declared: the caller removes
// them in the C calling convention.
#include "tools/simcuda/runtime/errors.h"

#define UNSUPPORTED(name)                                   \
  CUDART_API(name, (void)) {                                \
    return simcuda::runtime::record(cudaErrorNotSupported); \
  }
#include "tools/simcuda/runtime/unsupported.inc"
#undef UNSUPPORTED
