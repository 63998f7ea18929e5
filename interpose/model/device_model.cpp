// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/device_model.h"

#include "tiers/checksum.h"

namespace gpusnap {

DeviceModel::DeviceModel(const Driver& used)
    : driver(used),
      modules(used),
      placement(used),
      arena(used),
      pool_reuse(used),
      shadow_mappings(used),
      graphs(used, modules, memory),
      arrays(used, memory),
      shared_memory(used),
      tile_pools(used),
      contexts(used),
      value_waits(used, contexts) {}

uint64_t DeviceModel::known(uint64_t address) const {
  const MemoryRange* range = memory.find(address);
  if (range == nullptr) return 0;
  if (range->kind != MemoryKind::kGlobal) return address;
  return checksum(range->name) + range->module + (address - range->address) +
         (static_cast<uint64_t>(range->identity.ordinal) << 48);
}

uint64_t DeviceModel::managed_places() const {
  uint64_t hash = 0;
  for (const auto& [address, range] : memory.ranges()) {
    if (range.kind != MemoryKind::kManaged || !range.is_variable()) continue;
    hash = (hash ^ address) * 31 + checksum(range.name) + range.module;
  }
  return hash;
}

bool DeviceModel::is_device_address(uint64_t address) const {
  unsigned type = 0;
  return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

uint64_t DeviceModel::size_of_placed_pinned(uint64_t address) const {
  auto it = placed_pinned.find(address);
  return it == placed_pinned.end() ? 0 : it->second;
}

void DeviceModel::release_memory(uint64_t address, MemoryKind kind) const {
  if (kind == MemoryKind::kPinned) {
    (void)driver.cuMemFreeHost(reinterpret_cast<void*>(address));
  } else {
    (void)driver.cuMemFree_v2(address);
  }
}

Status DeviceModel::give_physical_contexts() {
  for (const auto& [number, made] : physical.all()) {
    const MemoryRange* range = memory.at(made.address);
    if (made.is_doubtful) {
      return {Code::kUnsupported,
              "memory of cuMemCreate has outlived the context in which it was made"};
    }
    if (range == nullptr || range->context != 0) continue;
    memory.set_context(made.address, reinterpret_cast<uint64_t>(contexts.on_device(range->device)));
  }
  return {};
}

}  // namespace gpusnap
