#include "tools/simcuda/runtime/driver_api.h"

#include <dlfcn.h>

#include "tools/simcuda/runtime/errors.h"

namespace simcuda::runtime {
namespace {

constexpr cuuint64_t kLegacyStream = 1;
constexpr cuuint64_t kPerThreadStream = 2;

void* ask(const Driver& driver, const char* name, int version, cuuint64_t flags) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  const cudaError_t result = driver.cuGetProcAddress(name, &function, version, flags, &found);
  const bool usable = result == cudaSuccess && found == CU_GET_PROC_ADDRESS_SUCCESS;
  return usable ? function : nullptr;
}

void resolve(Driver& driver) {
#define DRIVER_CALL(name, version, symbol) \
  driver.name.set(ask(driver, #name, version, kLegacyStream));
#define STREAM_CALL(name, version, symbol, per_thread_version, suffix) \
  driver.legacy.name.set(ask(driver, #name, version, kLegacyStream));  \
  driver.per_thread.name.set(ask(driver, #name, per_thread_version, kPerThreadStream));
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef DRIVER_CALL
}

cudaError_t load(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return cudaErrorInsufficientDriver;
  void* resolver = dlsym(library, "cuGetProcAddress_v2");
  if (resolver == nullptr) return cudaErrorInsufficientDriver;
  driver.cuGetProcAddress.set(resolver);
  resolve(driver);

  int version = 0;
  if (driver.cuDriverGetVersion(&version) != cudaSuccess || version < kRuntimeVersion) {
    return cudaErrorInsufficientDriver;
  }
  return driver.cuInit(0);
}

}  // namespace

cudaError_t from_driver(CUresult result) {
  const auto error = static_cast<cudaError_t>(result);
  return error_info(error) == nullptr ? cudaErrorUnknown : error;
}

const Driver& driver() {
  static const Driver* const instance = [] {
    auto* loaded = new Driver;
    loaded->status = load(*loaded);
    return loaded;
  }();
  return *instance;
}

}  // namespace simcuda::runtime
