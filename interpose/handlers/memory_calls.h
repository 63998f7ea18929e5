// Shared by the handlers of calls that get and give back memory: how such a call is recorded and
// replayed, and what the session knows afterwards. The session's lock is held.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interpose/handlers/hooked_call.h"

namespace gpusnap::handle {

// Ends the process: memory cannot be brought to its recorded address.
[[noreturn]] void cannot_place(uint64_t recorded, uint64_t size, const std::string& why);
void insert_range(HookedCall& hooked, uint64_t address, uint64_t size, MemoryKind kind,
                  bool of_pool = false);
// The size of what was there.
uint64_t erase_range(DeviceModel& model, HostUpdates& host_updates, uint64_t address);
inline uint64_t erase_range(HookedCall& hooked, uint64_t address) {
  return erase_range(hooked.model(), hooked.host_updates(), address);
}
// The same; a snapshot that still needs the memory gets it while the map has it.
uint64_t free_range(HookedCall& hooked, uint64_t address);
// The device no longer uses this allocation, which was placed.
void end_placed(HookedCall& hooked, uint64_t address);
// Ends memory of the arena; `real(address)`: the driver's call, for its stand-in or what is none of
// ours. `may_wait`: no capture is open. The caller holds no lock.
CUresult free_in_arena(uint64_t address, const std::function<CUresult(CUdeviceptr)>& real,
                       bool may_wait);
// A free where checkpoints have ended: what was placed is still ours to give back. `wait`: until
// the device no longer uses it; the context is its own.
CUresult free_when_off(uint64_t address, const std::function<CUresult()>& real,
                       const std::function<CUresult(const DeviceModel&, CUcontext)>& wait);

// Memory that a restore placed, in a process that takes no more checkpoints. While one lives, the
// session's lock is held if there is such memory at the address.
class PlacedMemory {
 public:
  explicit PlacedMemory(uint64_t address)
      : environment_(CallEnvironment::enter_for_placed(address)) {}
  ~PlacedMemory() {
    if (environment_ != nullptr) environment_->lock().unlock();
  }
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  bool is_there() const { return environment_ != nullptr; }
  CallLock& lock() const { return environment_->lock(); }
  DeviceModel& model() const { return environment_->model(); }
  HostUpdates& host_updates() const { return environment_->host_updates(); }

 private:
  CallEnvironment* const environment_;
};

// Makes the call once more while its result is at another address, in the hope that this is the one
// that another thread's call got when it was recorded: it is kept aside for that call.
template <class Pointer, class Real>
void repeat_for(HookedCall& hooked, Pointer* out, uint64_t recorded,
                SurplusAllocations::Memory memory, Real&& real) {
  SurplusAllocations& surplus = hooked.surplus();
  if (surplus.take(recorded, memory)) {
    *out = (Pointer)recorded;
    return;
  }
  hooked.repeat(real);
  std::vector<uint64_t> others;
  for (int tries = hooked.memory_tries(); tries > 0 && (uint64_t)*out != recorded; --tries) {
    const Pointer before = *out;
    if (hooked.unlocked(real) != CUDA_SUCCESS) {
      *out = before;
      break;
    }
    others.push_back((uint64_t)before);
  }
  for (uint64_t other : others) {
    if ((uint64_t)*out == recorded) {
      surplus.keep(other, memory);
    } else {
      hooked.model().release_memory(other, memory.kind);
    }
  }
}

// Memory that the program needs is not ours to hold.
template <class Real>
CUresult with_room(DeviceRoom& room, Real&& real) {
  const CUresult result = real();
  return result == CUDA_ERROR_OUT_OF_MEMORY && room.make_room() ? real() : result;
}

// Records or replays a call that gives memory; `again` makes it again and brings the memory to its
// recorded address. `of_pool`: a pool's.
template <class Pointer, class Real, class Again>
CUresult give_again(HookedCall& hooked, Pointer* out, uint64_t size, MemoryKind kind, Real&& real,
                    Again&& again, bool of_pool = false) {
  CUresult result;
  if (hooked.replaying() && hooked.is_after_cut()) {
    result = hooked.make_after_cut(real, std::as_bytes(std::span(out, 1)));
    if (result != CUDA_SUCCESS) return result;
  } else if (hooked.replaying()) {
    result = hooked.match_next_entry();
    if (result != CUDA_SUCCESS) return result;
    uint64_t recorded = 0;
    hooked.take_answer(&recorded, sizeof recorded);
    if (hooked.was_made_before()) {
      *out = (Pointer)recorded;
    } else {
      again(recorded);
    }
  } else {
    result = hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, real);
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
      return result;
    }
    hooked.memory_order().wait_for_frees((uint64_t)*out, size);
    const auto address = (uint64_t)*out;  // a CUdeviceptr or a pointer
    hooked.record_answer(result, &address, sizeof address);
  }
  insert_range(hooked, (uint64_t)*out, size, kind, of_pool);
  return result;
}

// The same where the call is made again as it was; `place` brings its memory to the recorded
// address.
template <class Pointer, class Real, class Place>
CUresult give(HookedCall& hooked, Pointer* out, uint64_t size, MemoryKind kind, Real&& real,
              Place&& place, bool of_pool = false) {
  const auto again = [&](uint64_t recorded) {
    repeat_for(hooked, out, recorded, {size, kind, hooked.hook()}, real);
    place(recorded);
  };
  return give_again(hooked, out, size, kind, real, again, of_pool);
}

}  // namespace gpusnap::handle
