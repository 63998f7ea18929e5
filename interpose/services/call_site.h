// Identifies a caller: a hash of the calling thread's stack that is the same in every run of the
// same binaries. Each return address counts as (build-id of its module, offset in it), so that
// neither address randomisation nor other modules' places change it. Frames of one module, ours,
// are left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace gpusnap {

class ModuleTable;

// Thread-safe after construction.
class CallSites {
 public:
  // Opens the unwinder privately: it must not come before the program's own. Where libunwind is
  // missing every hash is 0, and a line says so once. Frames of the module in which `own_address`
  // lies are left out; null leaves none out.
  explicit CallSites(const void* own_address);
  ~CallSites();
  CallSites(const CallSites&) = delete;
  CallSites& operator=(const CallSites&) = delete;

  bool available() const { return unwind_ != nullptr; }
  // The caller's call site; 0 where it cannot be known. At most 64 frames count. Well under a
  // microsecond for a stack seen before. Not for signal handlers.
  uint64_t here() noexcept;

 private:
  using Unwind = int (*)(void** addresses, int count);
  struct Known;

  uint64_t hash(void* const* addresses, size_t count, uint64_t modules_seen) noexcept;
  std::shared_ptr<const ModuleTable> table(uint64_t modules_seen);

  const void* const own_address_;
  Unwind unwind_ = nullptr;
  std::mutex mutex_;  // over table_
  std::shared_ptr<const ModuleTable> table_;
  std::unique_ptr<Known[]> known_;
};

}  // namespace gpusnap
