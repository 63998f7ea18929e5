// Preloaded before the driver: makes it one that is newer than gpusnap's declarations, in which one
// call has another form.
#include <dlfcn.h>

#include <cstring>

#include "interpose/cuda/cuda_abi.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

template <class F>
F* behind(const char* symbol) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, symbol));
}

CUresult newer_set(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return behind<decltype(cuMemsetD8Async)>("cuMemsetD8Async")(address, value, count, stream);
}

}  // namespace

EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const bool newer = version > GPUSNAP_CUDA_VERSION;
  if (newer && std::strcmp(symbol, "cuMemsetD8Async") == 0) {
    *function = reinterpret_cast<void*>(&newer_set);
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
  }
  return behind<decltype(cuGetProcAddress_v2)>("cuGetProcAddress_v2")(
      symbol, function, newer ? GPUSNAP_CUDA_VERSION : version, flags, status);
}
