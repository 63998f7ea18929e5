// All memory that a device can reach, by address: device allocations, variables of modules, mapped
// physical memory, managed and pinned memory.
//
// Thread safety: calls take Memory's lock themselves, except those that take a Hold. A caller that
// resolves an address to hand bytes to a stream keeps the Hold until the work is queued. Removing
// memory has two steps for that: retire() makes it unreachable for what is queued from then on, and
// after the caller has waited for all work that was queued before, release() gives it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "tools/simcuda/driver/address_space.h"
#include "tools/simcuda/driver/backing.h"
#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/device_heap.h"
#include "tools/simcuda/driver/settings.h"
#include "tools/simcuda/machine.h"

namespace simcuda {

enum class MemoryType : uint8_t {
  kDevice,
  kVariable,
  kMapped,
  kImported,  // another process's, opened by a handle of that
  kManaged,
  kPinned,
  kRegistered,
};

// A physical allocation of virtual memory management; counts against its device while it lives.
struct Physical {
  Physical(DeviceHeap& heap, uint64_t bytes_, int device_, unsigned usage_, bool shareable_)
      : memory(bytes_, device_),
        bytes(bytes_),
        device(device_),
        usage(usage_),
        shareable(shareable_),
        heap_(&heap) {}
  // Memory of another process, in whose heap it counts.
  Physical(PhysicalMemory::Imported file, uint64_t bytes_, int device_)
      : memory(file), bytes(bytes_), device(device_), shareable(true) {}
  ~Physical() {
    if (heap_ != nullptr) heap_->uncommit(bytes);
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  PhysicalMemory memory;
  uint64_t bytes;
  int device;
  unsigned usage = 0;  // CU_MEM_CREATE_USAGE_...
  bool shareable;      // as a file descriptor
  CUmemGenericAllocationHandle handle = 0;
  unsigned references = 1;  // cuMemCreate and cuMemRetainAllocationHandle less cuMemRelease

 private:
  DeviceHeap* heap_ = nullptr;
};

struct Allocation {
  uint64_t address = 0;
  uint64_t size = 0;  // bytes as asked for: one past is out of bounds
  std::byte* host = nullptr;
  MemoryType type = MemoryType::kDevice;
  int device = 0;               // that it is on, or whose context made it
  CUcontext context = nullptr;  // that made it
  unsigned flags = 0;           // as given to the call that made it
  uint64_t id = 0;              // never used twice
  uint32_t readers = 0;         // devices that may read it, a bit each
  uint32_t writers = 0;         // devices whose kernels may write it
  bool sync_operations = false;
  // Stream-ordered: the pool's own, or null. Memory given back to a pool is no longer the
  // program's, but stays where it is, for work that is queued, until the pool lets go of it.
  CUmemoryPool pool = nullptr;
  bool given_back = false;
  // Memory of a graph: it has its address all the time, but is there only while it is allocated.
  bool of_graph = false;
  bool decompresses = false;  // of a pool: the engine for decompression knows of it
  bool hidden = false;
  uint64_t capacity = 0;               // bytes that it may be used for again
  std::shared_ptr<const void> bytes;   // keeps what is at `host`; null where nothing need
  std::shared_ptr<Physical> physical;  // kMapped
  std::shared_ptr<Backing> space;      // kMapped: the reservation's view on the host
  uint64_t base = 0;                   // kImported: the addresses that were taken for it begin here

  bool on_host() const { return type >= MemoryType::kManaged; }
};

// Whether the engine for decompression knows of it.
inline bool can_decompress(const Allocation& memory) {
  if (memory.type == MemoryType::kMapped) {
    return (memory.physical->usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS) != 0;
  }
  if (memory.type != MemoryType::kDevice || memory.of_graph) return false;
  return memory.pool == nullptr || memory.decompresses;
}

class Memory {
 public:
  using Hold = std::unique_lock<std::mutex>;

  explicit Memory(const Settings& settings);

  Hold hold() const { return Hold(mutex_); }
  // A Hold for work that becomes a graph's node: memory of graphs counts, there or not.
  struct Plan {
    explicit Plan(Memory& memory_) : memory(memory_), hold(memory_.mutex_) { memory.plans_ = true; }
    ~Plan() { memory.plans_ = false; }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    Memory& memory;
    Hold hold;
  };

  // Makes an allocation of one of the types that own their bytes. Fills in address and host.
  CUresult allocate(Allocation wanted, uint64_t* address);
  // Memory of a device that no address leads to, given back with the last pointer to it. Holds
  // junk. Null when the device or the host is out of memory.
  std::shared_ptr<std::byte> allocate_hidden(int device, uint64_t size);
  // Makes [address, address + size) of the program's own memory known to all devices.
  CUresult register_host(Allocation wanted);

  // Step one of removing the allocation that starts at `address`: returns it when its type is in
  // `types` (bits 1 << MemoryType), and none can find it any more.
  std::optional<Allocation> retire(uint64_t address, unsigned types);
  // Step two: its address and bytes may be used again.
  void release(const Allocation& allocation);
  // Step one for all that a context made.
  std::vector<Allocation> retire_all(CUcontext context);

  // Stream-ordered memory. Gives back what starts at `address`: only work that is queued, or
  // ordered after such work, may still use it. Returns the allocation if it is device memory of the
  // program, else nothing.
  std::optional<Allocation> give_back(uint64_t address);
  // Memory that was given back is an allocation again, of `size` bytes; the host's view of it.
  std::byte* reuse(uint64_t address, uint64_t size);
  // Memory that was given back, or of a graph, is gone: an illegal address from now on. Work that
  // is queued keeps the bytes.
  void drop_given_back(uint64_t address);
  // Memory of a graph, which starts at `address`, is there from now on, or is not.
  void show(uint64_t address);
  void hide(uint64_t address);
  std::byte* host_of_hidden(uint64_t address) const;
  // Whether an allocation of a pool starts at `address`.
  bool of_pool(uint64_t address) const;
  // That the memory at the address was made in; null where it is of none, or there is none.
  CUcontext context_of(uint64_t address) const;
  // Sets the devices that may use all memory of a pool, a bit for each.
  void set_pool_access(CUmemoryPool pool, uint32_t readers, uint32_t writers);

  // The file of the allocation that holds `address`, for other processes; the allocation itself.
  // Only of device memory that is the program's own and no pool's or graph's.
  std::optional<DeviceHeap::Shared> share(uint64_t address, Allocation* found);
  // All of such a file of another process, of which `wanted` begins at `offset`.
  CUresult import(Allocation wanted, Backing file, uint64_t bytes, uint64_t offset,
                  uint64_t* address);

  // Kernels of `device` may use all that is, or will be, allocated in `context`, until disabled or
  // the context is gone. CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED and _NOT_ENABLED as CUDA has them.
  CUresult enable_peer(int device, CUcontext context);
  CUresult disable_peer(int device, CUcontext context);

  // The allocation that holds `address`, or null.
  const Allocation* find(const Hold&, uint64_t address) const;
  Allocation* find(const Hold& hold, uint64_t address);
  // The host's view of [address, address + size): null unless all of it is allocated.
  std::byte* resolve(const Hold& hold, uint64_t address, uint64_t size) const;
  // No host pointer ever lies here, allocated or not.
  bool is_device_address(const Hold&, uint64_t address) const {
    return space_.is_device_address(address);
  }

  // The memory that kernels of a device can reach at this moment.
  std::shared_ptr<const ExtentTable> table(int device);

  uint64_t capacity(int device) const { return heaps_[device]->capacity(); }
  uint64_t available(int device) const;

  // Virtual memory management; argument checks of addresses and sizes are made here.
  CUresult reserve(uint64_t size, uint64_t align, uint64_t hint, uint64_t* address);
  CUresult unreserve(uint64_t address, uint64_t size);
  CUresult create(int device, uint64_t size, unsigned usage, bool shareable,
                  CUmemGenericAllocationHandle* handle);
  // A file descriptor for another process; of one from there.
  CUresult export_file(CUmemGenericAllocationHandle handle, int* fd) const;
  CUresult import_file(int fd, CUmemGenericAllocationHandle* handle);
  CUresult drop(CUmemGenericAllocationHandle handle);
  CUresult retain(uint64_t address, CUmemGenericAllocationHandle* handle);
  CUresult describe(CUmemGenericAllocationHandle handle, int* device, unsigned* usage,
                    bool* shareable) const;
  // Null: there is none of that handle.
  std::shared_ptr<const Physical> physical(CUmemGenericAllocationHandle handle) const;
  CUresult map(uint64_t address, uint64_t size, CUmemGenericAllocationHandle handle,
               CUcontext context);
  CUresult set_access(uint64_t address, uint64_t size, int device, bool read, bool write);
  // Step one for the mappings that make up exactly [address, address + size).
  CUresult retire_mappings(uint64_t address, uint64_t size, std::vector<Allocation>* retired);

 private:
  struct Reservation {
    uint64_t size = 0;
    std::shared_ptr<Backing> space;
  };

  bool reads(int device, const Allocation& allocation) const;
  bool writes(int device, const Allocation& allocation) const;

  // Keeps the bytes of pools that a launch was queued with.
  struct OwningTable : ExtentTable {
    std::vector<std::shared_ptr<const void>> bytes;
  };

  bool overlaps(uint64_t address, uint64_t size) const;
  void insert(Allocation allocation);
  void changed();
  // The mappings that make up [address, address + size) without a hole; empty when they do not.
  std::vector<Allocation*> mappings(uint64_t address, uint64_t size);

  mutable std::mutex mutex_;
  bool plans_ = false;
  uint64_t next_id_ = 1;
  AddressSpace space_;
  std::vector<std::unique_ptr<DeviceHeap>> heaps_;
  HostRegion host_region_;
  std::vector<std::set<CUcontext>> peers_;        // by device: contexts whose memory it may use
  std::map<uint64_t, Allocation> allocations_;    // by address
  std::map<uint64_t, Reservation> reservations_;  // by address
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>> physical_;
  CUmemGenericAllocationHandle next_handle_ = 1;
  std::vector<std::shared_ptr<const ExtentTable>> tables_;  // null: changed since it was made
};

}  // namespace simcuda
