// Libraries that the program loads itself.
#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

// Options are numbered as the driver's are.
CUjit_option* driver_options(cudaJitOption* options) {
  return reinterpret_cast<CUjit_option*>(options);
}

CUlibraryOption* driver_options(cudaLibraryOption* options) {
  return reinterpret_cast<CUlibraryOption*>(options);
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jitOptions,
                                void** jitOptionsValues, unsigned int numJitOptions,
                                cudaLibraryOption* libraryOptions, void** libraryOptionValues,
                                unsigned int numLibraryOptions) {
  return with_context([&](const Driver& driver) {
    return driver.cuLibraryLoadData(library, code, driver_options(jitOptions), jitOptionsValues,
                                    numJitOptions, driver_options(libraryOptions),
                                    libraryOptionValues, numLibraryOptions);
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName,
                                    cudaJitOption* jitOptions, void** jitOptionsValues,
                                    unsigned int numJitOptions, cudaLibraryOption* libraryOptions,
                                    void** libraryOptionValues, unsigned int numLibraryOptions) {
  return with_context([&](const Driver& driver) {
    return driver.cuLibraryLoadFromFile(
        library, fileName, driver_options(jitOptions), jitOptionsValues, numJitOptions,
        driver_options(libraryOptions), libraryOptionValues, numLibraryOptions);
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_context([&](const Driver& driver) { return driver.cuLibraryUnload(library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library, const char* name) {
  return with_context([&](const Driver& driver) {
    const cudaError_t result = driver.cuLibraryGetKernel(pKernel, library, name);
    if (result == cudaSuccess) registry().add_kernel(*pKernel);
    return result;
  });
}

cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t lib) {
  return with_context(
      [&](const Driver& driver) { return driver.cuLibraryGetKernelCount(count, lib); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int numKernels,
                                        cudaLibrary_t lib) {
  return with_context([&](const Driver& driver) {
    unsigned int count = 0;
    cudaError_t result = driver.cuLibraryGetKernelCount(&count, lib);
    if (result == cudaSuccess) result = driver.cuLibraryEnumerateKernels(kernels, numKernels, lib);
    if (result != cudaSuccess) return result;
    for (unsigned int i = 0; i < count && i < numKernels; ++i) registry().add_kernel(kernels[i]);
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return with_context([&](const Driver& driver) {
    return driver.cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name);
  });
}

cudaError_t cudaLibraryGetManaged(void** dptr, size_t* bytes, cudaLibrary_t library,
                                  const char* name) {
  return with_context([&](const Driver& driver) {
    return driver.cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(dptr), bytes, library, name);
  });
}
