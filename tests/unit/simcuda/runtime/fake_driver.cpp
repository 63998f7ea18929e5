#include "tests/unit/simcuda/runtime/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace fake {
namespace {

thread_local CUcontext current = nullptr;

// Handles only have to differ from each other and from null.
char primary_context;
char library;

CUresult enter(const char* call, bool per_thread = false) {
  Driver& driver = *fake_driver();
  driver.calls.push_back(std::string(call) + (per_thread ? "_pt" : ""));
  const auto planned = driver.fails.find(call);
  if (planned != driver.fails.end()) return planned->second;
  const bool on_context =
      std::string_view(call).find("cuDevice") != 0 && std::string_view(call) != "cuCtxSetCurrent";
  return on_context ? driver.sticky : CUDA_SUCCESS;
}

// Leaves the function with the scripted error, if there is one.
#define ENTER(...) \
  if (const CUresult status = enter(__VA_ARGS__); status != CUDA_SUCCESS) return status

CUresult init(unsigned int) {
  ENTER("cuInit");
  return CUDA_SUCCESS;
}
CUresult driver_version(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult device_count(int* count) {
  ENTER("cuDeviceGetCount");
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult device_name(char* name, int length, CUdevice) {
  std::strncpy(name, "Fake", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult device_memory(size_t* bytes, CUdevice) {
  *bytes = 1 << 20;
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute which, CUdevice) {
  ENTER("cuDeviceGetAttribute");
  if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = 7;
  else if (which <= CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)
    *value = 1024;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext* context, CUdevice) {
  ENTER("cuDevicePrimaryCtxRetain");
  ++fake_driver()->primary_references;
  *context = reinterpret_cast<CUcontext>(&primary_context);
  return CUDA_SUCCESS;
}
CUresult primary_release(CUdevice) {
  ENTER("cuDevicePrimaryCtxRelease");
  --fake_driver()->primary_references;
  return CUDA_SUCCESS;
}
CUresult primary_reset(CUdevice) {
  ENTER("cuDevicePrimaryCtxReset");
  ++fake_driver()->resets;
  fake_driver()->sticky = CUDA_SUCCESS;
  return CUDA_SUCCESS;
}
CUresult context_set(CUcontext context) {
  ENTER("cuCtxSetCurrent");
  current = context;
  return CUDA_SUCCESS;
}
CUresult context_get(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult context_device(CUdevice* device) {
  ENTER("cuCtxGetDevice");
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult context_synchronize() {
  ENTER("cuCtxSynchronize");
  return CUDA_SUCCESS;
}

CUresult memory_allocate(CUdeviceptr* address, size_t size) {
  ENTER("cuMemAlloc");
  *address = reinterpret_cast<CUdeviceptr>(std::calloc(1, size));
  return CUDA_SUCCESS;
}
CUresult memory_free(CUdeviceptr address) {
  ENTER("cuMemFree");
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

template <bool kPerThread>
CUresult copy_in(CUdeviceptr to, const void* from, size_t size) {
  ENTER("cuMemcpyHtoD", kPerThread);
  std::memcpy(reinterpret_cast<void*>(to), from, size);
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult copy_out(void* to, CUdeviceptr from, size_t size) {
  ENTER("cuMemcpyDtoH", kPerThread);
  std::memcpy(to, reinterpret_cast<void*>(from), size);
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult copy_rows(const CUDA_MEMCPY2D* rows) {
  ENTER("cuMemcpy2DUnaligned", kPerThread);
  const auto* from = rows->srcMemoryType == CU_MEMORYTYPE_HOST
                         ? static_cast<const char*>(rows->srcHost)
                         : reinterpret_cast<const char*>(rows->srcDevice);
  auto* to = rows->dstMemoryType == CU_MEMORYTYPE_HOST ? static_cast<char*>(rows->dstHost)
                                                       : reinterpret_cast<char*>(rows->dstDevice);
  for (size_t row = 0; row < rows->Height; ++row) {
    std::memcpy(to + row * rows->dstPitch, from + row * rows->srcPitch, rows->WidthInBytes);
  }
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult set_bytes(CUdeviceptr to, unsigned char value, size_t size) {
  ENTER("cuMemsetD8", kPerThread);
  std::memset(reinterpret_cast<void*>(to), value, size);
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult stream_query(CUstream) {
  ENTER("cuStreamQuery", kPerThread);
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult stream_synchronize(CUstream) {
  ENTER("cuStreamSynchronize", kPerThread);
  return CUDA_SUCCESS;
}
template <bool kPerThread>
CUresult add_callback(CUstream stream, CUstreamCallback function, void* user, unsigned int) {
  ENTER("cuStreamAddCallback", kPerThread);
  function(stream, CUDA_SUCCESS, user);
  return CUDA_SUCCESS;
}

CUresult library_load(CUlibrary* result, const void* code, CUjit_option*, void**, unsigned int,
                      CUlibraryOption*, void**, unsigned int) {
  ENTER("cuLibraryLoadData");
  fake_driver()->loaded_images.push_back(code);
  *result = reinterpret_cast<CUlibrary>(&library);
  return CUDA_SUCCESS;
}
CUresult library_unload(CUlibrary) {
  ENTER("cuLibraryUnload");
  return CUDA_SUCCESS;
}
CUresult library_kernel(CUkernel* result, CUlibrary, const char* name) {
  ENTER("cuLibraryGetKernel");
  const auto found = fake_driver()->kernels.find(name);
  if (found == fake_driver()->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *result = reinterpret_cast<CUkernel>(&found->second);
  return CUDA_SUCCESS;
}
CUresult find_variable(CUdeviceptr* address, size_t* bytes, const char* name) {
  const auto found = fake_driver()->variables.find(name);
  if (found == fake_driver()->variables.end()) return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<CUdeviceptr>(found->second.data());
  *bytes = found->second.size();
  return CUDA_SUCCESS;
}
CUresult library_global(CUdeviceptr* address, size_t* bytes, CUlibrary, const char* name) {
  ENTER("cuLibraryGetGlobal");
  return find_variable(address, bytes, name);
}
CUresult library_managed(CUdeviceptr* address, size_t* bytes, CUlibrary, const char* name) {
  ENTER("cuLibraryGetManaged");
  return find_variable(address, bytes, name);
}

template <bool kPerThread>
CUresult launch(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                unsigned int block_x, unsigned int block_y, unsigned int block_z,
                unsigned int shared_bytes, CUstream stream, void** arguments, void**) {
  ENTER("cuLaunchKernel", kPerThread);
  if (block_x == 0 || block_x > 1024) return CUDA_ERROR_INVALID_VALUE;
  const auto& kernel = *reinterpret_cast<const Kernel*>(function);
  Launch seen{kernel.name,  {grid_x, grid_y, grid_z, block_x, block_y, block_z},
              shared_bytes, stream,
              {},           kPerThread};
  for (size_t i = 0; i < kernel.parameter_sizes.size(); ++i) {
    seen.arguments.emplace_back(static_cast<const char*>(arguments[i]), kernel.parameter_sizes[i]);
  }
  fake_driver()->launches.push_back(std::move(seen));
  return CUDA_SUCCESS;
}

struct Name {
  std::string_view name;
  void* legacy;
  void* per_thread;  // null: the same
};

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

#define BOTH(name, function) \
  { name, address_of(&function<false>), address_of(&function<true>) }
#define ONE(name, function) \
  { name, address_of(&function), nullptr }

const Name kNames[] = {
    ONE("cuInit", init),
    ONE("cuDriverGetVersion", driver_version),
    ONE("cuDeviceGetCount", device_count),
    ONE("cuDeviceGet", device_get),
    ONE("cuDeviceGetName", device_name),
    ONE("cuDeviceTotalMem", device_memory),
    ONE("cuDeviceGetAttribute", device_attribute),
    ONE("cuDevicePrimaryCtxRetain", primary_retain),
    ONE("cuDevicePrimaryCtxRelease", primary_release),
    ONE("cuDevicePrimaryCtxReset", primary_reset),
    ONE("cuCtxSetCurrent", context_set),
    ONE("cuCtxGetCurrent", context_get),
    ONE("cuCtxGetDevice", context_device),
    ONE("cuCtxSynchronize", context_synchronize),
    ONE("cuMemAlloc", memory_allocate),
    ONE("cuMemFree", memory_free),
    BOTH("cuMemcpyHtoD", copy_in),
    BOTH("cuMemcpyDtoH", copy_out),
    BOTH("cuMemcpy2DUnaligned", copy_rows),
    BOTH("cuMemsetD8", set_bytes),
    BOTH("cuStreamQuery", stream_query),
    BOTH("cuStreamSynchronize", stream_synchronize),
    BOTH("cuStreamAddCallback", add_callback),
    ONE("cuLibraryLoadData", library_load),
    ONE("cuLibraryUnload", library_unload),
    ONE("cuLibraryGetKernel", library_kernel),
    ONE("cuLibraryGetGlobal", library_global),
    ONE("cuLibraryGetManaged", library_managed),
    BOTH("cuLaunchKernel", launch),
};

}  // namespace

}  // namespace fake

fake::Driver* fake_driver() {
  static auto* const driver = new fake::Driver;
  return driver;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  fake_driver()->asked.push_back(std::string(name) + "/" + std::to_string(version) + "/" +
                                 std::to_string(flags));
  const auto* found = std::find_if(std::begin(fake::kNames), std::end(fake::kNames),
                                   [&](const fake::Name& entry) { return entry.name == name; });
  *function = nullptr;
  if (found == std::end(fake::kNames)) {
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = flags == 2 && found->per_thread != nullptr ? found->per_thread : found->legacy;
  return CUDA_SUCCESS;
}
