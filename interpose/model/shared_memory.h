// Device memory that processes of a job share, by cuIpcGetMemHandle and cuIpcOpenMemHandle.
//
// The program gets handles of ours, never the driver's: a process that opens one asks the process
// that has the memory (services/control.h), and is given the driver's handle of it. So both know of
// each other. The driver makes no handle of memory that a restore had to place at its recorded
// address; that memory goes by descriptors of its physical memory in the same way. A process that
// is not followed cannot open such a handle.
//
// Any thread: it has a lock of its own, which nobody holds while the driver is called or another
// process is asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/model/mapped_memory.h"
#include "interpose/services/control.h"
#include "tiers/io/system_call.h"
#include "tiers/status.h"

namespace gpusnap {

class SharedMemory {
 public:
  explicit SharedMemory(const Driver& driver);

  // This process's: in any mode, and also if the session could not begin. Null before any session.
  static SharedMemory* of_process() { return of_process_.load(std::memory_order_acquire); }
  void become_of_process() { of_process_.store(this, std::memory_order_release); }

  // `job`: a hash of its name. `on_stranger`: a process of another job has asked for memory of this
  // one; by the thread that answers.
  void begin(uint64_t job, std::function<void()> on_stranger);

  // ---- memory of this process ----

  // The handle of [address, address + size), the same each time: of what the driver has made
  // `driver` of, or of memory that lies in `pieces`. These are exported here; the error says why
  // they cannot be.
  CUipcMemHandle offer(uint64_t address, uint64_t size, const CUipcMemHandle& driver);
  Result<CUipcMemHandle> offer(uint64_t address, uint64_t size,
                               const std::vector<MappedMemory>& pieces);
  // It has been freed.
  void withdraw(uint64_t address);
  // The answer to another process that asks for it: Triggers::MemorySource.
  MemoryReply tell(const MemoryRequest& request, std::vector<int>& descriptors);

  // ---- memory of others ----

  struct Opened {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    uint64_t address = 0;
    uint64_t size = 0;
    bool of_job = false;
    std::string why;  // where the result is not the driver's own
  };
  using RealOpen = std::function<CUresult(CUdeviceptr*, const CUipcMemHandle&)>;
  // Opens it in the current context; `real` is the driver's call. `wanted`: where it is to be, if
  // we can choose; 0: anywhere.
  Opened open(const SharedHandle& handle, uint64_t wanted, const RealOpen& real);
  // Closes it once. `last`: it is not there any more.
  CUresult close(uint64_t address, const std::function<CUresult()>& real, bool& last);
  // The range that is open around this address, if the driver does not know how far that goes.
  struct Extent {
    uint64_t address = 0;
    uint64_t size = 0;  // 0: none
    bool operator==(const Extent&) const = default;
  };
  Extent mapped_around(uint64_t address);

 private:
  // Physical memory of ours that others may map.
  struct Piece {
    uint64_t bytes = 0;
    Descriptor file;
  };
  struct Offer {
    uint64_t address = 0;
    uint64_t size = 0;
    CUipcMemHandle driver{};
    uint64_t first = 0;
    std::vector<Piece> pieces;
  };
  // Physical memory of another process, where it is mapped: what several allocations lie in is
  // mapped once.
  struct Mapping {
    SharedHandle owner;    // its process and number
    uint64_t at_home = 0;  // address there
    MappedMemory memory;
    unsigned users = 0;
  };
  struct Import {
    SharedHandle handle;
    CUcontext context = nullptr;
    uint64_t size = 0;
    unsigned times = 0;
    std::vector<uint64_t> mappings;  // addresses; none: it is the driver's
  };
  struct Answer {
    MemoryReply reply;
    std::vector<Descriptor> files;
  };

  CUipcMemHandle handle_of(uint64_t id) const;
  CUipcMemHandle keep(Offer offer);
  Result<Answer> ask(const SharedHandle& handle) const;
  bool again(const SharedHandle& handle, CUcontext context, Opened& opened);
  Status map(const SharedHandle& handle, const Answer& answer, uint64_t wanted, Import& import,
             uint64_t& address);
  Result<uint64_t> find_place(uint64_t bytes) const;
  bool add_user(const Mapping& piece);
  Status map_piece(const Mapping& wanted, int file, int device);
  void unmap(const std::vector<uint64_t>& mappings);

  static constinit inline std::atomic<SharedMemory*> of_process_{nullptr};

  const Driver& driver_;
  const uint64_t number_;
  uint64_t job_ = 0;
  std::function<void()> on_stranger_;
  std::mutex mutex_;  // of what follows
  uint64_t last_id_ = 0;
  std::map<uint64_t, Offer> offers_;      // by id
  std::map<uint64_t, uint64_t> ids_;      // by address
  std::map<uint64_t, Import> imports_;    // by address
  std::map<uint64_t, Mapping> mappings_;  // by address
};

}  // namespace gpusnap
