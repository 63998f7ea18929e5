#include "tools/simcuda/driver/memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simcuda {

Memory::Memory(const Settings& settings) : space_(settings), host_region_(settings.host_seed) {
  for (int device = 0; device < settings.devices; ++device) {
    heaps_.push_back(std::make_unique<DeviceHeap>(space_, device, settings.memory));
  }
  tables_.resize(heaps_.size());
  peers_.resize(heaps_.size());
}

bool Memory::overlaps(uint64_t address, uint64_t size) const {
  auto next = allocations_.lower_bound(address);
  if (next != allocations_.end() && next->first - address < size) return true;
  if (next == allocations_.begin()) return false;
  const Allocation& before = std::prev(next)->second;
  return address - before.address < before.size;
}

void Memory::insert(Allocation allocation) {
  allocation.id = next_id_++;
  allocations_.emplace(allocation.address, std::move(allocation));
  changed();
}

void Memory::changed() {
  std::fill(tables_.begin(), tables_.end(), nullptr);
}

CUresult Memory::allocate(Allocation wanted, uint64_t* address) {
  if (wanted.size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (wanted.size > (uint64_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex_);
  if (wanted.on_host()) {
    wanted.host = host_region_.allocate(wanted.size);
    if (wanted.host == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    wanted.address = reinterpret_cast<uint64_t>(wanted.host);
    wanted.readers = wanted.writers = UINT32_MAX;
  } else {
    auto use = wanted.type == MemoryType::kVariable ? DeviceHeap::Use::kVariables
               : wanted.pool != nullptr             ? DeviceHeap::Use::kPool
               : wanted.of_graph                    ? DeviceHeap::Use::kGraph
                                                    : DeviceHeap::Use::kData;
    auto block = heaps_[wanted.device]->allocate(wanted.size, use);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    wanted.address = block->address;
    wanted.host = block->host;
    wanted.bytes = block->bytes;
    wanted.readers |= 1u << wanted.device;
    if (wanted.type == MemoryType::kDevice) wanted.writers |= 1u << wanted.device;
  }
  *address = wanted.address;
  insert(std::move(wanted));
  return CUDA_SUCCESS;
}

std::shared_ptr<std::byte> Memory::allocate_hidden(int device, uint64_t size) {
  std::lock_guard lock(mutex_);
  DeviceHeap& heap = *heaps_[device];
  const uint64_t bytes = round_up(size, kGranule);
  if (!heap.commit(bytes)) return nullptr;
  auto backing = std::make_shared<Backing>(Backing::junk(bytes));
  std::byte* data = backing->data();
  std::shared_ptr<std::byte> memory(
      data, [backing = std::move(backing), &heap, bytes](auto*) { heap.uncommit(bytes); });
  return data == nullptr ? nullptr : memory;
}

CUresult Memory::register_host(Allocation wanted) {
  std::lock_guard lock(mutex_);
  if (wanted.size == 0 || wanted.address == 0 || wanted.address + wanted.size < wanted.address ||
      space_.is_device_address(wanted.address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (overlaps(wanted.address, wanted.size)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  insert(std::move(wanted));
  return CUDA_SUCCESS;
}

std::optional<Allocation> Memory::retire(uint64_t address, unsigned types) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.given_back || found->second.of_graph) {
    return std::nullopt;
  }
  if ((types & (1u << static_cast<unsigned>(found->second.type))) == 0) return std::nullopt;
  Allocation allocation = std::move(found->second);
  allocations_.erase(found);
  changed();
  return allocation;
}

std::vector<Allocation> Memory::retire_all(CUcontext context) {
  std::lock_guard lock(mutex_);
  for (auto& contexts : peers_) contexts.erase(context);
  std::vector<Allocation> retired;
  for (auto at = allocations_.begin(); at != allocations_.end();) {
    // Reservations and what is mapped there belong to the process.
    if (at->second.context != context || at->second.type == MemoryType::kMapped) {
      ++at;
      continue;
    }
    retired.push_back(std::move(at->second));
    at = allocations_.erase(at);
  }
  changed();
  return retired;
}

std::optional<Allocation> Memory::give_back(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.type != MemoryType::kDevice ||
      found->second.given_back || found->second.of_graph) {
    return std::nullopt;
  }
  found->second.given_back = true;
  // Memory that is given back outlives the context that it was made in, until its pool drops it.
  found->second.context = nullptr;
  return found->second;
}

std::byte* Memory::reuse(uint64_t address, uint64_t size) {
  std::lock_guard lock(mutex_);
  Allocation& allocation = allocations_.at(address);
  allocation.size = size;
  allocation.given_back = false;
  allocation.sync_operations = false;
  allocation.id = next_id_++;
  changed();
  return allocation.host;
}

void Memory::drop_given_back(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(address);
  heaps_[found->second.device]->free(address);
  allocations_.erase(found);
  changed();
}

void Memory::show(uint64_t address) {
  std::lock_guard lock(mutex_);
  Allocation& allocation = allocations_.at(address);
  allocation.hidden = false;
  allocation.id = next_id_++;
  changed();
}

void Memory::hide(uint64_t address) {
  std::lock_guard lock(mutex_);
  allocations_.at(address).hidden = true;
  changed();
}

std::byte* Memory::host_of_hidden(uint64_t address) const {
  std::lock_guard lock(mutex_);
  return allocations_.at(address).host;
}

bool Memory::of_pool(uint64_t address) const {
  Hold lock = hold();
  const Allocation* found = find(lock, address);
  return found != nullptr && found->address == address && found->pool != nullptr;
}

CUcontext Memory::context_of(uint64_t address) const {
  Hold lock = hold();
  const Allocation* found = find(lock, address);
  return found == nullptr ? nullptr : found->context;
}

void Memory::set_pool_access(CUmemoryPool pool, uint32_t readers, uint32_t writers) {
  std::lock_guard lock(mutex_);
  for (auto& [address, allocation] : allocations_) {
    if (allocation.pool != pool) continue;
    allocation.readers = readers;
    allocation.writers = writers;
  }
  changed();
}

void Memory::release(const Allocation& allocation) {
  std::lock_guard lock(mutex_);
  switch (allocation.type) {
    case MemoryType::kDevice:
    case MemoryType::kVariable:
      heaps_[allocation.device]->free(allocation.address);
      break;
    case MemoryType::kManaged:
    case MemoryType::kPinned:
      host_region_.free(allocation.host, allocation.size);
      break;
    case MemoryType::kMapped:
      PhysicalMemory::unmap(allocation.host, allocation.size);
      break;
    case MemoryType::kImported:
      space_.release(allocation.base);
      break;
    case MemoryType::kRegistered:
      break;
  }
}

std::optional<DeviceHeap::Shared> Memory::share(uint64_t address, Allocation* found) {
  Hold lock = hold();
  const Allocation* allocation = find(lock, address);
  if (allocation == nullptr || allocation->type != MemoryType::kDevice ||
      allocation->pool != nullptr || allocation->of_graph) {
    return std::nullopt;
  }
  *found = *allocation;
  return heaps_[allocation->device]->share(allocation->address);
}

// Whole granules, as the other process has them.
CUresult Memory::import(Allocation wanted, Backing file, uint64_t bytes, uint64_t offset,
                        uint64_t* address) {
  std::lock_guard lock(mutex_);
  const auto base = space_.take(wanted.device, bytes + kGranule);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  auto memory = std::make_shared<Backing>(std::move(file));
  wanted.base = *base;
  wanted.address = *base + offset;
  wanted.host = memory->data() + offset;
  wanted.bytes = std::move(memory);
  wanted.readers = wanted.writers = 1u << wanted.device;
  *address = wanted.address;
  insert(std::move(wanted));
  return CUDA_SUCCESS;
}

CUresult Memory::enable_peer(int device, CUcontext context) {
  std::lock_guard lock(mutex_);
  changed();
  return peers_[device].insert(context).second ? CUDA_SUCCESS
                                               : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult Memory::disable_peer(int device, CUcontext context) {
  std::lock_guard lock(mutex_);
  changed();
  return peers_[device].erase(context) != 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// Memory of pools and mapped memory have access rights of their own.
bool Memory::reads(int device, const Allocation& allocation) const {
  return (allocation.readers & (1u << device)) != 0 ||
         (allocation.context != nullptr && allocation.type != MemoryType::kMapped &&
          peers_[device].contains(allocation.context));
}

bool Memory::writes(int device, const Allocation& allocation) const {
  return (allocation.writers & (1u << device)) != 0 ||
         (allocation.type == MemoryType::kDevice && reads(device, allocation) &&
          allocation.pool == nullptr && !allocation.of_graph);
}

const Allocation* Memory::find(const Hold&, uint64_t address) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const Allocation& before = std::prev(next)->second;
  const bool there = !before.given_back && (!before.hidden || plans_);
  return address - before.address < before.size && there ? &before : nullptr;
}

Allocation* Memory::find(const Hold& hold, uint64_t address) {
  return const_cast<Allocation*>(std::as_const(*this).find(hold, address));
}

std::byte* Memory::resolve(const Hold& hold, uint64_t address, uint64_t size) const {
  const Allocation* first = find(hold, address);
  if (first == nullptr) return nullptr;
  std::byte* host = first->host + (address - first->address);
  // Mappings that follow each other in one reservation are one stretch of memory.
  for (const Allocation* part = first;;) {
    if (part->readers == 0) return nullptr;
    uint64_t covered = part->address + part->size - address;
    if (size <= covered) return host;
    part = find(hold, address + covered);
    if (part == nullptr || part->type != MemoryType::kMapped || part->host != host + covered) {
      return nullptr;
    }
  }
}

std::shared_ptr<const ExtentTable> Memory::table(int device) {
  std::lock_guard lock(mutex_);
  auto& cached = tables_[device];
  if (cached) return cached;
  auto fresh = std::make_shared<OwningTable>();
  fresh->extents.reserve(allocations_.size());
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.hidden || !reads(device, allocation)) continue;
    if (allocation.pool != nullptr || allocation.given_back || allocation.of_graph)
      fresh->bytes.push_back(allocation.bytes);
    Extent extent{address, allocation.size, allocation.host, writes(device, allocation),
                  allocation.type >= MemoryType::kPinned};
    Extent* last = fresh->extents.empty() ? nullptr : &fresh->extents.back();
    if (allocation.type == MemoryType::kMapped && last != nullptr && last->end() == address &&
        last->host + last->size == extent.host && last->writable == extent.writable) {
      last->size += extent.size;
    } else {
      fresh->extents.push_back(extent);
    }
  }
  cached = std::move(fresh);
  return cached;
}

uint64_t Memory::available(int device) const {
  std::lock_guard lock(mutex_);
  return heaps_[device]->available();
}

}  // namespace simcuda
