// Memory and events that processes share. An exported object becomes a file without a name. Its
// handle says where the exporting process has the file. A process that opens the handle maps the
// file, by /proc.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/event.h"

using simcuda::Allocation;
using simcuda::Backing;
using simcuda::Context;
using simcuda::Driver;
using simcuda::Event;
using simcuda::in_context;
using simcuda::kGranule;
using simcuda::MemoryType;
using simcuda::SharedMarks;

namespace {

constexpr char kMagic[8] = {'s', 'i', 'm', 'c', 'u', 'd', 'a', 'M'};

// The contents of a handle.
struct SharedMemory {
  char magic[8];
  int32_t process;
  int32_t fd;
  uint64_t inode;   // of the file, so that another one is not taken for it
  uint64_t bytes;   // of the file
  uint64_t offset;  // where in it the allocation begins
  uint64_t size;    // of the allocation
  uint64_t id;      // of the allocation
  bool operator==(const SharedMemory&) const = default;
  auto operator<=>(const SharedMemory& other) const {
    return std::memcmp(this, &other, sizeof *this) <=> 0;
  }
};
static_assert(sizeof(SharedMemory) <= sizeof(CUipcMemHandle));

uint64_t inode_of(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

// Opened again: the same address, as often as it is closed again.
struct Opened {
  uint64_t address = 0;
  unsigned times = 0;
};
std::mutex mutex;
std::map<std::pair<CUcontext, SharedMemory>, Opened> opened;  // guarded by mutex

// That of another process; -1: there is none, or it is another one.
int open_file(int process, int number, uint64_t inode, uint64_t bytes) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat file {};
  if (fd >= 0 && fstat(fd, &file) == 0 && file.st_ino == inode &&
      static_cast<uint64_t>(file.st_size) == bytes) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

CUresult map_file(const SharedMemory& shared, Backing* memory) {
  const int fd = open_file(shared.process, shared.fd, shared.inode, shared.bytes);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  *memory = Backing::of_file(fd, shared.bytes);
  close(fd);
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

constexpr char kEventMagic[8] = {'s', 'i', 'm', 'c', 'u', 'd', 'a', 'E'};

struct SharedEvent {
  char magic[8];
  int32_t process;
  int32_t fd;
  uint64_t inode;
};
static_assert(sizeof(SharedEvent) <= sizeof(CUipcEventHandle));

bool is_sound(const SharedMemory& shared) {
  return std::memcmp(shared.magic, kMagic, sizeof kMagic) == 0 && shared.bytes != 0 &&
         shared.bytes % kGranule == 0 && shared.size != 0 && shared.size <= shared.bytes &&
         shared.offset <= shared.bytes - shared.size;
}

CUresult open_shared(Driver& state, Context& context, const SharedMemory& shared,
                     CUdeviceptr* address) {
  if (!is_sound(shared)) return CUDA_ERROR_INVALID_VALUE;
  // As the driver has it: who exports it has it already.
  if (shared.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(mutex);
  Opened& here = opened[{context.handle(), shared}];
  if (here.times == 0) {
    Backing memory;
    if (CUresult bad = map_file(shared, &memory); bad != CUDA_SUCCESS) return bad;
    Allocation wanted;
    wanted.size = shared.size;
    wanted.type = MemoryType::kImported;
    wanted.device = context.device();
    wanted.context = context.handle();
    CUresult result = state.memory.import(std::move(wanted), std::move(memory), shared.bytes,
                                          shared.offset, &here.address);
    if (result != CUDA_SUCCESS) return result;
  }
  ++here.times;
  *address = here.address;
  return CUDA_SUCCESS;
}

// Whether it is to be unmapped now.
CUresult close_shared(CUdeviceptr address, bool* last) {
  const std::lock_guard lock(mutex);
  for (auto at = opened.begin(); at != opened.end(); ++at) {
    if (at->second.address != address || at->second.times == 0) continue;
    *last = --at->second.times == 0;
    if (*last) opened.erase(at);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

// The first one of an allocation waits for all that is queued: its bytes move.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return in_context([&](Driver& state, Context& context) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
    state.wait_for_all();
    Allocation found;
    const auto file = state.memory.share(address, &found);
    if (!file) return found.size == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    SharedMemory shared{};
    std::memcpy(shared.magic, kMagic, sizeof kMagic);
    shared.process = getpid();
    shared.fd = file->fd;
    shared.inode = inode_of(file->fd);
    shared.bytes = file->bytes;
    shared.offset = file->offset;
    shared.size = found.size;
    shared.id = found.id;
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &shared, sizeof shared);
    return context.error();
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    SharedMemory shared{};
    std::memcpy(&shared, &handle, sizeof shared);
    return open_shared(state, context, shared, address);
  });
}

// Waits for what is queued, as a free does.
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return in_context([&](Driver& state, Context& context) {
    bool last = false;
    if (CUresult bad = close_shared(address, &last); bad != CUDA_SUCCESS) return bad;
    if (!last) return context.error();
    auto retired = state.memory.retire(address, 1u << static_cast<unsigned>(MemoryType::kImported));
    // Its context may have ended meanwhile, and taken it with it.
    if (retired) state.release({std::move(*retired)});
    return context.error();
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return in_context([&](Driver& state, Context&) {
    const auto found = state.events.find(event);
    if (handle == nullptr || !found) return CUDA_ERROR_INVALID_VALUE;
    if (!found->shared) return CUDA_ERROR_INVALID_HANDLE;
    SharedEvent shared{};
    std::memcpy(shared.magic, kEventMagic, sizeof kEventMagic);
    shared.process = getpid();
    shared.fd = found->shared->fd();
    shared.inode = inode_of(shared.fd);
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &shared, sizeof shared);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return in_context([&](Driver& state, Context& context) {
    SharedEvent shared{};
    std::memcpy(&shared, &handle, sizeof shared);
    if (event == nullptr || std::memcmp(shared.magic, kEventMagic, sizeof kEventMagic) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int fd = open_file(shared.process, shared.fd, shared.inode, SharedMarks::kBytes);
    if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
    auto fresh = std::make_shared<Event>();
    fresh->shared = SharedMarks::of_file(fd);
    if (!fresh->shared) return CUDA_ERROR_OUT_OF_MEMORY;
    fresh->handle = state.events.reserve();
    fresh->context = context.handle();
    fresh->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    *event = fresh->handle;
    state.events.insert(*event, std::move(fresh));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return simcuda::in_driver([&](Driver& state) {
    if (shareable == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    int fd = -1;
    const CUresult result = state.memory.export_file(handle, &fd);
    if (result == CUDA_SUCCESS) std::memcpy(shareable, &fd, sizeof fd);
    return result;
  });
}

// The descriptor itself is the argument, and stays the caller's.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  return simcuda::in_driver([&](Driver& state) {
    if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return state.memory.import_file(static_cast<int>(reinterpret_cast<intptr_t>(shareable)),
                                    handle);
  });
}
