// The CUDA driver's declarations for the library that implements them: everything declared there is
// exported, everything else is hidden.
#pragma once

#pragma GCC visibility push(default)
#include "interpose/cuda/cuda_abi.h"  // IWYU pragma: export
#pragma GCC visibility pop
