#include "tools/simcuda/driver/pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simcuda {
namespace {

constexpr uint64_t kAlign = 512;
constexpr uint64_t kSmall = uint64_t{1} << 20;  // as the device's heap has it

// The bytes that a block takes of its pool.
uint64_t capacity_of(uint64_t size) {
  return round_up(size, size <= kSmall ? kAlign : kGranule);
}

void raise(uint64_t& high, uint64_t value) {
  high = std::max(high, value);
}

}  // namespace

Pools::Pools(Memory& memory, int devices) : memory_(memory) {
  for (int device = 0; device < devices; ++device) {
    auto pool = create(device, 0, 0);
    pool->is_default = true;
    current_.push_back(std::move(pool));
  }
}

std::shared_ptr<Pool> Pools::default_of(int device) {
  std::lock_guard lock(mutex_);
  return pools_[static_cast<size_t>(device)];
}

std::shared_ptr<Pool> Pools::current(int device) {
  std::lock_guard lock(mutex_);
  return current_[static_cast<size_t>(device)];
}

void Pools::set_current(int device, std::shared_ptr<Pool> pool) {
  std::lock_guard lock(mutex_);
  current_[static_cast<size_t>(device)] = std::move(pool);
}

std::shared_ptr<Pool> Pools::find(CUmemoryPool handle) {
  std::lock_guard lock(mutex_);
  for (const auto& pool : pools_) {
    if (pool->handle == handle && !pool->destroyed) return pool;
  }
  return nullptr;
}

std::shared_ptr<Pool> Pools::create(int device, uint64_t most, unsigned usage) {
  auto pool = std::make_shared<Pool>();
  pool->device = device;
  pool->most = most;
  pool->usage = usage;
  pool->readers = pool->writers = 1u << device;
  std::lock_guard lock(mutex_);
  next_handle_ += 16;
  pool->handle = reinterpret_cast<CUmemoryPool>(next_handle_);
  pools_.push_back(pool);
  return pool;
}

CUresult Pools::destroy(CUmemoryPool handle) {
  auto pool = find(handle);
  if (!pool || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  pool->destroyed = true;
  pool->threshold = 0;
  for (auto& current : current_) {
    if (current == pool) current = pools_[static_cast<size_t>(pool->device)];
  }
  trim_locked(*pool, 0);
  forget_empty();
  return CUDA_SUCCESS;
}

// The smallest block that fits and wastes no more than half of itself, without a dependency if
// there is one. As with CUDA, what the device happens to be done with comes before what it is not:
// which address is given depends on time.
Pool::Free* Pools::choose(Pool& pool, const Stream& stream, uint64_t size,
                          std::vector<Point>* after) {
  const uint64_t needed = capacity_of(size);
  const Point now = stream.queue->last();
  Pool::Free* best = nullptr;
  int best_rank = 0;
  for (Pool::Free& block : pool.free) {
    if (!block.reusable || block.capacity < needed || block.capacity / 2 > needed) continue;
    const bool same_stream = block.given_back.queue == now.queue;
    const int rank =
        block.settled || same_stream || (pool.follow_events && block.given_back.before(now)) ? 3
        : pool.opportunistic && block.given_back.reached()                                   ? 2
        : pool.add_dependencies                                                              ? 1
                                                                                             : 0;
    if (rank == 0 || rank < best_rank) continue;
    if (rank == best_rank && block.capacity >= best->capacity) continue;
    best = &block;
    best_rank = rank;
  }
  if (best != nullptr) after->push_back(best->given_back);
  return best;
}

CUresult Pools::allocate_fresh(Pool& pool, uint64_t size, uint64_t* address) {
  const uint64_t capacity = capacity_of(size);
  if (pool.most != 0 && (capacity > pool.most || pool.reserved > pool.most - capacity)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Allocation wanted;
  // The heap places by what it is asked for: a block can then be used again up to its capacity.
  wanted.size = wanted.capacity = capacity;
  wanted.device = pool.device;
  wanted.pool = pool.handle;
  wanted.decompresses = (pool.usage & CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) != 0;
  wanted.readers = pool.readers;
  wanted.writers = pool.writers;
  CUresult result = memory_.allocate(std::move(wanted), address);
  if (result != CUDA_SUCCESS) return result;
  memory_.reuse(*address, size);
  pool.reserved += capacity;
  raise(pool.reserved_high, pool.reserved);
  return CUDA_SUCCESS;
}

CUresult Pools::allocate(Pool& pool, const Stream& stream, uint64_t size, uint64_t* address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > (uint64_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  std::vector<Point> after;
  if (Pool::Free* block = choose(pool, stream, size, &after)) {
    const uint64_t capacity = block->capacity;
    *address = block->address;
    pool.free.erase(pool.free.begin() + (block - pool.free.data()));
    std::byte* host = memory_.reuse(*address, size);
    pool.used += capacity;
    raise(pool.used_high, pool.used);
    // In the stream's order: until then it may be in use by who had it before.
    stream.context->submit(
        stream, [host, size] { fill_with_junk(host, size, 0); }, Context::When::kHealthy,
        std::move(after));
    return CUDA_SUCCESS;
  }
  CUresult result = allocate_fresh(pool, size, address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    for (const auto& other : pools_) {
      if (other->device == pool.device) trim_locked(*other, 0);
    }
    result = allocate_fresh(pool, size, address);
  }
  if (result != CUDA_SUCCESS) return result;
  pool.used += capacity_of(size);
  raise(pool.used_high, pool.used);
  return CUDA_SUCCESS;
}

CUresult Pools::give_back(uint64_t address, const Stream& stream) {
  std::lock_guard lock(mutex_);
  auto gone = memory_.give_back(address);
  if (!gone) return CUDA_ERROR_INVALID_VALUE;
  Pool* pool = pools_[static_cast<size_t>(gone->device)].get();
  for (const auto& owner : pools_) {
    if (owner->handle == gone->pool) pool = owner.get();
  }
  Pool::Free block;
  block.address = address;
  block.capacity = gone->capacity;
  block.context = stream.context->id();
  block.reusable = gone->pool != nullptr;
  block.given_back = stream.context->submit(
      stream, [] {}, Context::When::kAlways);
  if (block.reusable) pool->used -= block.capacity;
  pool->free.push_back(std::move(block));
  return CUDA_SUCCESS;
}

bool Pools::give_back_now(uint64_t address) {
  std::lock_guard lock(mutex_);
  for (const auto& pool : pools_) {
    {
      auto hold = memory_.hold();
      const Allocation* found = memory_.find(hold, address);
      if (found == nullptr || found->address != address) return false;
      if (found->pool != pool->handle) continue;
    }
    auto gone = memory_.give_back(address);
    Pool::Free block;
    block.address = address;
    block.capacity = gone->capacity;
    block.settled = true;
    pool->used -= block.capacity;
    pool->free.push_back(std::move(block));
    trim_locked(*pool, pool->threshold);
    forget_empty();
    return true;
  }
  return false;
}

template <class Which>
void Pools::settle(Which which) {
  std::lock_guard lock(mutex_);
  for (const auto& pool : pools_) {
    for (Pool::Free& block : pool->free) {
      if (!block.settled && which(block)) block.settled = true;
    }
    trim_locked(*pool, pool->threshold);
  }
  forget_empty();
}

void Pools::synchronised(const Point& point) {
  settle([&](const Pool::Free& block) { return block.given_back.before(point); });
}

void Pools::synchronised(const Context& context) {
  settle([&](const Pool::Free& block) {
    return block.context == context.id() && block.given_back.reached();
  });
}

void Pools::trim(Pool& pool, uint64_t keep) {
  std::lock_guard lock(mutex_);
  trim_locked(pool, keep);
}

void Pools::trim_locked(Pool& pool, uint64_t keep) {
  std::erase_if(pool.free, [&](const Pool::Free& block) {
    if (!block.settled || (block.reusable && pool.reserved <= keep)) return false;
    memory_.drop_given_back(block.address);
    if (block.reusable) pool.reserved -= block.capacity;
    return true;
  });
}

void Pools::forget_empty() {
  std::erase_if(pools_, [](const auto& pool) { return pool->destroyed && pool->reserved == 0; });
}

CUresult Pools::set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value) {
  int flag = 0;
  uint64_t bytes = 0;
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&flag, value, sizeof flag);
      (attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ? pool.follow_events
       : attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC     ? pool.opportunistic
                                                                    : pool.add_dependencies) =
          flag != 0;
      return CUDA_SUCCESS;
    default:
      break;
  }
  std::memcpy(&bytes, value, sizeof bytes);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.threshold = bytes;
      return CUDA_SUCCESS;
    // The marks can only be set back.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.reserved_high = pool.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.used_high = pool.used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Pools::get_attribute(Pool& pool, CUmemPool_attribute attribute, void* value) {
  auto flag = [&](bool set) {
    const int word = set ? 1 : 0;
    std::memcpy(value, &word, sizeof word);
    return CUDA_SUCCESS;
  };
  auto bytes = [&](uint64_t count) {
    std::memcpy(value, &count, sizeof count);
    return CUDA_SUCCESS;
  };
  std::lock_guard lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return flag(pool.follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return flag(pool.opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return flag(pool.add_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return bytes(pool.threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return bytes(pool.reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return bytes(pool.reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return bytes(pool.used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return bytes(pool.used_high);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void Pools::set_access(Pool& pool, int device, bool read, bool write) {
  std::lock_guard lock(mutex_);
  const uint32_t bit = 1u << device;
  pool.readers = read ? pool.readers | bit : pool.readers & ~bit;
  pool.writers = write ? pool.writers | bit : pool.writers & ~bit;
  memory_.set_pool_access(pool.handle, pool.readers, pool.writers);
}

CUmemAccess_flags Pools::access(Pool& pool, int device) {
  std::lock_guard lock(mutex_);
  const uint32_t bit = 1u << device;
  return (pool.writers & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
         : (pool.readers & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

}  // namespace simcuda
