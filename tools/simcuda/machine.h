// The seam inside simcuda between the driver API (memory, streams, modules) and the PTX machine
// that executes kernels. The driver owns all memory and all naming; the machine decodes and runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/ptx.h"

namespace simcuda {

// A stretch of device-visible memory: device address -> host bytes. Accesses must lie wholly
// inside.
struct Extent {
  uint64_t address = 0;
  uint64_t size = 0;  // bytes, exact: one past is out of bounds
  std::byte* host = nullptr;
  bool writable = true;
  bool on_host = false;  // memory of the host, behind the link
  uint64_t end() const { return address + size; }
};

// All extents at one moment, sorted by address. Immutable: a launch holds the table that was
// current when it was queued, so memory freed before is not in it.
struct ExtentTable {
  std::vector<Extent> extents;
  // The extent that holds `address`, or null.
  const Extent* find(uint64_t address) const;
};

// Windows of generic address space for shared and local memory; no allocation may lie in them.
inline constexpr uint64_t kSharedWindow = 0x0000'7000'0000'0000ull + (uint64_t{1} << 52);
inline constexpr uint64_t kLocalWindow = kSharedWindow + (uint64_t{1} << 40);
// Parameters of kernels whose address was taken: read-only.
inline constexpr uint64_t kParameterWindow = kLocalWindow + (uint64_t{1} << 40);
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

struct ImageTable;  // tools/simcuda/images.h
class KernelHeap;   // tools/simcuda/machine/kernel_heap.h

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Where a module's variables live: filled in by the driver before the first launch.
struct GlobalPlacement {
  std::string_view name;
  const gpusnap::ptx::Variable* variable = nullptr;
  uint64_t address = 0;  // 0 until placed
};

class Kernel;  // decoded, immutable

struct LoadError {
  uint32_t line = 0;
  std::string instruction;
  std::string reason;
};

// A decoded module. Immutable after bind().
class Program {
 public:
  // Decodes everything; null and `error` when any instruction of any function is not known exactly.
  static std::unique_ptr<Program> decode(std::unique_ptr<const gpusnap::ptx::Module> module,
                                         LoadError* error);
  virtual ~Program() = default;

  // .global and .const variables that want memory (extern ones included, with elements = 0 or not
  // defined: the driver refuses those it cannot resolve).
  virtual std::vector<GlobalPlacement>& globals() = 0;
  // After all addresses are set: resolves symbols in code, and returns for each global its initial
  // bytes with relocations applied (function addresses are the machine's own code addresses).
  virtual std::vector<std::vector<std::byte>> bind() = 0;

  virtual std::vector<std::string_view> kernel_names() const = 0;
  virtual const Kernel* kernel(std::string_view name) const = 0;  // null: none of that name
  // Whether code of it calls malloc() or free().
  virtual bool uses_heap() const = 0;
};

struct KernelInfo {
  std::string_view name;
  uint64_t parameter_bytes = 0;
  struct Parameter {
    uint64_t offset, size;
  };
  std::vector<Parameter> parameters;
  uint64_t static_shared_bytes = 0;
  uint64_t local_bytes = 0;  // per thread
  uint32_t registers = 0;    // per thread, as the machine counts them, at most 255
  uint32_t max_threads_per_block = 1024;
};
const KernelInfo& info(const Kernel& kernel);

struct Launch {
  const Kernel* kernel = nullptr;
  Dim3 grid, block;
  uint64_t dynamic_shared_bytes = 0;
  const std::byte* parameters =
      nullptr;  // KernelInfo::parameter_bytes of them, alive until run() ends
  std::shared_ptr<const ExtentTable> memory;
  std::shared_ptr<const ImageTable> images;  // null: there are no textures and surfaces
  bool cooperative = false;                  // its blocks may wait for one another
  // Takes what the kernel prints, a piece at a time.
  std::function<void(std::string_view)> print;
  // Outlives the launch. Null only if the program uses none.
  KernelHeap* heap = nullptr;
  // The first value of %globaltimer, in nanoseconds; none: it says the host's time.
  std::optional<uint64_t> timer;
};

// Totals of a launch. Memory is counted in sectors of 32 bytes: each access of a warp counts the
// sectors of its lanes, in the order of the lanes one that follows its like only once. There is no
// cache. An access that reaches several extents counts as the first lane's. Each lane's access to a
// texture or surface counts as one sector.
struct LaunchTotals {
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
  uint64_t instructions = 0;       // of all threads
  uint64_t timer_nanoseconds = 0;  // that %globaltimer came to, where Launch::timer is set
};

struct Fault {
  enum class Kind {
    kNone,
    kIllegalAddress,
    kMisalignedAddress,
    kInvalidAddressSpace,
    kIllegalInstruction,
    kTrap,
    kAssert,
    kStackOverflow,
    kCancelled,
  } kind = Kind::kNone;
  std::string message;  // one line: kernel, PTX line, instruction, block, thread, address, nearest
                        // allocation
};

// Adds up over all launches of a process.
struct Counters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> thread_instructions{0};
};

// Runs a launch to its end or its first fault, on the calling thread. Reentrant: streams call it
// from threads of their own at the same time, and atomics work between them. `cancel` set by
// another thread ends it soon with kCancelled. `totals` may be null.
Fault run(const Launch& launch, Counters& counters, const std::atomic<bool>& cancel,
          LaunchTotals* totals = nullptr);

}  // namespace simcuda
