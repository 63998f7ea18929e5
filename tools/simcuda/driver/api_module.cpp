// Modules, libraries, kernels and functions.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "tools/simcuda/driver/device_properties.h"
#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/functions.h"
#include "tools/simcuda/driver/jit_log.h"

namespace simcuda {

CUresult find_function(Driver& state, CUfunction handle, std::shared_ptr<Function>* function) {
  *function = state.functions.find(handle);
  if (*function) return CUDA_SUCCESS;
  // A library's kernel may stand where a function is wanted, and means the one of this context.
  auto kernel = state.kernels.find(reinterpret_cast<CUkernel>(handle));
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Context> context;
  if (CUresult result = state.current(&context); result != CUDA_SUCCESS) return result;
  return function_in(state, *context, *kernel, function);
}

CUresult function_in(Driver& state, Context& context, const LibraryKernel& kernel,
                     std::shared_ptr<Function>* function) {
  auto library = state.libraries.find(kernel.library);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> module;
  if (CUresult result = module_in(state, context, *library, &module); result != CUDA_SUCCESS) {
    return result;
  }
  *function = state.functions.find(module->functions.at(kernel.name));
  return *function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

namespace {

// pick(arch, ptx, log) finds the PTX of an image.
template <class Pick>
CUresult load(CUmodule* handle, const ErrorBuffer& buffer, Pick pick) {
  return in_context([&](Driver& state, Context& context) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadLog log;
    std::string ptx;
    ModuleCode code;
    std::shared_ptr<Module> module;
    CUresult result = pick(state.settings.arch, &ptx, &log);
    if (result == CUDA_SUCCESS) result = decode(ptx, &code, &log);
    if (result == CUDA_SUCCESS) {
      result = load_module(state, context, std::move(code), nullptr, &module, &log);
    }
    if (result == CUDA_SUCCESS) *handle = module->handle;
    return report(result, log, buffer);
  });
}

CUresult load_data(CUmodule* module, const void* image, const ErrorBuffer& buffer) {
  return load(module, buffer, [image](int arch, std::string* ptx, LoadLog* log) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return select_ptx(image, arch, ptx, log);
  });
}

void make_kernels(Driver& state, Library& library) {
  for (std::string_view name : library.unused.program->kernel_names()) {
    auto kernel = std::make_shared<LibraryKernel>();
    kernel->handle = state.kernels.reserve();
    kernel->library = library.handle;
    kernel->name = name;
    library.kernels.emplace(kernel->name, kernel->handle);
    state.kernels.insert(kernel->handle, kernel);
  }
}

template <class Pick>
CUresult load_library(CUlibrary* handle, const ErrorBuffer& buffer, Pick pick) {
  return in_driver([&](Driver& state) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    LoadLog log;
    auto library = std::make_shared<Library>();
    CUresult result = pick(state.settings.arch, &library->ptx, &log);
    if (result == CUDA_SUCCESS) result = decode(library->ptx, &library->unused, &log);
    if (result == CUDA_SUCCESS) {
      library->handle = state.libraries.reserve();
      make_kernels(state, *library);
      *handle = library->handle;
      state.libraries.insert(*handle, std::move(library));
    }
    return report(result, log, buffer);
  });
}

// body(Driver&, Library&)
template <class Body>
CUresult with_library(CUlibrary handle, Body&& body) {
  return in_driver([&](Driver& state) {
    auto library = state.libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    return static_cast<CUresult>(body(state, *library));
  });
}

// body(Driver&, Module&)
template <class Body>
CUresult with_module(CUmodule handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    auto module = state.modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    return static_cast<CUresult>(body(state, *module));
  });
}

// body(Driver&, Function&)
template <class Body>
CUresult with_function(CUfunction handle, Body&& body) {
  return in_driver([&](Driver& state) {
    std::shared_ptr<Function> function;
    CUresult result = find_function(state, handle, &function);
    return result != CUDA_SUCCESS ? result : static_cast<CUresult>(body(state, *function));
  });
}

// body(Driver&, Function&) with the kernel's function in the current context.
template <class Body>
CUresult with_kernel(CUkernel handle, Body&& body) {
  return in_context([&](Driver& state, Context& context) {
    auto kernel = state.kernels.find(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Function> function;
    CUresult result = function_in(state, context, *kernel, &function);
    return result != CUDA_SUCCESS ? result : static_cast<CUresult>(body(state, *function));
  });
}

CUresult variable_of(const Module& module, const char* name, bool managed_only,
                     CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  auto found = module.variables.find(std::string_view(name));
  if (found == module.variables.end() || (managed_only && !found->second.managed)) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.size;
  return CUDA_SUCCESS;
}

CUresult library_variable(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name,
                          bool managed_only) {
  return in_context([&](Driver& state, Context& context) {
    auto library = state.libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Module> module;
    CUresult result = module_in(state, context, *library, &module);
    if (result != CUDA_SUCCESS) return result;
    return variable_of(*module, name, managed_only, address, bytes);
  });
}

CUresult attribute_of(Driver& state, const Function& function, CUfunction_attribute attribute,
                      int* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelInfo& kernel = info(*function.kernel);
  auto module = function.module.lock();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(kernel.max_threads_per_block);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(kernel.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel.registers);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = module ? static_cast<int>(module->code.target) : 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = state.settings.arch;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = max_dynamic_shared(function);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function.shared_carveout;
      return CUDA_SUCCESS;
    default:
      if (attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult set_attribute(Driver& state, Function& function, CUfunction_attribute attribute,
                       int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    function.shared_carveout = value;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  int room = device_properties(state.settings.arch).shared_per_block_optin -
             static_cast<int>(info(*function.kernel).static_shared_bytes);
  if (value < 0 || value > room) return CUDA_ERROR_INVALID_VALUE;
  function.max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

CUresult parameter_of(const Function& function, size_t index, size_t* offset, size_t* size) {
  const auto& parameters = info(*function.kernel).parameters;
  if (offset == nullptr || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].size;
  return CUDA_SUCCESS;
}

// The first `capacity` handles of a table of names, in order of names.
template <class Handle, class Map>
void enumerate(Handle* handles, unsigned capacity, const Map& map) {
  unsigned at = 0;
  for (const auto& [name, handle] : map) {
    if (at == capacity) break;
    handles[at++] = handle;
  }
}

}  // namespace

int max_dynamic_shared(const Function& function) {
  int asked = function.max_dynamic_shared;
  if (asked != 0) return asked;
  int fixed = static_cast<int>(info(*function.kernel).static_shared_bytes);
  return std::max(kSharedPerBlock - fixed, 0);
}

}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::ErrorBuffer;
using simcuda::Function;
using simcuda::in_context;
using simcuda::in_driver;
using simcuda::Library;
using simcuda::LoadLog;
using simcuda::Module;
using simcuda::with_function;
using simcuda::with_kernel;
using simcuda::with_library;
using simcuda::with_module;

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return simcuda::load(module, ErrorBuffer(0, nullptr, nullptr),
                       [path](int arch, std::string* ptx, LoadLog* log) {
                         if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
                         return simcuda::select_ptx_file(path, arch, ptx, log);
                       });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return simcuda::load_data(module, image, ErrorBuffer(0, nullptr, nullptr));
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  return simcuda::load_data(module, image, ErrorBuffer(count, options, values));
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return simcuda::load_data(module, image, ErrorBuffer(0, nullptr, nullptr));
}

CUresult cuModuleUnload(CUmodule handle) {
  return in_context([&](Driver& state, Context& context) {
    auto module = state.modules.find(handle);
    if (!module || module->library != nullptr) return CUDA_ERROR_INVALID_HANDLE;
    simcuda::unload_module(state, module);
    return context.error();
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return in_driver([&](Driver&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return with_module(handle, [&](Driver&, Module& module) {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto found = module.functions.find(std::string_view(name));
    if (found == module.functions.end()) return CUDA_ERROR_NOT_FOUND;
    *function = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  return with_module(handle, [&](Driver&, Module& module) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(module.functions.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned capacity, CUmodule handle) {
  return with_module(handle, [&](Driver&, Module& module) {
    if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
    simcuda::enumerate(functions, capacity, module.functions);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  return with_module(handle, [&](Driver&, Module& module) {
    return simcuda::variable_of(module, name, false, address, bytes);
  });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned jit_count, CUlibraryOption*, void**,
                           unsigned) {
  return simcuda::load_library(library, ErrorBuffer(jit_count, jit_options, jit_values),
                               [code](int arch, std::string* ptx, LoadLog* log) {
                                 if (code == nullptr) return CUDA_ERROR_INVALID_VALUE;
                                 return simcuda::select_ptx(code, arch, ptx, log);
                               });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned jit_count, CUlibraryOption*, void**,
                               unsigned) {
  return simcuda::load_library(library, ErrorBuffer(jit_count, jit_options, jit_values),
                               [path](int arch, std::string* ptx, LoadLog* log) {
                                 if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
                                 return simcuda::select_ptx_file(path, arch, ptx, log);
                               });
}

CUresult cuLibraryUnload(CUlibrary handle) {
  return in_driver([&](Driver& state) {
    auto library = state.libraries.remove(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [name, kernel] : library->kernels) state.kernels.remove(kernel);
    std::lock_guard lock(library->mutex);
    for (const auto& [context, module] : library->modules) {
      if (module) simcuda::unload_module(state, module);
    }
    library->modules.clear();
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  return with_library(handle, [&](Driver&, Library& library) {
    if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto found = library.kernels.find(std::string_view(name));
    if (found == library.kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *kernel = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  return with_library(handle, [&](Driver&, Library& library) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(library.kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned capacity, CUlibrary handle) {
  return with_library(handle, [&](Driver&, Library& library) {
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    simcuda::enumerate(kernels, capacity, library.kernels);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  return in_context([&](Driver& state, Context& context) {
    auto library = state.libraries.find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> loaded;
    CUresult result = simcuda::module_in(state, context, *library, &loaded);
    if (result == CUDA_SUCCESS) *module = loaded->handle;
    return result;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  return simcuda::library_variable(address, bytes, library, name, false);
}

// The device has no functions that the host could call.
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* name) {
  return with_library(library, [&](auto&&...) {
    return function == nullptr || name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
  });
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                             const char* name) {
  return simcuda::library_variable(address, bytes, library, name, true);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return with_kernel(kernel, [&](Driver&, Function& found) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *function = found.handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel handle) {
  return in_driver([&](Driver& state) {
    auto kernel = state.kernels.find(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *library = kernel->library;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  return in_driver([&](Driver& state) {
    auto kernel = state.kernels.find(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  return with_kernel(kernel, [&](Driver& state, Function& function) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return simcuda::attribute_of(state, function, attribute, value);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  return with_kernel(kernel, [&](Driver& state, Function& function) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return simcuda::set_attribute(state, function, attribute, value);
  });
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  return with_kernel(kernel, [&](Driver& state, Function&) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return with_kernel(kernel, [&](Driver&, Function& function) {
    return simcuda::parameter_of(function, index, offset, size);
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return with_function(handle, [&](Driver& state, Function& function) {
    return simcuda::attribute_of(state, function, attribute, value);
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return with_function(handle, [&](Driver& state, Function& function) {
    return simcuda::set_attribute(state, function, attribute, value);
  });
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  return with_function(handle, [&](Driver&, Function&) {
    return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  return with_function(handle, [&](Driver&, Function&) {
    return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                              : CUDA_SUCCESS;
  });
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  return with_function(handle, [&](Driver&, Function& function) {
    auto owner = function.module.lock();
    if (module == nullptr || !owner) return CUDA_ERROR_INVALID_VALUE;
    *module = owner->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return with_function(handle, [&](Driver&, Function& function) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function.name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  return with_function(handle, [&](Driver&, Function& function) {
    return simcuda::parameter_of(function, index, offset, size);
  });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  return with_function(handle, [&](Driver&, Function&) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction handle) {
  return with_function(handle, [](Driver&, Function&) { return CUDA_SUCCESS; });
}
