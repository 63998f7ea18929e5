#include "tools/simcuda/runtime/errors.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simcuda::runtime {
namespace {

constexpr ErrorInfo kErrors[] = {
#define CUDART_ERROR(name, description) {name, #name, description},
#include "tools/simcuda/runtime/errors.inc"
#undef CUDART_ERROR
};

constexpr bool before(const ErrorInfo& info, cudaError_t error) {
  return info.error < error;
}
static_assert(std::is_sorted(std::begin(kErrors), std::end(kErrors),
                             [](const ErrorInfo& a, const ErrorInfo& b) {
                               return before(a, b.error);
                             }));

thread_local cudaError_t last_error = cudaSuccess;

constexpr char kUnrecognized[] = "unrecognized error code";

}  // namespace

const ErrorInfo* error_info(cudaError_t error) {
  const ErrorInfo* found = std::lower_bound(std::begin(kErrors), std::end(kErrors), error, before);
  return found != std::end(kErrors) && found->error == error ? found : nullptr;
}

cudaError_t record(cudaError_t result) {
  if (result != cudaSuccess && result != cudaErrorNotReady) last_error = result;
  return result;
}

}  // namespace simcuda::runtime

using namespace simcuda::runtime;

cudaError_t cudaGetLastError(void) {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorInfo* info = error_info(error);
  return info == nullptr ? kUnrecognized : info->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorInfo* info = error_info(error);
  return info == nullptr ? kUnrecognized : info->description;
}
