// Kernels: launching them, and what can be asked about them.
#include <climits>
#include <vector>

#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// Between `<<<...>>>` and the launch stub that it calls; a stack, since arguments may launch too.
thread_local std::vector<Configuration> configurations;

// The error of the calling thread's last look-up that failed: nvcc's stubs keep a null handle after
// one, and the launch has to say why.
thread_local cudaError_t lookup_error = cudaErrorInvalidDeviceFunction;

CUfunction as_function(CUkernel kernel) {
  // The driver's launch calls document that they take either.
  return reinterpret_cast<CUfunction>(kernel);
}

cudaError_t attribute(const Driver& driver, CUdevice_attribute which, unsigned int* value) {
  CUdevice device = 0;
  int result = 0;
  cudaError_t status = driver.cuCtxGetDevice(&device);
  if (status == cudaSuccess) status = driver.cuDeviceGetAttribute(&result, which, device);
  *value = static_cast<unsigned int>(result);
  return status;
}

bool fits(const Driver& driver, const dim3& size, const CUdevice_attribute (&limits)[3]) {
  const unsigned int wanted[] = {size.x, size.y, size.z};
  for (int i = 0; i < 3; ++i) {
    unsigned int most = 0;
    if (attribute(driver, limits[i], &most) != cudaSuccess) return true;
    if (wanted[i] == 0 || wanted[i] > most) return false;
  }
  return true;
}

bool geometry_fits(const Driver& driver, const dim3& grid, const dim3& block) {
  static constexpr CUdevice_attribute kGrid[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                                 CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                                 CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  static constexpr CUdevice_attribute kBlock[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                                  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                                  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  if (!fits(driver, grid, kGrid) || !fits(driver, block, kBlock)) return false;
  unsigned int most = 0;
  const auto status = attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &most);
  return status != cudaSuccess || size_t{block.x} * block.y * block.z <= most;
}

// The driver calls a bad grid or block an invalid value, the runtime an invalid configuration.
cudaError_t explain(const Driver& driver, cudaError_t result, const dim3& grid, const dim3& block) {
  const bool geometry = result == cudaErrorInvalidValue && !geometry_fits(driver, grid, block);
  return geometry ? cudaErrorInvalidConfiguration : result;
}

cudaError_t launch(const Driver& driver, const StreamCalls& streams, CUkernel kernel,
                   const Configuration& how, void** arguments) {
  if (how.shared_bytes > UINT_MAX) return cudaErrorInvalidValue;
  const cudaError_t result = streams.cuLaunchKernel(
      as_function(kernel), how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y,
      how.block.z, static_cast<unsigned int>(how.shared_bytes), how.stream, arguments, nullptr);
  return explain(driver, result, how.grid, how.block);
}

cudaError_t launch_handle(const Driver& driver, const StreamCalls& streams, cudaKernel_t kernel,
                          const Configuration& how, void** arguments) {
  return kernel == nullptr ? lookup_error : launch(driver, streams, kernel, how, arguments);
}

cudaError_t launch_symbol(const Driver& driver, const StreamCalls& streams, const void* function,
                          const Configuration& how, void** arguments) {
  CUkernel kernel = nullptr;
  const cudaError_t found = registry().find_kernel(driver, function, &kernel);
  return found == cudaSuccess ? launch(driver, streams, kernel, how, arguments) : found;
}

cudaError_t launch_cooperative(const Driver& driver, const StreamCalls& streams,
                               const void* function, const Configuration& how, void** arguments) {
  CUkernel kernel = nullptr;
  const cudaError_t found = registry().find_kernel(driver, function, &kernel);
  if (found != cudaSuccess) return found;
  if (how.shared_bytes > UINT_MAX) return cudaErrorInvalidValue;
  const cudaError_t result = streams.cuLaunchCooperativeKernel(
      as_function(kernel), how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y,
      how.block.z, static_cast<unsigned int>(how.shared_bytes), how.stream, arguments);
  return explain(driver, result, how.grid, how.block);
}

cudaError_t launch_extended(const Driver& driver, const StreamCalls& streams,
                            const cudaLaunchConfig_t* config, const void* function,
                            void** arguments) {
  if (config == nullptr) return cudaErrorInvalidConfiguration;
  const Configuration plain = {config->gridDim, config->blockDim, config->dynamicSmemBytes,
                               config->stream};
  if (config->numAttrs == 0) return launch_symbol(driver, streams, function, plain, arguments);
  if (config->dynamicSmemBytes > UINT_MAX) return cudaErrorInvalidValue;

  CUkernel kernel = nullptr;
  const cudaError_t found = registry().find_kernel(driver, function, &kernel);
  if (found != cudaSuccess) return found;
  CUlaunchConfig how = {};
  how.gridDimX = plain.grid.x;
  how.gridDimY = plain.grid.y;
  how.gridDimZ = plain.grid.z;
  how.blockDimX = plain.block.x;
  how.blockDimY = plain.block.y;
  how.blockDimZ = plain.block.z;
  how.sharedMemBytes = static_cast<unsigned int>(plain.shared_bytes);
  how.hStream = plain.stream;
  // Both APIs number and lay out launch attributes alike.
  how.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  how.numAttrs = config->numAttrs;
  const cudaError_t result =
      streams.cuLaunchKernelEx(&how, as_function(kernel), arguments, nullptr);
  return explain(driver, result, plain.grid, plain.block);
}

// Runs `call(driver, kernel)` with the kernel that `function` names.
template <class Call>
cudaError_t with_kernel(const void* function, const Call& call) {
  return with_context([&](const Driver& driver) {
    CUkernel kernel = nullptr;
    const cudaError_t found = registry().find_kernel(driver, function, &kernel);
    return found == cudaSuccess ? call(driver, kernel) : found;
  });
}

cudaError_t function_attributes(const Driver& driver, CUkernel kernel, cudaFuncAttributes* result) {
  if (result == nullptr) return cudaErrorInvalidValue;
  CUdevice device = 0;
  cudaError_t status = driver.cuCtxGetDevice(&device);
  int value = 0;
  // The first failure decides; the attributes that older drivers lack come after it and read as 0.
  const auto get = [&](CUfunction_attribute which) {
    value = 0;
    if (status == cudaSuccess) status = driver.cuKernelGetAttribute(&value, which, kernel, device);
    return value;
  };
  cudaFuncAttributes found = {};
  found.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  found.sharedSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  found.constSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  found.localSizeBytes = static_cast<size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  found.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  found.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  found.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  found.cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  found.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  found.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  if (status != cudaSuccess) return status;
  found.clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  found.requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  found.requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  found.requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  found.nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  found.clusterSchedulingPolicyPreference =
      get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  *result = found;
  return cudaSuccess;
}

// Occupancy calls want the function of the current context.
template <class Call>
cudaError_t with_function(const void* function, const Call& call) {
  return with_kernel(function, [&](const Driver& driver, CUkernel kernel) {
    CUfunction handle = nullptr;
    const cudaError_t result = driver.cuKernelGetFunction(&handle, kernel);
    return result == cudaSuccess ? call(driver, handle) : result;
  });
}

cudaError_t find_kernel(const void* function, cudaKernel_t* kernel) {
  return with_context([&](const Driver& driver) {
    return kernel == nullptr ? cudaErrorInvalidValue
                             : registry().find_kernel(driver, function, kernel);
  });
}

}  // namespace

unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                         cudaStream_t stream) {
  configurations.push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem,
                                       void* stream) {
  if (configurations.empty()) return record(cudaErrorMissingConfiguration);
  const Configuration how = configurations.back();
  configurations.pop_back();
  *gridDim = how.grid;
  *blockDim = how.block;
  *sharedMem = how.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = how.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entryFuncAddr) {
  const cudaError_t result = find_kernel(entryFuncAddr, kernel);
  if (result != cudaSuccess) lookup_error = result;
  return result;
}

cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  return find_kernel(entryFuncAddr, kernelPtr);
}

CUDART_BOTH_STREAMS(__cudaLaunchKernel, _ptsz,
                    (cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                     size_t sharedMem, cudaStream_t stream),
                    launch_handle(driver, streams, kernel, {gridDim, blockDim, sharedMem, stream},
                                  args))

CUDART_BOTH_STREAMS(cudaLaunchKernel, _ptsz,
                    (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                     cudaStream_t stream),
                    launch_symbol(driver, streams, func, {gridDim, blockDim, sharedMem, stream},
                                  args))

CUDART_BOTH_STREAMS(cudaLaunchCooperativeKernel, _ptsz,
                    (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                     cudaStream_t stream),
                    launch_cooperative(driver, streams, func,
                                       {gridDim, blockDim, sharedMem, stream}, args))

CUDART_BOTH_STREAMS(cudaLaunchKernelExC, _ptsz,
                    (const cudaLaunchConfig_t* config, const void* func, void** args),
                    launch_extended(driver, streams, config, func, args))

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  return with_function(symbolPtr, [&](const Driver&, CUfunction function) {
    if (functionPtr == nullptr) return cudaErrorInvalidValue;
    *functionPtr = function;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return with_kernel(func, [&](const Driver&, CUkernel) {
    if (name == nullptr) return cudaErrorInvalidValue;
    *name = registry().name_of(func);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
  return with_kernel(func, [&](const Driver& driver, CUkernel kernel) {
    return driver.cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return with_kernel(func, [&](const Driver& driver, CUkernel kernel) {
    return function_attributes(driver, kernel, attr);
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return with_kernel(func, [&](const Driver& driver, CUkernel kernel) {
    CUdevice device = 0;
    const cudaError_t status = driver.cuCtxGetDevice(&device);
    if (status != cudaSuccess) return status;
    return driver.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attr), value, kernel,
                                       device);
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
  return with_kernel(func, [&](const Driver& driver, CUkernel kernel) {
    CUdevice device = 0;
    const cudaError_t status = driver.cuCtxGetDevice(&device);
    if (status != cudaSuccess) return status;
    return driver.cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(cacheConfig), device);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func,
                                                          int blockSize, size_t dynamicSMemSize) {
  return with_function(func, [&](const Driver& driver, CUfunction function) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, function, blockSize,
                                                              dynamicSMemSize);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags) {
  return with_function(func, [&](const Driver& driver, CUfunction function) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, function, blockSize, dynamicSMemSize, flags);
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func,
                                                      int numBlocks, int blockSize) {
  return with_function(func, [&](const Driver& driver, CUfunction function) {
    return driver.cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function, numBlocks,
                                                          blockSize);
  });
}
