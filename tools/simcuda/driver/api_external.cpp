// Memory and semaphores of others: there are none to import. The calls are there since programs
// look them all up before they make any.

#include "tools/simcuda/driver/driver.h"

namespace {

CUresult not_supported() {
  return simcuda::in_context([](auto&, auto&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace

CUresult cuImportExternalMemory(CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*) {
  return not_supported();
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr*, CUexternalMemory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*) {
  return not_supported();
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray*, CUexternalMemory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC*) {
  return not_supported();
}

CUresult cuDestroyExternalMemory(CUexternalMemory) {
  return not_supported();
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore*,
                                   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC*) {
  return not_supported();
}

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore*,
                                         const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS*, unsigned,
                                         CUstream) {
  return not_supported();
}

CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore*,
                                       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS*, unsigned,
                                       CUstream) {
  return not_supported();
}
