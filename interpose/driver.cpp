#include "interpose/driver.h"

#include "interpose/resolve.h"

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
