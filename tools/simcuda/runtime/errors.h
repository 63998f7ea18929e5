// The calling thread's last error, and what the errors are called.
#pragma once

#include "tools/simcuda/runtime/cudart_abi.h"

namespace simcuda::runtime {

struct ErrorInfo {
  cudaError_t error;
  const char* name;
  const char* description;
};

// Null for a number that is no error of the runtime.
const ErrorInfo* error_info(cudaError_t error);

// Every call of the runtime returns through this: remembers a failure for cudaGetLastError. "Not
// ready" is an answer, no failure. Errors that leave the context unusable are not remembered any
// better than others: they come back because the driver returns them from each later call.
cudaError_t record(cudaError_t result);

}  // namespace simcuda::runtime
