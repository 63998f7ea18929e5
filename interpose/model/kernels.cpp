#include "interpose/model/kernels.h"

namespace gpusnap {

void Kernels::add_code(uint64_t module, const ImageContents& image) {
  code_[module].image = image;
}

void Kernels::remove_code(uint64_t module) {
  code_.erase(module);
}

// The architecture of all devices; 0 if they differ: a library's code may run on any of them.
uint32_t Kernels::device_arch() const {
  constexpr CUdevice kMostDevices = 64;
  uint32_t arch = 0;
  for (CUdevice device = 0; device < kMostDevices; ++device) {
    int major = 0, minor = 0;
    if (driver_.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     device) != CUDA_SUCCESS ||
        driver_.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     device) != CUDA_SUCCESS) {
      return arch;
    }
    const auto own = static_cast<uint32_t>(major * 10 + minor);
    if (device > 0 && own != arch) return 0;
    arch = own;
  }
  return arch;
}

void Kernels::add(const void* handle, uint64_t module, std::string_view name) {
  const auto [at, fresh] =
      numbers_.try_emplace({module, std::string(name)}, static_cast<uint32_t>(kernels_.size()));
  if (fresh) {
    Kernel& kernel = kernels_.emplace_back();
    kernel.module = module;
    kernel.writes.name = name;
    kernel.writes.reason = "its module is not known";
    if (const auto found = code_.find(module); found != code_.end()) {
      Code& code = found->second;
      if (!code.kernels) code.kernels.emplace(std::exchange(code.image, {}), device_arch());
      kernel.writes = code.kernels->find(name);
    }
  }
  handles_[handle] = at->second;
}

void Kernels::alias(const void* handle, const void* known) {
  if (const auto at = handles_.find(known); at != handles_.end()) handles_[handle] = at->second;
}

void Kernels::place_global(uint64_t module, const std::string& name, uint64_t address,
                           uint64_t size) {
  const auto at = code_.find(module);
  if (at == code_.end()) return;
  at->second.globals.emplace(name, std::pair(address, size));
  at->second.data.add(address, size);
}

void Kernels::forget_globals(uint64_t module) {
  const auto at = code_.find(module);
  if (at == code_.end()) return;
  at->second.globals.clear();
  at->second.data.clear();
}

const KernelWrites* Kernels::find(const void* handle) const {
  const auto at = handles_.find(handle);
  return at == handles_.end() ? nullptr : &kernels_[at->second].writes;
}

uint64_t Kernels::digest(const void* handle, void** params, void** extra,
                         const MemoryMap& memory) const {
  const KernelWrites* const kernel = find(handle);
  return kernel == nullptr ? 0 : digest_arguments(*kernel, params, extra, memory, host_begins_);
}

void Kernels::add_writes(const void* handle, void** params, void** extra, const MemoryMap& memory,
                         WriteSet& writes) const {
  const auto at = handles_.find(handle);
  writes.add_launch();
  if (at == handles_.end()) {
    writes.add_everything();
    return;
  }
  const Kernel& kernel = kernels_[at->second];
  switch (collect_writes(kernel.writes, params, extra, memory, writes)) {
    case Certainty::kProven:
      break;
    case Certainty::kLikely:
      writes.add_guess(at->second);
      break;
    case Certainty::kUnknown:
      writes.add_unknown(at->second);
      break;
  }
  if (kernel.writes.globals.empty()) return;
  const auto code = code_.find(kernel.module);
  if (code == code_.end()) return;
  constexpr size_t kManyGlobals = 8;
  if (!kernel.writes.looked_at && kernel.writes.globals.size() > kManyGlobals) {
    // As good as all, and far quicker: they lie side by side in the module's data sections.
    for (const auto& [address, size] : code->second.data) {
      memory.make_room(writes);
      writes.add(address, size);
    }
    return;
  }
  for (const std::string& name : kernel.writes.globals) {
    const auto [first, last] = code->second.globals.equal_range(name);
    for (auto global = first; global != last; ++global) {
      memory.make_room(writes);
      writes.add(global->second.first, global->second.second);
    }
  }
}

}  // namespace gpusnap
