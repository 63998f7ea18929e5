// Stream-ordered memory: pools of blocks that streams take and give back in their own order.
//
// A block that was given back is free for a stream that is ordered behind that; for any other only
// with a dependency put in between, or once it has been given back on the device and the host has
// synchronised with that. At synchronisations a pool releases what it holds beyond its threshold.
// All this goes by the order that the program asked for and never by how far streams have come, so
// that the same calls give the same addresses in every run; the one exception is a pool that may
// not put dependencies in between and may reuse opportunistically.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/memory.h"

namespace simcuda {

struct Pool {
  struct Free {
    uint64_t address = 0;
    uint64_t capacity = 0;  // bytes
    Point given_back;       // where in its stream
    uint64_t context = 0;   // that the stream is in
    bool settled = false;   // the host has synchronised with that
    bool reusable = true;   // not memory of cuMemAlloc, which only passes through
  };

  CUmemoryPool handle = nullptr;
  int device = 0;
  uint64_t most = 0;   // bytes that it may hold; 0: what the device has
  unsigned usage = 0;  // CU_MEM_POOL_CREATE_USAGE_...
  bool is_default = false;

  // Guarded by Pools' lock.
  bool destroyed = false;
  bool follow_events = true, opportunistic = true, add_dependencies = true;
  uint64_t threshold = 0;
  uint64_t reserved = 0, reserved_high = 0;  // bytes, with what is free
  uint64_t used = 0, used_high = 0;
  uint32_t readers = 0, writers = 0;  // devices, a bit each
  std::vector<Free> free;             // in the order in which it was given back
};

// Thread-safe.
class Pools {
 public:
  Pools(Memory& memory, int devices);

  std::shared_ptr<Pool> default_of(int device);
  std::shared_ptr<Pool> current(int device);
  void set_current(int device, std::shared_ptr<Pool> pool);
  // Null: no such pool.
  std::shared_ptr<Pool> find(CUmemoryPool handle);
  std::shared_ptr<Pool> create(int device, uint64_t most, unsigned usage);
  // Memory that is still in use stays, and goes once it is given back.
  CUresult destroy(CUmemoryPool handle);

  CUresult allocate(Pool& pool, const Stream& stream, uint64_t size, uint64_t* address);
  // CUDA_ERROR_INVALID_VALUE: there is no such memory.
  CUresult give_back(uint64_t address, const Stream& stream);
  // The same for cuMemFree: the caller has waited for all that is queued. False: not of a pool.
  bool give_back_now(uint64_t address);

  // The host has synchronised with `point`: what was given back before it is at rest.
  void synchronised(const Point& point);
  void synchronised(const Context& context);
  // Releases what is at rest until the pool holds no more than `keep`.
  void trim(Pool& pool, uint64_t keep);
  CUresult set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value);
  CUresult get_attribute(Pool& pool, CUmemPool_attribute attribute, void* value);
  void set_access(Pool& pool, int device, bool read, bool write);
  CUmemAccess_flags access(Pool& pool, int device);

 private:
  Pool::Free* choose(Pool& pool, const Stream& stream, uint64_t size, std::vector<Point>* after);
  CUresult allocate_fresh(Pool& pool, uint64_t size, uint64_t* address);
  template <class Which>
  void settle(Which which);
  void trim_locked(Pool& pool, uint64_t keep);
  void forget_empty();

  Memory& memory_;
  std::mutex mutex_;
  uint64_t next_handle_ = 0x8'0000'0000;
  std::vector<std::shared_ptr<Pool>> pools_;    // in order of creation, the devices' own first
  std::vector<std::shared_ptr<Pool>> current_;  // by device
};

}  // namespace simcuda
