#include "interpose/model/modules.h"

#include <algorithm>
#include <utility>

namespace gpusnap {

void Modules::add_module(CUmodule module, CUcontext context, const ImageContents& image) {
  kernels_.add_code(next_number_, image);
  loaded_.push_back(
      {next_number_++, module, nullptr, context, globals_of(image), true, {}, {}, true, {}, {}});
}

void Modules::add_library(CUlibrary library, const ImageContents& image) {
  kernels_.add_code(next_number_, image);
  loaded_.push_back(
      {next_number_++, nullptr, library, nullptr, globals_of(image), false, {}, {}, true, {}, {}});
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
  // A library outlives its contexts and is loaded anew when it is next used. Its variables in this
  // one go with the context's memory; the others are looked up once more.
  for (Loaded& loaded : loaded_) {
    if (loaded.library == nullptr || !loaded.in_map.contains(context)) continue;
    kernels_.forget_globals(loaded.number);
    loaded.in_map.clear();
    place_managed(loaded.managed);
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

CUresult Modules::address_of(const Loaded& loaded, const GlobalVariable& global, CUcontext context,
                             uint64_t* address, uint64_t* size) const {
  CUdeviceptr pointer = 0;
  size_t bytes = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  CurrentContext current(driver_, context);
  if (loaded.library == nullptr) {
    result = driver_.cuModuleGetGlobal_v2(&pointer, &bytes, loaded.module, global.name.c_str());
  } else if (const auto ask =
                 global.managed ? driver_.cuLibraryGetManaged : driver_.cuLibraryGetGlobal;
             ask != nullptr) {
    result = ask(&pointer, &bytes, loaded.library, global.name.c_str());
  }
  *address = pointer;
  *size = bytes;
  return result;
}

std::vector<Modules::Managed> Modules::begin_managed() {
  std::vector<Managed> wanted;
  for (Loaded& loaded : loaded_) {
    if (!loaded.used || !std::exchange(loaded.managed_wanted, false)) continue;
    for (const GlobalVariable& global : loaded.globals.globals) {
      if (global.managed && global.size != 0) {
        wanted.push_back({loaded.number, loaded.module, loaded.library, global});
      }
    }
  }
  looking_for_managed_ = !wanted.empty();
  return wanted;
}

void Modules::find_managed(Managed& wanted) const {
  CUmodule module = wanted.module;
  CUdeviceptr address = 0;
  size_t size = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (wanted.library == nullptr) {
    result = driver_.cuModuleGetGlobal_v2(&address, &size, module, wanted.variable.name.c_str());
  } else if (driver_.cuLibraryGetManaged != nullptr && driver_.cuLibraryGetModule != nullptr) {
    // They are there once the library is loaded in some context.
    (void)driver_.cuLibraryGetModule(&module, wanted.library);
    result =
        driver_.cuLibraryGetManaged(&address, &size, wanted.library, wanted.variable.name.c_str());
  }
  if (result != CUDA_SUCCESS) return;
  wanted.address = address;
  wanted.size = size;
}

void Modules::end_managed(const std::vector<Managed>& found) {
  looking_for_managed_ = false;
  place_managed(found);
  for (const Managed& one : found) {
    const auto it = std::ranges::find(loaded_, one.number, &Loaded::number);
    if (it != loaded_.end()) it->managed.push_back(one);
  }
}

void Modules::place_managed(const std::vector<Managed>& found) {
  for (const Managed& one : found) {
    if (one.address != 0) {
      kernels_.place_global(one.number, one.variable.name, one.address, one.size);
    }
  }
}

// Where begin_managed() did not lead to it, calls may have written it unseen.
Status Modules::expect_managed(const Loaded& loaded, const GlobalVariable& global,
                               const KnownContext& context, const MemoryMap& memory) const {
  uint64_t address = 0, size = 0;
  const CUresult result = address_of(loaded, global, context.handle, &address, &size);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && loaded.library != nullptr) return {};
  const MemoryRange* known = result == CUDA_SUCCESS ? memory.at(address) : nullptr;
  if (known != nullptr && known->kind == MemoryKind::kManaged) return {};
  return {
      Code::kUnsupported,
      "the __managed__ variable " + global.name + " of module " + std::to_string(loaded.number) +
          " was not known in a context that uses it" +
          (result == CUDA_SUCCESS ? "" : " (" + std::string(error_name(driver_, result)) + ")")};
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
      if (Status status = expect_managed(loaded, global, context, memory); !status.ok()) {
        return status;
      }
      continue;
    }
    MemoryRange range;
    const CUresult result = address_of(loaded, global, context.handle, &range.address, &range.size);
    // A library need not be for each device of the program.
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && loaded.library != nullptr) return {};
    if (result == CUDA_ERROR_NOT_FOUND && (global.in_some_only || global.is_compilers_text())) {
      continue;
    }
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
      address_of(*it, {name, size}, context, &address, &bytes) != CUDA_SUCCESS || bytes != size) {
    return 0;
  }
  return address;
}

}  // namespace gpusnap
