// Stream-ordered memory. In a replay nothing runs in a stream, so that its order is that of the
// calls; what a pool holds follows from these calls and from synchronisations, which are made again
// for it.

#include <vector>

#include "interpose/handlers/graph_memory.h"
#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"

namespace gpusnap::handle {

namespace {
// Gives back to the driver what the pool holds beyond its allocations. `pool` null: the current
// device's.
void empty_pool(const Driver& driver, CUmemoryPool pool, CUstream stream) {
  CUdevice device = 0;
  (void)driver.cuStreamSynchronize(stream);
  if (driver.cuMemPoolTrimTo == nullptr) return;
  if (pool != nullptr) {
    (void)driver.cuMemPoolTrimTo(pool, 0);
    return;
  }
  if (driver.cuDeviceGetMemPool == nullptr) return;
  if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  if (driver.cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS) return;
  (void)driver.cuMemPoolTrimTo(pool, 0);
}

// Which of the pieces that a pool has left it gives depends on when the device was done with them.
// The next one may be that of the recording: `real()` asks. Others go back.
template <class Real>
bool ask_again(const Driver& driver, CUdeviceptr* address, uint64_t recorded, uint64_t size,
               CUstream stream, Real&& real) {
  if (driver.cuMemFreeAsync == nullptr) return false;
  constexpr size_t kMostPieces = 16;
  constexpr uint64_t kMostBytes = 256 << 20;  // held for the moment
  std::vector<CUdeviceptr> others{*address};
  bool found = false;
  while (!found && others.size() < kMostPieces && others.size() * size < kMostBytes &&
         real() == CUDA_SUCCESS) {
    found = *address == recorded;
    if (!found) others.push_back(*address);
  }
  for (const CUdeviceptr other : others) (void)driver.cuMemFreeAsync(other, stream);
  return found;
}

// The program's own call first; only where it gives another address is memory placed.
template <class Real>
void place_ordered(DeviceModel& model, CUdeviceptr* address, uint64_t recorded, uint64_t size,
                   CUmemoryPool pool, CUstream stream, Real&& real) {
  if (*address == recorded || ask_again(model.driver, address, recorded, size, stream, real)) {
    return;
  }
  Status status = model.placement.place(recorded, size);
  if (!status.ok()) {
    // Memory that the pool keeps for later may lie there.
    empty_pool(model.driver, pool, stream);
    status = model.placement.place(recorded, size);
  }
  if (!status.ok()) cannot_place(recorded, size, status.message());
  *address = recorded;
}

template <class Real>
CUresult give_ordered(HookedCall& hooked, CUdeviceptr* out, uint64_t size, CUmemoryPool pool,
                      CUstream given, Real&& real) {
  const CUstream stream = hooked.stream(given);
  hooked.key.add(size);
  if (hooked.captured()) return capture_alloc(hooked, out, size, stream, real);
  hooked.model().pool_reuse.note_use();
  // The memory is on the stream's device, whatever is current.
  const CurrentContext current(hooked.driver(), context_of(hooked.model(), stream));
  const auto first_repeatable = [&] {
    hooked.model().pool_reuse.make_repeatable(pool);
    return real();
  };
  return give(
      hooked, out, size, MemoryKind::kDevice,
      [&] { return with_room(hooked.room(), first_repeatable); },
      [&](uint64_t recorded) {
        place_ordered(hooked.model(), out, recorded, size, pool, stream, real);
      },
      true);
}
// Memory of the arena is given back when the stream has come there: its next user knows nothing of
// streams.
CUresult free_ordered(uint64_t address, CUstream stream,
                      const std::function<CUresult(CUdeviceptr)>& real) {
  DeviceArena* const arena = DeviceArena::of_process();
  if (arena == nullptr || !DeviceArena::covers(address)) return real(address);
  const auto after_stream = [&](CUdeviceptr stand_in) {
    const CUresult result = arena->synchronise(stream);
    return result == CUDA_SUCCESS ? real(stand_in) : result;
  };
  return arena->free(address, after_stream, false);
}
}  // namespace

CUresult mem_alloc_async(const Call<CUresult(CUdeviceptr*, size_t, CUstream)>& call,
                         CUdeviceptr* out, size_t size, CUstream stream) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, stream);
  return give_ordered(hooked, out, size, nullptr, stream,
                      [&] { return call.real(out, size, stream); });
}

CUresult mem_alloc_async(const Call<CUresult(CUdeviceptr*, size_t, CUmemoryPool, CUstream)>& call,
                         CUdeviceptr* out, size_t size, CUmemoryPool pool, CUstream stream) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, size, pool, stream);
  return give_ordered(hooked, out, size, pool, stream,
                      [&] { return call.real(out, size, pool, stream); });
}

CUresult mem_free_async(const Call<CUresult(CUdeviceptr, CUstream)>& call, CUdeviceptr address,
                        CUstream given) {
  HookedCall hooked(call);
  const CUstream stream = hooked.stream(given);
  const auto as_given = [&](CUdeviceptr what) { return call.real(what, given); };
  if (hooked.passthrough()) {
    return free_when_off(
        address, [&] { return free_ordered(address, stream, as_given); },
        [&](const DeviceModel& model, CUcontext) {
          return model.driver.cuStreamSynchronize(stream);
        });
  }
  hooked.key.add(hooked.model().known(address));
  // A graph goes on using it.
  const bool of_graph = hooked.model().graphs.graph_memory_placeholders().has_memory(address);
  const bool placed = !of_graph && hooked.model().placement.owns(address);
  const bool there = hooked.model().memory.at(address) != nullptr;
  const bool is_captured = hooked.captured();
  auto real = [&] {
    if (of_graph) return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    // Work in the stream may use memory that is ours to give back.
    if (placed) return hooked.driver().cuStreamSynchronize(stream);
    return is_captured ? as_given(address) : free_ordered(address, stream, as_given);
  };
  if (is_captured) return capture_free(hooked, address, stream, real);
  const uint64_t size = free_range(hooked, address);
  CUresult result;
  if (hooked.replaying()) {
    result = hooked.match_next_entry();
    if (result == CUDA_SUCCESS) hooked.repeat(real);
  } else {
    MemoryOrder& order = hooked.memory_order();
    order.begin_free(address, size);
    result = hooked.call_driver_in_order(MemoryOrder::Kind::kMayWait, real);
    hooked.record(result);
    order.end_free(address);
  }
  if (placed) end_placed(hooked, address);
  if (of_graph) drop_graph_memory(hooked);
  return result;
}

// A replay runs the program, which sets it again.
CUresult pool_set(const Call<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>& call,
                  CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (attribute != PoolReuse::kOurs || value == nullptr) return call.real(pool, attribute, value);
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(pool, attribute, value);
  int off = 0;
  const CUresult result = hooked.unlocked([&] { return call.real(pool, attribute, &off); });
  if (result == CUDA_SUCCESS) {
    hooked.model().pool_reuse.wish(pool, *static_cast<const int*>(value));
  }
  return result;
}

CUresult pool_destroy(const Call<CUresult(CUmemoryPool)>& call, CUmemoryPool pool) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(pool);
  hooked.model().pool_reuse.forget(pool);
  return hooked.unlocked([&] { return call.real(pool); });
}

// How much a pool holds depends on what else it does in that process.
CUresult pool_get(const Call<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>& call,
                  CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(pool, attribute, value);
  hooked.check(attribute);
  const size_t bytes =
      attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? sizeof(int) : sizeof(uint64_t);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) hooked.take_answer(value, bytes);
    return recorded;
  }
  const CUresult result = hooked.call_driver([&] { return call.real(pool, attribute, value); });
  if (result == CUDA_SUCCESS && attribute == PoolReuse::kOurs) {
    *static_cast<int*>(value) = hooked.model().pool_reuse.wished(pool);
  }
  if (result == CUDA_SUCCESS) {
    hooked.record_answer(result, value, bytes);
  } else {
    hooked.record(result);
  }
  return result;
}

CUresult pool_access(const Call<CUresult(CUmemoryPool, const CUmemAccessDesc*, size_t)>& call,
                     CUmemoryPool pool, const CUmemAccessDesc* accesses, size_t count) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(pool, accesses, count);
  hooked.check(count);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(pool, accesses, count); });
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; ++i) {
    if (accesses[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    hooked.model().placement.allow(accesses[i].location.id);
  }
  return result;
}

}  // namespace gpusnap::handle
