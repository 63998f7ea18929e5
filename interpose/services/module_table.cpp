#include "interpose/services/module_table.h"

#include <link.h>

#include <algorithm>
#include <string_view>

#include "interpose/services/build_id.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpusnap {
namespace {

uint64_t generation_of(const dl_phdr_info& info) {
  return info.dlpi_adds + info.dlpi_subs;
}

uint64_t identity_of(const dl_phdr_info& info) {
  for (size_t i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const std::string_view id =
        build_id_in(reinterpret_cast<const char*>(info.dlpi_addr + part.p_vaddr), part.p_memsz);
    if (!id.empty()) return XXH3_64bits(id.data(), id.size());
  }
  const std::string_view path(info.dlpi_name != nullptr ? info.dlpi_name : "");
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return XXH3_64bits(name.data(), name.size());
}

struct Reading {
  std::vector<Module> modules;
  uint64_t generation = 0;
};

int add_module(dl_phdr_info* info, size_t, void* context) {
  auto& reading = *static_cast<Reading*>(context);
  reading.generation = generation_of(*info);
  Module module;
  module.base = info->dlpi_addr;
  module.begin = UINTPTR_MAX;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    module.begin = std::min<uintptr_t>(module.begin, info->dlpi_addr + part.p_vaddr);
    module.end = std::max<uintptr_t>(module.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  if (module.begin >= module.end) return 0;
  module.identity = identity_of(*info);
  reading.modules.push_back(module);
  return 0;
}

int first_generation(dl_phdr_info* info, size_t, void* context) {
  *static_cast<uint64_t*>(context) = generation_of(*info);
  return 1;  // the counts are the same in every entry
}

}  // namespace

ModuleTable ModuleTable::read() {
  Reading reading;
  dl_iterate_phdr(add_module, &reading);
  std::sort(reading.modules.begin(), reading.modules.end(),
            [](const Module& a, const Module& b) { return a.begin < b.begin; });
  ModuleTable table;
  table.modules_ = std::move(reading.modules);
  table.generation_ = reading.generation;
  return table;
}

const Module* ModuleTable::find(uintptr_t address) const {
  auto after =
      std::upper_bound(modules_.begin(), modules_.end(), address,
                       [](uintptr_t value, const Module& module) { return value < module.begin; });
  if (after == modules_.begin()) return nullptr;
  --after;
  return address < after->end ? &*after : nullptr;
}

uint64_t module_generation() noexcept {
  uint64_t generation = 0;
  dl_iterate_phdr(first_generation, &generation);
  return generation;
}

}  // namespace gpusnap
