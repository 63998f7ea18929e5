// SPDX-License-Identifier: Apache-2.0
//
// The program's objects on the device, as far as the session follows them.
//
// The session's lock guards all of it, but for what each part says of itself.
#pragma once

#include <cstdint>
#include <map>

#include "interpose/hook/driver.h"
#include "interpose/model/arrays.h"
#include "interpose/model/contexts.h"
#include "interpose/model/device_arena.h"
#include "interpose/model/graphs.h"
#include "interpose/model/host_memory.h"
#include "interpose/model/legacy_launch.h"
#include "interpose/model/modules.h"
#include "interpose/model/placement.h"
#include "interpose/model/pool_reuse.h"
#include "interpose/model/shadow_mappings.h"
#include "interpose/model/shared_memory.h"
#include "interpose/model/tile_pools.h"
#include "interpose/model/value_waits.h"
#include "tiers/status.h"
#include "tracker/memory_map.h"
#include "tracker/physical_memory.h"

namespace gpusnap {

struct DeviceModel {
  // The driver outlives it.
  explicit DeviceModel(const Driver& used);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  // The address, where it is one that a replay must repeat; 0 for any other.
  // A module's variable may lie elsewhere in a replay: it counts by its name.
  uint64_t known(uint64_t address) const;
  // A hash of the places of all __managed__ variables, by which a cut knows them; 0: there are
  // none.
  uint64_t managed_places() const;
  // For addresses that the map does not know.
  bool is_device_address(uint64_t address) const;
  // A restore had to place it: the driver does not know it as an allocation.
  bool is_placed(const MemoryRange& range) const {
    return placement.owns(range.address) || placed_pinned.contains(range.address);
  }
  // Pinned memory that stands in for the driver's own at a recorded address: its size, else 0.
  uint64_t size_of_placed_pinned(uint64_t address) const;
  // Gives memory back to the driver.
  void release_memory(uint64_t address, MemoryKind kind) const;
  // Physical memory may be made where there is no context on its device yet. Refuses where the one
  // that it had has ended.
  Status give_physical_contexts();

  const Driver& driver;
  MemoryMap memory;
  HostMemory host_memory;
  Modules modules;
  AddressPlacement placement;
  DeviceArena arena;
  PoolReuse pool_reuse;
  PhysicalMemories physical;
  ShadowMappings shadow_mappings;
  Graphs graphs;
  LegacyLaunches legacy_launches;
  Arrays arrays;
  SharedMemory shared_memory;
  TilePools tile_pools;
  std::map<uint64_t, uint64_t> placed_pinned;  // by address: the size
  Contexts contexts;
  ValueWaits value_waits;
};

}  // namespace gpusnap
