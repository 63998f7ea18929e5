// The part of Memory behind cuMemAddressReserve, cuMemCreate, cuMemMap and their like.

#include <fcntl.h>
#include <sys/stat.h>

#include <iterator>
#include <utility>

#include "tools/simcuda/driver/memory.h"

namespace simcuda {
namespace {

constexpr uint64_t kMostAddresses = uint64_t{64} << 40;

bool granular(uint64_t value) {
  return value != 0 && value % kGranule == 0;
}

}  // namespace

CUresult Memory::reserve(uint64_t size, uint64_t align, uint64_t hint, uint64_t* address) {
  if (align == 0) align = kGranule;
  if (!granular(size) || (align & (align - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kMostAddresses) return CUDA_ERROR_OUT_OF_MEMORY;
  if (align < kGranule) align = kGranule;
  std::lock_guard lock(mutex_);
  Reservation reservation{size, std::make_shared<Backing>(Backing::reserved(size))};
  if (!*reservation.space) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<uint64_t> taken;
  // A hint is a wish: where it cannot be had, another place is as good, and no error.
  if (space_.take_at(hint, size, align)) taken = hint;
  if (!taken) taken = space_.take_in_region(0, size, align);
  if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = *taken;
  reservations_.emplace(*taken, std::move(reservation));
  return CUDA_SUCCESS;
}

CUresult Memory::unreserve(uint64_t address, uint64_t size) {
  std::lock_guard lock(mutex_);
  auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second.size != size || overlaps(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reservations_.erase(found);
  space_.release(address);
  return CUDA_SUCCESS;
}

CUresult Memory::create(int device, uint64_t size, unsigned usage, bool shareable,
                        CUmemGenericAllocationHandle* handle) {
  if (!granular(size)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  DeviceHeap& heap = *heaps_[device];
  if (!heap.commit(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto physical = std::make_shared<Physical>(heap, size, device, usage, shareable);
  if (!physical->memory) return CUDA_ERROR_OUT_OF_MEMORY;
  physical->handle = next_handle_++;
  *handle = physical->handle;
  physical_.emplace(physical->handle, std::move(physical));
  return CUDA_SUCCESS;
}

CUresult Memory::export_file(CUmemGenericAllocationHandle handle, int* fd) const {
  std::lock_guard lock(mutex_);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || !found->second->shareable) return CUDA_ERROR_INVALID_VALUE;
  *fd = found->second->memory.share();
  return *fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

// Any file without a name that is of whole granules; of the first device where it does not tell
// another one that this process has.
CUresult Memory::import_file(int fd, CUmemGenericAllocationHandle* handle) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size <= 0 ||
      !granular(static_cast<uint64_t>(file.st_size)) || fcntl(fd, F_GET_SEALS) < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int told = PhysicalMemory::device_of(fd).value_or(0);
  const int device = static_cast<size_t>(told) < heaps_.size() ? told : 0;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  auto physical = std::make_shared<Physical>(PhysicalMemory::Imported{own},
                                             static_cast<uint64_t>(file.st_size), device);
  std::lock_guard lock(mutex_);
  physical->handle = next_handle_++;
  *handle = physical->handle;
  physical_.emplace(physical->handle, std::move(physical));
  return CUDA_SUCCESS;
}

CUresult Memory::drop(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second->references == 0) physical_.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::retain(uint64_t address, CUmemGenericAllocationHandle* handle) {
  Hold lock = hold();
  Allocation* mapping = find(lock, address);
  if (mapping == nullptr || mapping->type != MemoryType::kMapped) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Physical>& physical = mapping->physical;
  // A handle that was released while mapped becomes valid again.
  if (!physical_.contains(physical->handle)) {
    physical->references = 0;
    physical_.emplace(physical->handle, physical);
  }
  ++physical->references;
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult Memory::describe(CUmemGenericAllocationHandle handle, int* device, unsigned* usage,
                          bool* shareable) const {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  *device = found->second->device;
  *usage = found->second->usage;
  *shareable = found->second->shareable;
  return CUDA_SUCCESS;
}

std::shared_ptr<const Physical> Memory::physical(CUmemGenericAllocationHandle handle) const {
  std::lock_guard lock(mutex_);
  auto found = physical_.find(handle);
  return found == physical_.end() ? nullptr : found->second;
}

CUresult Memory::map(uint64_t address, uint64_t size, CUmemGenericAllocationHandle handle,
                     CUcontext context) {
  std::lock_guard lock(mutex_);
  auto physical = physical_.find(handle);
  auto after = reservations_.upper_bound(address);
  if (!granular(size) || address % kGranule != 0 || physical == physical_.end() ||
      (physical->second->usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0 ||
      size > physical->second->bytes || after == reservations_.begin()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto& [start, reservation] = *std::prev(after);
  uint64_t offset = address - start;
  if (offset >= reservation.size || size > reservation.size - offset || overlaps(address, size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::byte* host = reservation.space->data() + offset;
  if (!physical->second->memory.map(host, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation mapping;
  mapping.address = address;
  mapping.size = size;
  mapping.host = host;
  mapping.type = MemoryType::kMapped;
  mapping.device = physical->second->device;
  mapping.context = context;
  mapping.physical = physical->second;
  mapping.space = reservation.space;
  insert(std::move(mapping));
  return CUDA_SUCCESS;
}

std::vector<Allocation*> Memory::mappings(uint64_t address, uint64_t size) {
  std::vector<Allocation*> parts;
  uint64_t at = address;
  while (at - address < size) {
    auto found = allocations_.find(at);
    if (found == allocations_.end() || found->second.type != MemoryType::kMapped) return {};
    parts.push_back(&found->second);
    at += found->second.size;
  }
  if (at - address != size) parts.clear();
  return parts;
}

CUresult Memory::set_access(uint64_t address, uint64_t size, int device, bool read, bool write) {
  std::lock_guard lock(mutex_);
  auto parts = mappings(address, size);
  if (parts.empty()) return CUDA_ERROR_INVALID_VALUE;
  uint32_t bit = 1u << device;
  for (Allocation* part : parts) {
    part->readers = read ? part->readers | bit : part->readers & ~bit;
    part->writers = write ? part->writers | bit : part->writers & ~bit;
  }
  changed();
  return CUDA_SUCCESS;
}

CUresult Memory::retire_mappings(uint64_t address, uint64_t size,
                                 std::vector<Allocation>* retired) {
  std::lock_guard lock(mutex_);
  auto parts = mappings(address, size);
  if (parts.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (Allocation* part : parts) {
    uint64_t at = part->address;
    retired->push_back(std::move(*part));
    allocations_.erase(at);
  }
  changed();
  return CUDA_SUCCESS;
}

}  // namespace simcuda
