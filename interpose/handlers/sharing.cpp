// Memory that processes share by handles of cuIpc (shared_memory.h). Followed in an MPI job, whose
// processes take their checkpoints together: who has the memory saves it, before any other rank
// goes on from the cut. Elsewhere nobody knows when another process writes.
//
// A replay makes all of these calls: the handles that the program sends around are new ones, and
// what is opened comes to its recorded address or not at all.

#include <cstring>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/services/fatal.h"
#include "interpose/services/text.h"

namespace gpusnap::handle {

namespace {
template <class F>
std::string name_with(const Call<F>& call, const char* what) {
  return std::string(name_of(call.hook.id)) + " " + what;
}

// The facts that a replay is to find the same.
struct Where {
  uint64_t address = 0;
  uint64_t size = 0;
};

SharedMemory::Opened opened_by_us(SharedMemory& shared, const SharedHandle& handle, uint64_t wanted,
                                  CUdeviceptr* out, unsigned flags,
                                  CUresult (*real)(CUdeviceptr*, CUipcMemHandle, unsigned)) {
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return {};
  auto opened =
      shared.open(handle, wanted, [&](CUdeviceptr* address, const CUipcMemHandle& driver) {
        return real(address, driver, flags);
      });
  if (opened.result == CUDA_SUCCESS) *out = opened.address;
  return opened;
}

// The physical memory of a block of the arena, of which the driver makes no handle; empty for any
// other address. The caller holds no lock.
std::vector<MappedMemory> pieces_in_arena(uint64_t address) {
  DeviceArena* const arena = DeviceArena::of_process();
  const auto block = arena == nullptr ? std::nullopt : arena->find(address);
  return block ? arena->pieces(block->address) : std::vector<MappedMemory>();
}

CUresult offer_pieces(SharedMemory& shared, CUipcMemHandle* out, uint64_t address, uint64_t size,
                      const std::vector<MappedMemory>& pieces, std::string& why) {
  const auto handle = shared.offer(address, size, pieces);
  if (handle.ok()) *out = handle.value();
  why = handle.status().message();
  return handle.ok() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult share_when_off(const Call<decltype(cuIpcGetMemHandle)>& call, CUipcMemHandle* out,
                        CUdeviceptr address) {
  std::string why;
  if (const auto pieces = pieces_in_arena(address); !pieces.empty() && out != nullptr) {
    const auto block = DeviceArena::of_process()->find(address);
    SharedMemory& shared = *SharedMemory::of_process();
    if (block) return offer_pieces(shared, out, block->address, block->size, pieces, why);
  }
  SharedMemory* shared = nullptr;
  MemoryRange range;
  std::vector<MappedMemory> pieces;
  {
    const PlacedMemory placed(address);
    if (placed.is_there()) {
      DeviceModel& model = placed.model();
      range = *model.memory.find(address);
      pieces = model.placement.pieces(range.address);
      model.memory.set_shared(range.address);
      shared = &model.shared_memory;
    }
  }
  if (pieces.empty() || out == nullptr) return call.real(out, address);
  return offer_pieces(*shared, out, range.address, range.size, pieces, why);
}

void insert_imported(HookedCall& hooked, const Where& where) {
  hooked.cut_gate().note_sharing();
  // It is there where it was opened before.
  if (hooked.model().memory.at(where.address) == nullptr) {
    insert_range(hooked, where.address, where.size, MemoryKind::kImported);
  }
}
}  // namespace

CUresult share_get(const Call<decltype(cuIpcGetMemHandle)>& call, CUipcMemHandle* out,
                   CUdeviceptr address) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return share_when_off(call, out, address);
  hooked.key.add(hooked.model().known(address));
  const auto real = [&] { return call.real(out, address); };
  const MemoryRange* const range = hooked.model().memory.find(address);
  const Where where = range == nullptr ? Where{} : Where{range->address, range->size};
  const bool known = range != nullptr && range->kind == MemoryKind::kDevice && out != nullptr;
  const bool in_arena = known && hooked.model().arena.owns(where.address);
  // The driver's own handle can be opened in any process.
  if (!hooked.may_share() && !in_arena) {
    return hooked.record_or_refuse(name_with(call, kOutsideOfJob), real);
  }
  // Its next write may be another process's, which tells nobody.
  known ? hooked.writes.add_range_of(where.address) : hooked.writes.add_nothing();
  const bool placed = in_arena || (known && hooked.model().placement.owns(where.address));
  const auto pieces_placed = hooked.model().placement.pieces(where.address);
  SharedMemory& shared = hooked.model().shared_memory;
  std::string why;
  const auto made = [&] {
    if (!placed) {
      const CUresult result = real();
      if (result == CUDA_SUCCESS && known) {
        *out = shared.offer(where.address, where.size, *out);
      }
      return result;
    }
    return offer_pieces(shared, out, where.address, where.size,
                        in_arena ? pieces_in_arena(where.address) : pieces_placed, why);
  };
  if (!hooked.may_share()) return hooked.record_or_refuse(name_with(call, kOutsideOfJob), made);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    const CUresult result = hooked.unlocked(made);
    if (result != CUDA_SUCCESS) {
      fatal(kExitImpossible, "device memory " + range_text(where.address, where.size) +
                                 " cannot be shared again: " +
                                 (why.empty() ? error_name(hooked.driver(), result) : why));
    }
  } else {
    const CUresult result = hooked.call_driver(made);
    if (result == CUDA_SUCCESS && !known) {
      hooked.refuse(name_with(call, "of memory that is not followed"));
      return result;
    }
    hooked.record(result);
    if (result != CUDA_SUCCESS) return result;
  }
  hooked.model().memory.set_shared(where.address);
  hooked.cut_gate().note_sharing();
  return CUDA_SUCCESS;
}

CUresult share_open(const Call<CUresult(CUdeviceptr*, CUipcMemHandle, unsigned)>& call,
                    CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  HookedCall hooked(call);
  HandleBytes bytes;
  std::memcpy(bytes.data(), &handle, sizeof handle);
  const auto ours = decode_handle(bytes);
  if (hooked.passthrough()) {
    // The process that gave it may still be followed.
    SharedMemory* const shared = SharedMemory::of_process();
    if (!ours || shared == nullptr) return call.real(out, handle, flags);
    return opened_by_us(*shared, *ours, 0, out, flags, call.real).result;
  }
  hooked.key.add(flags);
  SharedMemory::Opened opened;
  const auto open_at = [&](uint64_t wanted) {
    if (!ours) return call.real(out, handle, flags);
    opened = opened_by_us(hooked.model().shared_memory, *ours, wanted, out, flags, call.real);
    return opened.result;
  };
  if (!hooked.may_share()) {
    return hooked.record_or_refuse(name_with(call, kOutsideOfJob), [&] { return open_at(0); });
  }
  if (!ours) {
    return hooked.record_or_refuse(name_with(call, "of memory of a process that is not followed"),
                                   [&] { return open_at(0); });
  }
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    Where before;
    hooked.take_answer(&before, sizeof before);
    const CUresult result = hooked.unlocked([&] { return open_at(before.address); });
    if (result != CUDA_SUCCESS) {
      cannot_place(before.address, before.size,
                   "another process has it, and " +
                       (opened.why.empty() ? error_name(hooked.driver(), result) : opened.why));
    }
    if (opened.address != before.address || opened.size != before.size) {
      cannot_place(
          before.address, before.size,
          "another process has it, and the driver maps it at " + hex_text(opened.address) + " now");
    }
    insert_imported(hooked, before);
    return recorded;
  }
  const CUresult result =
      hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, [&] { return open_at(0); });
  if (result != CUDA_SUCCESS) {
    hooked.record(result);
    return result;
  }
  if (!opened.of_job) {
    hooked.refuse(name_with(call, "of memory of a process of another job"));
    return result;
  }
  const Where where{opened.address, opened.size};
  hooked.memory_order().wait_for_frees(where.address, where.size);
  hooked.record_answer(result, &where, sizeof where);
  insert_imported(hooked, where);
  return result;
}

CUresult share_close(const Call<decltype(cuIpcCloseMemHandle)>& call, CUdeviceptr address) {
  HookedCall hooked(call);
  bool last = false;
  const auto close_in = [&](SharedMemory& shared) {
    return shared.close(
        address, [&] { return call.real(address); }, last);
  };
  if (hooked.passthrough()) {
    SharedMemory* const shared = SharedMemory::of_process();
    return shared == nullptr ? call.real(address) : close_in(*shared);
  }
  hooked.key.add(hooked.model().known(address));
  const auto made = [&] { return close_in(hooked.model().shared_memory); };
  CUresult result;
  if (hooked.replaying()) {
    result = hooked.match_next_entry();
    if (result == CUDA_SUCCESS) hooked.repeat(made);
  } else {
    MemoryOrder& order = hooked.memory_order();
    order.begin_free(address, 0);
    result = hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, made);
    // It waits for the device, so the host may look at what that did.
    hooked.record_visible(result, false, nullptr);
    order.end_free(address);
  }
  const MemoryRange* const range = hooked.model().memory.at(address);
  if (result == CUDA_SUCCESS && last && range != nullptr && range->kind == MemoryKind::kImported) {
    hooked.model().memory.erase(address);
  }
  return result;
}

}  // namespace gpusnap::handle
