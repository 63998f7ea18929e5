// Modules, libraries, kernels and their launches.

#include <sched.h>

#include <type_traits>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/launches.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/services/fatal.h"
#include "tiers/checksum.h"
#include "tiers/file_system.h"
#include "tracker/image.h"

namespace gpusnap::handle {

namespace {
// The __managed__ variables of what is used for the first time: the host sees them from now on, so
// other threads that come to use it wait until they are known.
void note_managed(HookedCall& hooked) {
  Modules& modules = hooked.model().modules;
  while (modules.looks_for_managed()) {
    (void)hooked.unlocked([] { return sched_yield() == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; });
  }
  std::vector<Modules::Managed> wanted = modules.begin_managed();
  if (wanted.empty()) return;
  hooked.contexts().note_current();
  const auto context = reinterpret_cast<uint64_t>(hooked.model().contexts.current());
  (void)hooked.unlocked([&] {
    for (Modules::Managed& one : wanted) modules.find_managed(one);
    return CUDA_SUCCESS;
  });
  modules.end_managed(wanted);
  for (const Modules::Managed& one : wanted) {
    MemoryRange range;
    range.address = one.address;
    range.size = one.size;
    range.kind = MemoryKind::kManaged;
    range.context = context;
    range.module = one.number;
    range.name = one.variable.name;
    if (one.address != 0 && hooked.model().memory.insert(std::move(range))) {
      hooked.model().host_memory.add(one.address, one.size);
    }
  }
}

// They go with their module. Before that: other threads must not look at them any more. Whether
// there were any.
bool end_managed(HookedCall& hooked, uint64_t number) {
  std::vector<uint64_t> gone;
  for (const auto& [address, range] : hooked.model().memory.ranges()) {
    const bool managed = range.kind == MemoryKind::kManaged && range.is_variable();
    if (managed && range.module == number) gone.push_back(address);
  }
  for (const uint64_t address : gone) erase_range(hooked, address);
  return !gone.empty();
}

// They are there still, and not followed any more.
void refuse_managed(HookedCall& hooked) {
  hooked.refuse("a module with __managed__ variables that the driver did not unload");
}

// Empty where it cannot be read; the driver then says why.
std::vector<std::byte> read_whole_file(const char* path) {
  std::vector<std::byte> bytes;
  auto file = posix_file_system().open(path);
  if (!file.ok()) return bytes;
  bytes.resize(file.value()->size());
  if (!file.value()->read(0, bytes).ok()) bytes.clear();
  return bytes;
}

// An image where the program has it: its contents, and the hash that a replay must repeat.
struct Image {
  ImageContents contents;
  uint64_t hash = 0;
};

Image look_at(ImageContents contents) {
  uint64_t hash = contents.unreadable.size();
  for (const ImageEntry& entry : contents.entries) {
    hash = hash * 31 + checksum(std::as_bytes(std::span(entry.bytes)));
  }
  return {std::move(contents), hash};
}

Image look_at_memory(const void* image) {
  return image == nullptr ? Image() : look_at(read_image_at(image));
}

Image look_at_file(const char* path) {
  if (path == nullptr) return {};
  return look_at(read_image(read_whole_file(path)));
}

template <class F, class... A>
CUresult load_module(const Call<F>& call, const Image& image, HookedCall& hooked, CUmodule* out,
                     A... args) {
  hooked.key.add(image.hash);
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(out, args...); });
  if (result == CUDA_SUCCESS) {
    hooked.contexts().note_current();
    hooked.model().modules.add_module(*out, hooked.model().contexts.current(), image.contents);
    note_managed(hooked);
  }
  return result;
}
}  // namespace

CUresult module_load(const Call<CUresult(CUmodule*, const char*)>& call, CUmodule* out,
                     const char* path) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, path);
  return load_module(call, look_at_file(path), hooked, out, path);
}

CUresult module_load(const Call<CUresult(CUmodule*, const void*)>& call, CUmodule* out,
                     const void* image) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, image);
  return load_module(call, look_at_memory(image), hooked, out, image);
}

CUresult module_load(
    const Call<CUresult(CUmodule*, const void*, unsigned, CUjit_option*, void**)>& call,
    CUmodule* out, const void* image, unsigned count, CUjit_option* options, void** values) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, image, count, options, values);
  return load_module(call, look_at_memory(image), hooked, out, image, count, options, values);
}

namespace {
// A module's variables go with it. The variables of one that was loaded since the cut are not in
// the map, nor in the snapshot.
template <class Handle>
void add_globals(HookedCall& hooked, Handle handle) {
  const uint64_t number = hooked.model().modules.number_of(handle);
  hooked.writes.add_nothing();
  for (const auto& [address, range] : hooked.model().memory.ranges()) {
    if (range.kind == MemoryKind::kGlobal && range.module == number) {
      hooked.writes.add(address, range.size);
    }
  }
}
}  // namespace

CUresult module_unload(const Call<CUresult(CUmodule)>& call, CUmodule module) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(module);
  if (hooked.asks_writes()) add_globals(hooked, module);
  hooked.before_write();
  const bool managed = end_managed(hooked, hooked.model().modules.number_of(module));
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(module); });
  if (result != CUDA_SUCCESS && managed) refuse_managed(hooked);
  if (result == CUDA_SUCCESS) {
    hooked.model().modules.remove_module(module, hooked.model().memory);
  }
  return result;
}

CUresult module_get_function(const Call<CUresult(CUfunction*, CUmodule, const char*)>& call,
                             CUfunction* out, CUmodule module, const char* name) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, module, name);
  if (name == nullptr) return hooked.record_or_repeat([&] { return call.real(out, module, name); });
  hooked.key.name = name;
  const CUresult result =
      hooked.record_or_repeat_in_order([&] { return call.real(out, module, name); });
  if (result == CUDA_SUCCESS) {
    Modules& modules = hooked.model().modules;
    modules.add_function(*out, modules.number_of(module), name);
  }
  return result;
}

namespace {
// The variable is state from now on, and a place that copies may name.
template <class Handle>
void note_global(HookedCall& hooked, Handle module, const CUdeviceptr* address, const size_t* bytes,
                 const char* name) {
  if (address == nullptr || bytes == nullptr || *bytes == 0) return;
  hooked.contexts().note_current();
  MemoryRange range;
  range.address = *address;
  range.size = *bytes;
  range.kind = MemoryKind::kGlobal;
  range.context = reinterpret_cast<uint64_t>(hooked.model().contexts.current());
  range.identity.ordinal = hooked.model().contexts.number_of(hooked.model().contexts.current());
  range.module = hooked.model().modules.number_of(module);
  range.name = name;
  if (hooked.model().memory.at(range.address) == nullptr)
    hooked.model().memory.insert(std::move(range));
}

template <class F, class Handle>
CUresult get_global(const Call<F>& call, HookedCall& hooked, CUdeviceptr* address, size_t* bytes,
                    Handle module, const char* name) {
  // Both are wanted by us, whatever the program leaves out.
  CUdeviceptr own_address = 0;
  size_t own_bytes = 0;
  if (address == nullptr) address = &own_address;
  if (bytes == nullptr) bytes = &own_bytes;
  hooked.key.name = name;
  const CUresult result =
      hooked.record_or_repeat_in_order([&] { return call.real(address, bytes, module, name); });
  if (result != CUDA_SUCCESS) return result;
  if constexpr (std::is_same_v<Handle, CUlibrary>) {
    hooked.model().modules.use_library(module);
    note_managed(hooked);
  }
  note_global(hooked, module, address, bytes, name);
  return result;
}
}  // namespace

CUresult module_get_global(const Call<CUresult(CUdeviceptr*, size_t*, CUmodule, const char*)>& call,
                           CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, bytes, module, name);
  if (name == nullptr) {
    return hooked.record_or_repeat([&] { return call.real(address, bytes, module, name); });
  }
  return get_global(call, hooked, address, bytes, module, name);
}

namespace {
template <class F, class... A>
CUresult load_library(const Call<F>& call, const Image& image, HookedCall& hooked, CUlibrary* out,
                      A... args) {
  hooked.key.add(image.hash);
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(out, args...); });
  if (result == CUDA_SUCCESS) hooked.model().modules.add_library(*out, image.contents);
  return result;
}
}  // namespace

CUresult library_load(const Call<CUresult(CUlibrary*, const void*, CUjit_option*, void**, unsigned,
                                          CUlibraryOption*, void**, unsigned)>& call,
                      CUlibrary* out, const void* image, CUjit_option* jit_options,
                      void** jit_values, unsigned jit_count, CUlibraryOption* options,
                      void** values, unsigned count) {
  HookedCall hooked(call);
  if (hooked.passthrough()) {
    return call.real(out, image, jit_options, jit_values, jit_count, options, values, count);
  }
  return load_library(call, look_at_memory(image), hooked, out, image, jit_options, jit_values,
                      jit_count, options, values, count);
}

CUresult library_load(const Call<CUresult(CUlibrary*, const char*, CUjit_option*, void**, unsigned,
                                          CUlibraryOption*, void**, unsigned)>& call,
                      CUlibrary* out, const char* path, CUjit_option* jit_options,
                      void** jit_values, unsigned jit_count, CUlibraryOption* options,
                      void** values, unsigned count) {
  HookedCall hooked(call);
  if (hooked.passthrough()) {
    return call.real(out, path, jit_options, jit_values, jit_count, options, values, count);
  }
  return load_library(call, look_at_file(path), hooked, out, path, jit_options, jit_values,
                      jit_count, options, values, count);
}

CUresult library_unload(const Call<CUresult(CUlibrary)>& call, CUlibrary library) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(library);
  if (hooked.asks_writes()) add_globals(hooked, library);
  hooked.before_write();
  const bool managed = end_managed(hooked, hooked.model().modules.number_of(library));
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(library); });
  if (result != CUDA_SUCCESS && managed) refuse_managed(hooked);
  if (result == CUDA_SUCCESS) {
    hooked.model().modules.remove_library(library, hooked.model().memory);
  }
  return result;
}

CUresult library_get(const Call<CUresult(CUkernel*, CUlibrary, const char*)>& call, CUkernel* out,
                     CUlibrary library, const char* name) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, library, name);
  if (name == nullptr)
    return hooked.record_or_repeat([&] { return call.real(out, library, name); });
  hooked.key.name = name;
  const CUresult result =
      hooked.record_or_repeat_in_order([&] { return call.real(out, library, name); });
  if (result == CUDA_SUCCESS) {
    Modules& modules = hooked.model().modules;
    modules.add_kernel(*out, modules.number_of(library), name);
    modules.use_library(library);
    note_managed(hooked);
  }
  return result;
}

CUresult library_get(const Call<CUresult(CUmodule*, CUlibrary)>& call, CUmodule* out,
                     CUlibrary library) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, library);
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(out, library); });
  if (result == CUDA_SUCCESS) {
    hooked.model().modules.use_library(library, *out);
    note_managed(hooked);
  }
  return result;
}

// A pointer to code that host and device both may call, and either may keep: it is the same again.
CUresult library_get(const Call<decltype(cuLibraryGetUnifiedFunction)>& call, void** out,
                     CUlibrary library, const char* name) {
  auto real = [&] { return call.real(out, library, name); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  if (name == nullptr || out == nullptr) return hooked.record_or_repeat(real);
  hooked.key.name = name;
  if (!hooked.replaying()) {
    const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, real);
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
      return result;
    }
    hooked.record_answer(result, out, sizeof *out);
  } else {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    hooked.repeat(real);
    void* before = nullptr;
    hooked.take_answer(&before, sizeof before);
    if (before != *out) {
      fatal(kExitImpossible, "the function " + std::string(name) +
                                 " is elsewhere in this process, and the device " +
                                 "may hold its address");
    }
  }
  hooked.model().modules.use_library(library);
  note_managed(hooked);
  return CUDA_SUCCESS;
}

CUresult library_get(const Call<CUresult(CUdeviceptr*, size_t*, CUlibrary, const char*)>& call,
                     CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, bytes, library, name);
  if (name == nullptr) {
    return hooked.record_or_repeat([&] { return call.real(address, bytes, library, name); });
  }
  return get_global(call, hooked, address, bytes, library, name);
}

CUresult kernel_get_function(const Call<CUresult(CUfunction*, CUkernel)>& call, CUfunction* out,
                             CUkernel kernel) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, kernel);
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(out, kernel); });
  if (result == CUDA_SUCCESS) hooked.model().modules.alias_function(*out, kernel);
  return result;
}

namespace {
// A list of handles of kernels, which the program tells apart by their places in it, or by the
// names that it asks for: both must be as they were. `count_of` and `name_of` are the driver's, or
// null.
template <class Handle, class Owner, class Count, class Name, class Real, class Add>
CUresult list_kernels(HookedCall& hooked, Handle* handles, unsigned capacity, Owner owner,
                      Count count_of, Name name_of_handle, Real&& real, Add&& add) {
  if (handles == nullptr) return hooked.record_or_repeat(real);
  if (count_of == nullptr || name_of_handle == nullptr) {
    return hooked.record_or_refuse(name_of(hooked.hook()), real);
  }
  CUresult result;
  if (hooked.replaying()) {
    result = hooked.match_next_entry();
    if (result == CUDA_SUCCESS) hooked.repeat(real);
  } else {
    result = hooked.call_driver(real);
    if (result != CUDA_SUCCESS) hooked.record(result);
  }
  if (result != CUDA_SUCCESS) return result;
  std::vector<std::string> names;
  (void)hooked.unlocked([&] {
    unsigned count = 0;
    if (count_of(&count, owner) != CUDA_SUCCESS) count = 0;
    for (unsigned i = 0; i < std::min(count, capacity); ++i) {
      const char* name = nullptr;
      if (name_of_handle(&name, handles[i]) != CUDA_SUCCESS || name == nullptr) name = "";
      names.emplace_back(name);
    }
    return CUDA_SUCCESS;
  });
  uint64_t hash = names.size();
  for (const std::string& name : names) {
    hash = hash * 31 + checksum(std::as_bytes(std::span(name)));
  }
  if (hooked.replaying()) {
    uint64_t recorded = 0;
    hooked.take_answer(&recorded, sizeof recorded);
    if (recorded != hash) {
      fatal(kExitImpossible,
            std::string(name_of(hooked.hook())) +
                " lists other kernels than when it was recorded, or in another order");
    }
  } else {
    hooked.record_answer(result, &hash, sizeof hash);
  }
  for (size_t i = 0; i < names.size(); ++i) add(handles[i], names[i].c_str());
  return result;
}
}  // namespace

CUresult enumerate_code(const Call<decltype(cuModuleEnumerateFunctions)>& call,
                        CUfunction* functions, unsigned capacity, CUmodule module) {
  auto real = [&] { return call.real(functions, capacity, module); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  Modules& modules = hooked.model().modules;
  const Driver& driver = hooked.driver();
  const uint64_t number = modules.number_of(module);
  hooked.key.add(number, capacity);
  return list_kernels(hooked, functions, capacity, module, driver.cuModuleGetFunctionCount,
                      driver.cuFuncGetName, real, [&](CUfunction function, const char* name) {
                        modules.add_function(function, number, name);
                      });
}

CUresult enumerate_code(const Call<decltype(cuLibraryEnumerateKernels)>& call, CUkernel* kernels,
                        unsigned capacity, CUlibrary library) {
  auto real = [&] { return call.real(kernels, capacity, library); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  Modules& modules = hooked.model().modules;
  const Driver& driver = hooked.driver();
  const uint64_t number = modules.number_of(library);
  hooked.key.add(number, capacity);
  const CUresult result =
      list_kernels(hooked, kernels, capacity, library, driver.cuLibraryGetKernelCount,
                   driver.cuKernelGetName, real, [&](CUkernel kernel, const char* name) {
                     modules.add_kernel(kernel, number, name);
                     modules.use_library(library);
                   });
  note_managed(hooked);
  return result;
}

CUresult get_module(const Call<CUresult(CUmodule*, CUfunction)>& call, CUmodule* out,
                    CUfunction function) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, function);
  hooked.key.add(hooked.model().modules.function(function));
  const CUresult result = hooked.record_or_repeat([&] { return call.real(out, function); });
  if (result == CUDA_SUCCESS) hooked.model().modules.met_module(*out);
  return result;
}

CUresult launch(const Call<decltype(cuLaunchKernel)>& call, CUfunction function, unsigned grid_x,
                unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, CUstream stream, void** params,
                void** extra) {
  auto real = [&] {
    return call.real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                     stream, params, extra);
  };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  return follow_launch(hooked, function,
                       {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes}, stream,
                       {params, extra}, real);
}

CUresult launch(const Call<decltype(cuLaunchKernelEx)>& call, const CUlaunchConfig* config,
                CUfunction function, void** params, void** extra) {
  auto real = [&] { return call.real(config, function, params, extra); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  if (config == nullptr) return hooked.record_or_skip(real);
  return follow_launch(hooked, function,
                       {config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes},
                       config->hStream, {params, extra}, real);
}

CUresult launch(const Call<decltype(cuLaunchCooperativeKernel)>& call, CUfunction function,
                unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                void** params) {
  auto real = [&] {
    return call.real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                     stream, params);
  };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  return follow_launch(hooked, function,
                       {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes}, stream,
                       {params, nullptr}, real);
}

}  // namespace gpusnap::handle
