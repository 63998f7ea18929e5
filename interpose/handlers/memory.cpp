// Memory: got, given back, asked about.

#include <sys/mman.h>

#include <algorithm>

#include "interpose/handlers/graph_memory.h"
#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/services/fatal.h"
#include "interpose/services/text.h"

namespace gpusnap::handle {

[[noreturn]] void cannot_place(uint64_t recorded, uint64_t size, const std::string& why) {
  fatal(kExitImpossible,
        "the memory that was at " + range_text(recorded, size) + " cannot be had there: " + why);
}

void insert_range(HookedCall& hooked, uint64_t address, uint64_t size, MemoryKind kind,
                  bool of_pool) {
  hooked.contexts().note_current();
  MemoryRange range;
  range.address = address;
  range.size = size;
  range.kind = kind;
  range.of_pool = of_pool;
  range.identity = hooked.identities().next();
  range.context = reinterpret_cast<uint64_t>(hooked.model().contexts.current());
  hooked.model().memory.insert(std::move(range));
  if (kind == MemoryKind::kManaged || kind == MemoryKind::kPinned) {
    hooked.model().host_memory.add(address, size);
  }
}

uint64_t erase_range(DeviceModel& model, HostUpdates& host_updates, uint64_t address) {
  const MemoryRange* range = model.memory.at(address);
  if (range == nullptr) return 0;
  const uint64_t size = range->size;
  if (range->shared) model.shared_memory.withdraw(address);
  host_updates.forget_pending(address, size);
  model.memory.erase(address);
  model.host_memory.remove(address);
  return size;
}

void end_placed(HookedCall& hooked, uint64_t address) {
  const Driver& driver = hooked.driver();
  const auto unused = hooked.model().placement.free(address);
  // Unmapping waits for all that is queued: host functions, too, which take the session's lock.
  (void)hooked.unlocked([&] {
    for (const MappedMemory& memory : unused) unmap_memory(driver, memory);
    return CUDA_SUCCESS;
  });
}

uint64_t free_range(HookedCall& hooked, uint64_t address) {
  if (hooked.asks_writes()) hooked.writes.add_range_of(address);
  hooked.before_write();
  return erase_range(hooked, address);
}

namespace {
// Waits as the driver's own free does before memory that was placed is freed: work that still runs
// may use it.
CUresult wait_for_users(const DeviceModel& model, CUcontext context) {
  CurrentContext current(model.driver, context);
  return model.driver.cuCtxSynchronize();
}

// The context of an allocation; the current one, where it is not known.
CUcontext context_at(const DeviceModel& model, uint64_t address) {
  const MemoryRange* range = model.memory.at(address);
  return range == nullptr ? model.contexts.current() : reinterpret_cast<CUcontext>(range->context);
}

// The program's own call first; only where it gives another address is memory placed.
void place_device(DeviceModel& model, CUdeviceptr* address, uint64_t recorded, uint64_t size) {
  if (*address == recorded) return;
  (void)model.driver.cuMemFree_v2(*address);
  const Status status = model.placement.place(recorded, size);
  if (!status.ok()) cannot_place(recorded, size, status.message());
  *address = recorded;
}

void place_pinned(DeviceModel& model, void** memory, uint64_t recorded, uint64_t size) {
  if (reinterpret_cast<uint64_t>(*memory) == recorded) return;
  (void)model.driver.cuMemFreeHost(*memory);
  void* wanted = reinterpret_cast<void*>(recorded);
  void* got = mmap(wanted, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) cannot_place(recorded, size, "the range is taken in this process");
  const CUresult result = model.driver.cuMemHostRegister_v2(
      got, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result != CUDA_SUCCESS) cannot_place(recorded, size, error_name(model.driver, result));
  model.placed_pinned[recorded] = size;
  *memory = got;
}

// Giving memory back waits for the device, so the host may look at the rest of what it did.
template <class Real>
CUresult give_back(HookedCall& hooked, uint64_t address, uint64_t size, Real&& real) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS && !hooked.was_made_before()) hooked.repeat(real);
    return recorded;
  }
  MemoryOrder& order = hooked.memory_order();
  order.begin_free(address, size);
  const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, real);
  hooked.record_visible(result, false, nullptr);
  order.end_free(address);
  return result;
}

// Memory of the arena at its recorded address. False: the arena does not have that address here.
bool repeat_in_arena(HookedCall& hooked, CUdeviceptr* out, uint64_t recorded, uint64_t size,
                     const DeviceArena::MakeStandIn& make) {
  if (!hooked.model().arena.is_on() || !DeviceArena::covers(recorded)) return false;
  bool is_served = false;
  const CUresult result = hooked.unlocked([&] {
    return with_room(hooked.room(), [&] {
      const auto made = hooked.model().arena.allocate(out, size, make, recorded);
      is_served = made.has_value();
      return made.value_or(CUDA_SUCCESS);
    });
  });
  if (result != CUDA_SUCCESS) {
    cannot_place(recorded, size, error_name(hooked.driver(), result));
  }
  return is_served;
}

template <class Real>
CUresult give_pinned(HookedCall& hooked, void** out, uint64_t size, Real&& real) {
  const CUresult result =
      give(hooked, out, size, MemoryKind::kPinned, real,
           [&](uint64_t recorded) { place_pinned(hooked.model(), out, recorded, size); });
  if (result == CUDA_SUCCESS) hooked.model().host_memory.watch(reinterpret_cast<uint64_t>(*out));
  return result;
}
}  // namespace

CUresult free_in_arena(uint64_t address, const std::function<CUresult(CUdeviceptr)>& real,
                       bool may_wait) {
  DeviceArena* const arena = DeviceArena::of_process();
  const bool is_ours = arena != nullptr && DeviceArena::covers(address);
  return is_ours ? arena->free(address, real, may_wait) : real(address);
}

CUresult free_when_off(uint64_t address, const std::function<CUresult()>& real,
                       const std::function<CUresult(const DeviceModel&, CUcontext)>& wait) {
  const Driver* driver = nullptr;  // null: it is not ours to give back
  std::vector<MappedMemory> unused;
  CUresult result = CUDA_SUCCESS;
  {
    const PlacedMemory placed(address);
    if (placed.is_there() && placed.model().placement.owns(address)) {
      DeviceModel& model = placed.model();
      driver = &model.driver;
      const CUcontext context = context_at(model, address);
      {
        const Unlocked unlocked(placed.lock());
        result = wait(model, context);
      }
      (void)erase_range(model, placed.host_updates(), address);
      unused = model.placement.free(address);
    }
  }
  if (driver == nullptr) return real();
  for (const MappedMemory& memory : unused) unmap_memory(*driver, memory);
  return result;
}

CUresult mem_alloc(const Call<CUresult(CUdeviceptr*, size_t)>& call, CUdeviceptr* out,
                   size_t size) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size);
  hooked.key.add(size);
  const auto of_driver = [&] {
    return with_room(hooked.room(), [&] { return call.real(out, size); });
  };
  const auto stand_in = [&](CUdeviceptr* at) { return call.real(at, DeviceArena::kStandInBytes); };
  const auto anew = [&] {
    return with_room(hooked.room(), [&] {
      const auto made = hooked.model().arena.allocate(out, size, stand_in);
      return made ? *made : call.real(out, size);
    });
  };
  // The driver's own call first; only where it gives another address is memory placed.
  const auto again = [&](uint64_t recorded) {
    if (repeat_in_arena(hooked, out, recorded, size, stand_in)) return;
    repeat_for(hooked, out, recorded, {size, MemoryKind::kDevice, hooked.hook()}, of_driver);
    place_device(hooked.model(), out, recorded, size);
  };
  return give_again(hooked, out, size, MemoryKind::kDevice, anew, again);
}

namespace {
// A row of the driver's tells the pitch, and is the stand-in. `rows(out, count)`: the driver's
// call.
template <class Rows>
std::optional<CUresult> pitch_in_arena(HookedCall& hooked, CUdeviceptr* out, const size_t* pitch,
                                       size_t height, Rows&& rows, uint64_t at) {
  DeviceArena& arena = hooked.model().arena;
  const bool is_wanted = at == 0 ? arena.is_on() : arena.is_on() && DeviceArena::covers(at);
  CUdeviceptr row = 0;
  if (!is_wanted || out == nullptr || height == 0 || rows(&row, 1) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  const auto stand_in = [&](CUdeviceptr* made) {
    *made = row;
    return CUDA_SUCCESS;
  };
  std::optional<CUresult> made;
  if (height <= UINT64_MAX / *pitch) made = arena.allocate(out, *pitch * height, stand_in, at);
  if (!made || *made != CUDA_SUCCESS) (void)hooked.driver().cuMemFree_v2(row);
  return made;
}
}  // namespace

CUresult mem_alloc_pitch(
    const Call<CUresult(CUdeviceptr*, size_t*, size_t, size_t, unsigned)>& call, CUdeviceptr* out,
    size_t* pitch, size_t width, size_t height, unsigned element) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, pitch, width, height, element);
  hooked.key.add(width);
  hooked.key.add(height);
  hooked.key.add(element);
  // The pitch is the driver's for the width and the device, which a restore has checked.
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const auto rows = [&](CUdeviceptr* at, size_t count) {
    return call.real(at, pitch, width, count, element);
  };
  // `at`: 0, or where the recording had it.
  const auto real_at = [&](uint64_t at) {
    const CUresult result = with_room(hooked.room(), [&] {
      const auto made = pitch_in_arena(hooked, out, pitch, height, rows, at);
      return made ? *made : rows(out, height);
    });
    if (result == CUDA_SUCCESS) bytes = *pitch * height;
    return result;
  };
  if (hooked.replaying()) {
    const CUresult result = hooked.match_next_entry();
    if (result != CUDA_SUCCESS) return result;
    uint64_t recorded[2] = {0, 0};
    hooked.take_answer(recorded, sizeof recorded);
    hooked.repeat([&] { return real_at(recorded[0]); });
    if (recorded[1] != *pitch) {
      cannot_place(recorded[0], recorded[1] * height, "this device has another pitch");
    }
    place_device(hooked.model(), out, recorded[0], bytes);
    address = *out;
  } else {
    const CUresult result =
        hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, [&] { return real_at(0); });
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
      return result;
    }
    address = *out;
    hooked.memory_order().wait_for_frees(address, bytes);
    const uint64_t answer[2] = {address, *pitch};
    hooked.record_answer(result, answer, sizeof answer);
  }
  insert_range(hooked, address, bytes, MemoryKind::kDevice);
  return CUDA_SUCCESS;
}

CUresult mem_alloc_managed(const Call<CUresult(CUdeviceptr*, size_t, unsigned)>& call,
                           CUdeviceptr* out, size_t size, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, flags);
  hooked.key.add(size);
  hooked.key.add(flags);
  return give(
      hooked, out, size, MemoryKind::kManaged, [&] { return call.real(out, size, flags); },
      [&](uint64_t recorded) {
        if (*out != recorded) {
          cannot_place(recorded, size,
                       "managed memory cannot be placed, and came at " + hex_text(*out));
        }
      });
}

CUresult mem_free(const Call<CUresult(CUdeviceptr)>& call, CUdeviceptr address) {
  HookedCall hooked(call);
  if (hooked.passthrough()) {
    return free_when_off(
        address, [&] { return free_in_arena(address, call.real, false); }, wait_for_users);
  }
  hooked.key.add(hooked.model().known(address));
  // Before the call: what the host sees at it is no longer looked for in this memory.
  const CUcontext context = context_at(hooked.model(), address);
  const uint64_t size = free_range(hooked, address);
  // Memory of a graph that goes on using it stays.
  const bool of_graph = hooked.model().graphs.graph_memory_placeholders().has_memory(address);
  const bool placed = hooked.model().placement.owns(address);
  const bool may_wait = !hooked.model().contexts.is_capturing();
  auto real = [&] {
    if (of_graph && size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (placed) return wait_for_users(hooked.model(), context);
    return free_in_arena(address, call.real, may_wait);
  };
  const CUresult result = give_back(hooked, address, size, real);
  if (placed && !of_graph) end_placed(hooked, address);
  if (of_graph) drop_graph_memory(hooked);
  return result;
}

// The free bytes depend on other users of the device.
CUresult mem_get_info(const Call<CUresult(size_t*, size_t*)>& call, size_t* free, size_t* total) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(free, total);
  uint64_t answer[2] = {0, 0};
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) {
      hooked.take_answer(answer, sizeof answer);
      *free = answer[0];
      *total = answer[1];
    }
    return recorded;
  }
  const CUresult result = hooked.call_driver([&] { return call.real(free, total); });
  if (result != CUDA_SUCCESS) {
    hooked.record(result);
    return result;
  }
  *free = std::min(*free + hooked.room().own_bytes(), *total);
  answer[0] = *free;
  answer[1] = *total;
  hooked.record_answer(result, answer, sizeof answer);
  return result;
}

// For memory that a restore had to place, here or in a process that shares it, the driver knows the
// mapped granules, not the allocation.
CUresult mem_get_range(const Call<CUresult(CUdeviceptr*, size_t*, CUdeviceptr)>& call,
                       CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  HookedCall hooked(call);
  const bool off = hooked.passthrough();
  const DeviceArena* const arena = DeviceArena::of_process();
  const auto real = [&] {
    return call.real(base, size, arena == nullptr ? address : arena->asked_about(address));
  };
  const CUresult result = off ? real() : hooked.record_or_repeat(real);
  if (result != CUDA_SUCCESS) return result;
  SharedMemory* const shared = SharedMemory::of_process();
  SharedMemory::Extent extent;
  if (shared != nullptr) extent = shared->mapped_around(address);
  const auto block = arena == nullptr ? std::nullopt : arena->find(address);
  if (block) extent = {block->address, block->size};
  const auto look = [&](const DeviceModel& model) {
    const MemoryRange* const range = model.memory.find(address);
    if (range != nullptr && model.is_placed(*range)) extent = {range->address, range->size};
  };
  if (off) {
    const PlacedMemory placed(address);
    if (placed.is_there()) look(placed.model());
  } else {
    look(hooked.model());
  }
  if (extent.size != 0 && base != nullptr) *base = extent.address;
  if (extent.size != 0 && size != nullptr) *size = extent.size;
  return result;
}

CUresult host_alloc(const Call<CUresult(void**, size_t)>& call, void** out, size_t size) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size);
  hooked.key.add(size);
  return give_pinned(hooked, out, size, [&] { return call.real(out, size); });
}

CUresult host_alloc(const Call<CUresult(void**, size_t, unsigned)>& call, void** out, size_t size,
                    unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, flags);
  hooked.key.add(size);
  hooked.key.add(flags);
  return give_pinned(hooked, out, size, [&] { return call.real(out, size, flags); });
}

namespace {
CUresult free_placed_pinned(const DeviceModel& model, CUcontext context, void* memory,
                            uint64_t size) {
  (void)wait_for_users(model, context);
  const CUresult result = model.driver.cuMemHostUnregister(memory);
  (void)munmap(memory, size);
  return result;
}

template <class Real>
CUresult free_pinned_when_off(void* memory, Real&& real) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  uint64_t size = 0;  // 0: it is not ours to give back
  CUcontext context = nullptr;
  const DeviceModel* of = nullptr;
  {
    const PlacedMemory placed(address);
    if (placed.is_there()) {
      DeviceModel& model = placed.model();
      of = &model;
      size = model.size_of_placed_pinned(address);
      context = context_at(model, address);
      if (size != 0) (void)erase_range(model, placed.host_updates(), address);
      model.placed_pinned.erase(address);
    }
  }
  return size == 0 ? real() : free_placed_pinned(*of, context, memory, size);
}
}  // namespace

CUresult host_free(const Call<CUresult(void*)>& call, void* memory) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return free_pinned_when_off(memory, [&] { return call.real(memory); });
  const auto address = reinterpret_cast<uint64_t>(memory);
  hooked.key.add(hooked.model().known(address));
  const uint64_t placed = hooked.model().size_of_placed_pinned(address);
  const CUcontext context = context_at(hooked.model(), address);
  auto real = [&] {
    return placed == 0 ? call.real(memory)
                       : free_placed_pinned(hooked.model(), context, memory, placed);
  };
  const uint64_t size = free_range(hooked, address);
  hooked.model().placed_pinned.erase(address);
  return give_back(hooked, address, size, real);
}

namespace {
// Memory of the program's own that the device sees from now on. Where it lies is the program's
// doing: an address other than the recorded one may have been seen by the device.
template <class Real>
CUresult register_memory(HookedCall& hooked, void* memory, size_t size, Real&& real) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    uint64_t before = 0;
    hooked.take_answer(&before, sizeof before);
    if (before != address) {
      cannot_place(before, size,
                   "the program registered memory at " + hex_text(address) +
                       " instead; gpusnap run turns address randomisation off");
    }
    hooked.repeat(real);
    insert_range(hooked, address, size, MemoryKind::kPinned);
    return recorded;
  }
  const CUresult result = hooked.call_driver(real);
  if (result != CUDA_SUCCESS) {
    hooked.record(result);
    return result;
  }
  hooked.record_answer(result, &address, sizeof address);
  insert_range(hooked, address, size, MemoryKind::kPinned);
  return result;
}
}  // namespace

CUresult host_register(const Call<CUresult(void*, size_t, unsigned)>& call, void* memory,
                       size_t size, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(memory, size, flags);
  hooked.key.add(size);
  hooked.key.add(flags);
  return register_memory(hooked, memory, size, [&] { return call.real(memory, size, flags); });
}

CUresult host_unregister(const Call<CUresult(void*)>& call, void* memory) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(memory);
  const auto address = reinterpret_cast<uint64_t>(memory);
  hooked.key.add(hooked.model().known(address));
  // After the call: the memory stays the program's, what the device brought is looked at once more.
  const CUresult result = give_back(hooked, address, 0, [&] { return call.real(memory); });
  if (result == CUDA_SUCCESS) erase_range(hooked, address);
  return result;
}

CUresult host_pointer(const Call<CUresult(CUdeviceptr*, void*, unsigned)>& call, CUdeviceptr* out,
                      void* memory, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, memory, flags);
  hooked.key.add(flags);
  if (!hooked.replaying()) {
    const CUresult result = hooked.call_driver([&] { return call.real(out, memory, flags); });
    if (result == CUDA_SUCCESS) {
      if (*out != reinterpret_cast<uint64_t>(memory)) {
        hooked.model().host_memory.has_other_address(reinterpret_cast<uint64_t>(memory));
      }
      hooked.record_answer(result, out, sizeof *out);
    } else {
      hooked.record(result);
    }
    return result;
  }
  const CUresult recorded = hooked.match_next_entry();
  if (recorded != CUDA_SUCCESS) return recorded;
  hooked.repeat([&] { return call.real(out, memory, flags); });
  uint64_t before = 0;
  hooked.take_answer(&before, sizeof before);
  if (before != *out) {
    cannot_place(before, 1, "the device sees that host memory at " + hex_text(*out) + " now");
  }
  if (*out != reinterpret_cast<uint64_t>(memory)) {
    hooked.model().host_memory.has_other_address(reinterpret_cast<uint64_t>(memory));
  }
  return recorded;
}

}  // namespace gpusnap::handle
