// Virtual memory management: addresses, physical memory, and what maps one to the other.
//
// A replay makes all of these calls. The physical memory is saved, through a mapping of our own
// (shadow_mappings.h); the program's own mappings of it are views, which lead there.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/handlers/sparse.h"
#include "interpose/services/text.h"
#include "interpose/snapshot/snapshots.h"

namespace gpusnap::handle {

namespace {
// A call that uses addresses which another thread's call may be about to give back.
template <class Real>
CUresult made_at(HookedCall& hooked, uint64_t address, uint64_t size, Real&& real) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) hooked.repeat(real);
    return recorded;
  }
  const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, real);
  if (result == CUDA_SUCCESS) hooked.memory_order().wait_for_frees(address, size);
  hooked.record(result);
  return result;
}

// One that gives addresses back. `forget`: what the session knew of them goes.
template <class Real, class Forget>
CUresult given_back(HookedCall& hooked, uint64_t address, uint64_t size, Real&& real,
                    Forget&& forget) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    hooked.repeat(real);
    forget();
    return recorded;
  }
  MemoryOrder& order = hooked.memory_order();
  order.begin_free(address, size);
  const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, real);
  // It may have waited for the device, so the host may look at the rest of what that did.
  hooked.record_visible(result, false, nullptr);
  if (result == CUDA_SUCCESS) forget();
  order.end_free(address);
  return result;
}

uint64_t number_of(DeviceModel& model, CUmemGenericAllocationHandle handle) {
  const PhysicalMemory* memory = model.physical.find(handle);
  return memory == nullptr ? 0 : memory->number;
}

// The program neither holds it nor has it mapped: it ends with our own mapping, as soon as a
// snapshot has what it needs of it.
void end_physical(HookedCall& hooked, uint64_t number) {
  const PhysicalMemory* found = hooked.model().physical.numbered(number);
  // Ours have gone already where no more checkpoints are taken.
  if (found == nullptr || !found->ended() || hooked.is_off()) return;
  const PhysicalMemory memory = *found;
  hooked.model().physical.erase(number);
  const bool asked = hooked.snapshot_pending() && !hooked.replaying();
  (void)hooked.unlocked([&] {
    const RelaxedCapture relaxed(hooked.driver());
    if (asked) {
      WriteSet all;
      all.add_range_of(memory.address);
      hooked.snapshots().before_write(all, nullptr, Hold::kHost, true);
    }
    hooked.model().shadow_mappings.unmap(memory.address, memory.size);
    return CUDA_SUCCESS;
  });
  hooked.model().memory.erase(memory.address);
  hooked.model().shadow_mappings.give_back(memory.address, memory.size);
}

// Maps what the program has just made at an address of ours, in a replay at the one that it had.
Result<ShadowMappings::Place> map_own(HookedCall& hooked, CUmemGenericAllocationHandle handle,
                                      size_t size, int device,
                                      const ShadowMappings::Place* wanted) {
  ShadowMappings& own = hooked.model().shadow_mappings;
  const auto outside = [&](auto&& call) {
    return hooked.unlocked([&] {
      const RelaxedCapture relaxed(hooked.driver());
      return call();
    });
  };
  auto place = own.find_place(size, wanted, outside);
  if (!place.ok()) return place;
  // A replay has the addresses only when they have been given back there, too.
  if (!hooked.replaying()) hooked.memory_order().wait_for_frees(place->chunk, place->chunk_bytes);
  const uint64_t address = place->address;
  const CUresult result = outside([&] { return own.map(address, size, handle, device); });
  if (result == CUDA_SUCCESS) return place;
  own.give_back(address, size);
  return driver_status(hooked.driver(), "mapping it for a checkpoint", result);
}

void insert_physical(HookedCall& hooked, CUmemGenericAllocationHandle handle, uint64_t address,
                     size_t size, int device) {
  MemoryRange range;
  range.address = address;
  range.size = size;
  range.kind = MemoryKind::kPhysical;
  range.module = hooked.model().physical.add(handle, address, size).number;
  hooked.contexts().note_current();
  range.context = reinterpret_cast<uint64_t>(hooked.model().contexts.on_device(device));
  range.device = device;
  hooked.model().memory.insert(std::move(range));
}

bool is_device_memory(const CUmemAllocationProp* properties) {
  return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}
}  // namespace

// A replay asks for the recorded addresses, which lets it have them whatever else there is.
CUresult address_reserve(const Call<decltype(cuMemAddressReserve)>& call, CUdeviceptr* out,
                         size_t size, size_t alignment, CUdeviceptr hint,
                         unsigned long long flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, alignment, hint, flags);
  hooked.key.add(size, alignment, flags);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    uint64_t before = 0;
    hooked.take_answer(&before, sizeof before);
    hooked.repeat([&] { return call.real(out, size, alignment, before, flags); });
    if (*out != before) cannot_place(before, size, "the range is taken in this process");
  } else {
    const CUresult result = hooked.call_driver_in_order(
        MemoryOrder::Kind::kQuick, [&] { return call.real(out, size, alignment, hint, flags); });
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
      return result;
    }
    hooked.memory_order().wait_for_frees(*out, size);
    const uint64_t address = *out;
    hooked.record_answer(result, &address, sizeof address);
  }
  hooked.model().memory.add_space(*out, size);
  return CUDA_SUCCESS;
}

CUresult address_free(const Call<decltype(cuMemAddressFree)>& call, CUdeviceptr address,
                      size_t size) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, size);
  hooked.key.add(address, size);
  return given_back(
      hooked, address, size, [&] { return call.real(address, size); },
      [&] { hooked.model().memory.remove_space(address); });
}

CUresult physical_create(const Call<decltype(cuMemCreate)>& call, CUmemGenericAllocationHandle* out,
                         size_t size, const CUmemAllocationProp* properties,
                         unsigned long long flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, properties, flags);
  hooked.key.add(size, flags);
  const auto real = [&] {
    return with_room(hooked.room(), [&] { return call.real(out, size, properties, flags); });
  };
  // A null pointer fails in the driver.
  if (properties != nullptr && !is_device_memory(properties)) {
    return hooked.record_or_refuse("cuMemCreate of memory that is not a device's", real);
  }
  const int device = properties == nullptr ? 0 : properties->location.id;
  hooked.key.add(static_cast<uint64_t>(device));
  if (properties != nullptr && is_for_tiles(*properties)) {
    return create_tile_pool(hooked, call, out, size, *properties, flags);
  }
  ShadowMappings::Place place;
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    hooked.take_answer(&place, sizeof place);
    hooked.repeat(real);
    const auto own = map_own(hooked, *out, size, device, &place);
    if (!own.ok()) cannot_place(place.address, size, own.status().message());
    insert_physical(hooked, *out, own->address, size, device);
    return recorded;
  }
  const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, real);
  if (result != CUDA_SUCCESS) {
    hooked.record(result);
    return result;
  }
  const auto own = map_own(hooked, *out, size, device, nullptr);
  // Another thread may have ended the recording.
  if (hooked.is_off()) {
    if (own.ok()) hooked.model().shadow_mappings.unmap(own->address, size);
    return result;
  }
  if (!own.ok()) {
    hooked.refuse("cuMemCreate (" + own.status().message() + ")");
    return result;
  }
  place = own.value();
  hooked.record_answer(result, &place, sizeof place);
  insert_physical(hooked, *out, place.address, size, device);
  return result;
}

CUresult physical_release(const Call<decltype(cuMemRelease)>& call,
                          CUmemGenericAllocationHandle handle) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(handle);
  if (const TilePool* pool = hooked.model().tile_pools.find(handle)) {
    return release_tile_pool(hooked, call, handle, pool->number);
  }
  const uint64_t number = number_of(hooked.model(), handle);
  hooked.key.add(number);
  hooked.writes.add_nothing();  // until it is known to end
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(handle); });
  PhysicalMemory* memory = hooked.model().physical.numbered(number);
  if (result != CUDA_SUCCESS || memory == nullptr) return result;
  --memory->references;
  end_physical(hooked, number);
  return result;
}

CUresult physical_retain(const Call<decltype(cuMemRetainAllocationHandle)>& call,
                         CUmemGenericAllocationHandle* out, void* address) {
  HookedCall hooked(call);
  const auto at = reinterpret_cast<uint64_t>(address);
  // The physical memory under what cuMemAlloc gave is not the program's to know.
  const auto real = [&] {
    return DeviceArena::covers(at) ? CUDA_ERROR_INVALID_VALUE : call.real(out, address);
  };
  if (hooked.passthrough()) return real();
  hooked.key.add(hooked.model().known(at));
  const CUresult result = hooked.record_or_repeat(real);
  if (result != CUDA_SUCCESS) return result;
  const MemoryRange* view = hooked.model().memory.find(at);
  PhysicalMemory* memory = view == nullptr || view->kind != MemoryKind::kView
                               ? nullptr
                               : hooked.model().physical.numbered(view->module);
  if (memory != nullptr) {
    hooked.model().physical.retained(*memory, *out);
  } else {
    hooked.refuse("cuMemRetainAllocationHandle of memory that no cuMemMap has mapped");
  }
  return result;
}

CUresult physical_map(const Call<decltype(cuMemMap)>& call, CUdeviceptr address, size_t size,
                      size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, size, offset, handle, flags);
  const uint64_t number = number_of(hooked.model(), handle);
  hooked.key.add(address, size, offset, number, flags);
  const CUresult result = made_at(hooked, address, size,
                                  [&] { return call.real(address, size, offset, handle, flags); });
  if (result != CUDA_SUCCESS || hooked.is_off()) return result;
  PhysicalMemory* memory = hooked.model().physical.numbered(number);
  if (memory == nullptr) {
    hooked.refuse("cuMemMap of memory that no cuMemCreate has made");
    return result;
  }
  ++memory->mappings;
  MemoryRange view;
  view.address = address;
  view.size = size;
  view.kind = MemoryKind::kView;
  view.module = number;
  view.origin = memory->address + offset;
  hooked.model().memory.insert(std::move(view));
  return result;
}

CUresult physical_unmap(const Call<decltype(cuMemUnmap)>& call, CUdeviceptr address, size_t size) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, size);
  hooked.key.add(address, size);
  hooked.writes.add_nothing();  // until it is known what ends
  std::vector<uint64_t> numbers;
  const CUresult result = given_back(
      hooked, address, size, [&] { return call.real(address, size); },
      [&] { numbers = hooked.model().memory.erase_views(address, size); });
  for (uint64_t number : numbers) {
    if (PhysicalMemory* memory = hooked.model().physical.numbered(number)) --memory->mappings;
    end_physical(hooked, number);
  }
  return result;
}

}  // namespace gpusnap::handle
