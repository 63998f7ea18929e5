#include "interpose/hook/driver.h"

#include <string>

#include "interpose/hook/resolve.h"

namespace gpusnap {

const Driver* load_driver(const char** missing) {
  static Driver driver;
#define X(name) driver.name = reinterpret_cast<decltype(&::name)>(driver_symbol(#name));
  GPUSNAP_DRIVER_FUNCTIONS(X)
  GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
#define X(name)                 \
  if (driver.name == nullptr) { \
    *missing = #name;           \
    return nullptr;             \
  }
  GPUSNAP_DRIVER_FUNCTIONS(X)
#undef X
  return &driver;
}

Status driver_status(const Driver& driver, const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return {Code::kIo, std::string(what) + ": the driver says " + error_name(driver, result)};
}

CurrentContext::CurrentContext(const Driver& driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  if (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
  pushed_ = driver_.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

CurrentContext::~CurrentContext() {
  CUcontext popped = nullptr;
  if (pushed_) (void)driver_.cuCtxPopCurrent_v2(&popped);
}

}  // namespace gpusnap
