#include "interpose/modules.h"

#include <algorithm>

namespace gpusnap {

void Modules::add_module(CUmodule module, CUcontext context, const ImageContents& image) {
  kernels_.add_code(next_number_, image);
  loaded_.push_back(
      {next_number_++, module, nullptr, context, globals_of(image), true, {}, {}, {}});
}

void Modules::add_library(CUlibrary library, const ImageContents& image) {
  kernels_.add_code(next_number_, image);
  loaded_.push_back(
      {next_number_++, nullptr, library, nullptr, globals_of(image), false, {}, {}, {}});
}

template <class Match>
void Modules::remove_if(Match&& match, MemoryMap& memory) {
  std::erase_if(loaded_, [&](const Loaded& loaded) {
    if (!match(loaded)) return false;
    memory.erase_module(loaded.number);
    kernels_.remove_code(loaded.number);
    // The driver may use the handle for another one.
    for (CUfunction function : loaded.met) kernels_.forget(function);
    return true;
  });
}

void Modules::remove_module(CUmodule module, MemoryMap& memory) {
  remove_if([&](const Loaded& l) { return l.library == nullptr && l.module == module; }, memory);
}

void Modules::remove_library(CUlibrary library, MemoryMap& memory) {
  remove_if([&](const Loaded& l) { return l.library == library; }, memory);
}

void Modules::remove_context(CUcontext context, MemoryMap& memory) {
  // A library outlives its contexts and is loaded anew where it is next used. What it had in this
  // one goes with the context's memory; the rest is looked up once more.
  for (Loaded& loaded : loaded_) {
    if (loaded.library == nullptr || !loaded.in_map.contains(context)) continue;
    kernels_.forget_globals(loaded.number);
    loaded.in_map.clear();
  }
  remove_if([&](const Loaded& l) { return l.library == nullptr && l.context == context; }, memory);
}

void Modules::use_library(CUlibrary library, CUmodule module) {
  for (Loaded& loaded : loaded_) {
    if (loaded.library != library) continue;
    loaded.used = true;
    if (module != nullptr) loaded.module = module;
  }
}

uint64_t Modules::number_of(CUmodule module) const {
  auto it = std::ranges::find(loaded_, module, &Loaded::module);
  return it == loaded_.end() ? UINT64_MAX : it->number;
}

uint64_t Modules::number_of(CUlibrary library) const {
  auto it = std::ranges::find(loaded_, library, &Loaded::library);
  return it == loaded_.end() ? UINT64_MAX : it->number;
}

void Modules::add_function(const void* handle, uint64_t module, const char* name) {
  functions_[handle] = function_count_++;
  kernels_.add(handle, module, name);
}

void Modules::alias_function(const void* handle, const void* known) {
  const uint32_t number = function(known);
  if (number != kUnknownFunction) functions_[handle] = number;
  kernels_.alias(handle, known);
}

void Modules::add_kernel(CUkernel kernel, uint64_t module, const char* name) {
  add_function(kernel, module, name);
  const auto it = std::ranges::find(loaded_, module, &Loaded::number);
  if (it != loaded_.end()) it->kernels.push_back(kernel);
}

void Modules::met_function(CUfunction function) {
  if (kernels_.find(function) != nullptr || driver_.cuKernelGetFunction == nullptr) return;
  for (Loaded& loaded : loaded_) {
    for (CUkernel kernel : loaded.kernels) {
      CUfunction own = nullptr;
      if (driver_.cuKernelGetFunction(&own, kernel) != CUDA_SUCCESS || own != function) continue;
      kernels_.alias(function, kernel);
      loaded.met.push_back(function);
      return;
    }
  }
}

void Modules::met_module(CUmodule module) {
  if (number_of(module) != UINT64_MAX || driver_.cuLibraryGetModule == nullptr) return;
  for (const Loaded& loaded : loaded_) {
    CUmodule own = nullptr;
    if (loaded.library != nullptr && loaded.used &&
        driver_.cuLibraryGetModule(&own, loaded.library) == CUDA_SUCCESS && own == module) {
      return use_library(loaded.library, module);
    }
  }
}

void Modules::load_function(CUfunction function) {
  if (driver_.cuFuncLoad == nullptr || !loaded_functions_.insert(function).second) return;
  // A kernel's handle is no function's to every driver; then it is loaded at its next launch.
  (void)driver_.cuFuncLoad(function);
}

CUresult Modules::address_of(const Loaded& loaded, const std::string& name, CUcontext context,
                             uint64_t* address, uint64_t* size) const {
  CUdeviceptr pointer = 0;
  size_t bytes = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  CurrentContext current(driver_, context);
  if (loaded.library == nullptr) {
    result = driver_.cuModuleGetGlobal_v2(&pointer, &bytes, loaded.module, name.c_str());
  } else if (driver_.cuLibraryGetGlobal != nullptr) {
    result = driver_.cuLibraryGetGlobal(&pointer, &bytes, loaded.library, name.c_str());
  }
  *address = pointer;
  *size = bytes;
  return result;
}

Status Modules::find_globals(const std::vector<KnownContext>& contexts, MemoryMap& memory) {
  for (Loaded& loaded : loaded_) {
    if (!loaded.used) continue;
    for (const KnownContext& context : contexts) {
      const bool here = loaded.library != nullptr || loaded.context == context.handle;
      if (!here || loaded.in_map.contains(context.handle)) continue;
      if (Status status = find_globals_of(loaded, context, memory); !status.ok()) return status;
      loaded.in_map.insert(context.handle);
    }
  }
  return {};
}

Status Modules::find_globals_of(const Loaded& loaded, const KnownContext& context,
                                MemoryMap& memory) {
  const std::string module = "module " + std::to_string(loaded.number);
  if (!loaded.globals.known) {
    return {Code::kUnsupported,
            "the variables of " + module + " cannot be told: " + loaded.globals.reason};
  }
  if (loaded.globals.device_heap) {
    return {Code::kUnsupported,
            "kernels of " + module + " use the device's malloc heap, which is not followed"};
  }
  for (const GlobalVariable& global : loaded.globals.globals) {
    if (global.size == 0) continue;
    if (global.managed) {
      return {Code::kUnsupported,
              "the __managed__ variable " + global.name + " of " + module + " is not followed"};
    }
    MemoryRange range;
    const CUresult result =
        address_of(loaded, global.name, context.handle, &range.address, &range.size);
    // A library need not be for each device of the program.
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && loaded.library != nullptr) return {};
    if (result != CUDA_SUCCESS) {
      return {Code::kUnsupported, "the variable " + global.name + " of " + module +
                                      " has no address (" + error_name(driver_, result) + ")"};
    }
    kernels_.place_global(loaded.number, global.name, range.address, range.size);
    range.kind = MemoryKind::kGlobal;
    range.context = reinterpret_cast<uint64_t>(context.handle);
    range.identity.ordinal = context.number;
    range.module = loaded.number;
    range.name = global.name;
    // The program may have asked for the address before: then it is there already.
    if (memory.at(range.address) == nullptr && !memory.insert(range)) {
      return {Code::kUnsupported,
              "the variable " + global.name + " of " + module + " overlaps other memory"};
    }
  }
  return {};
}

uint64_t Modules::find_global(uint64_t number, const std::string& name, uint64_t size,
                              CUcontext context) const {
  auto it = std::ranges::find(loaded_, number, &Loaded::number);
  uint64_t address = 0, bytes = 0;
  if (it == loaded_.end() || context == nullptr ||
      address_of(*it, name, context, &address, &bytes) != CUDA_SUCCESS || bytes != size) {
    return 0;
  }
  return address;
}

}  // namespace gpusnap
