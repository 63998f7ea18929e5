// Keeps the calls that get and give back memory, arrays, textures and surfaces in one order over
// several threads: the journal's order must be the driver's, or a replay, which makes them in the
// journal's, gets other addresses and handles.
//
// No call is made under a lock for it. A thread that comes while another is inside such a call
// waits for that one, but no longer than such calls take where they do not wait for the device
// themselves; what overlaps after all is left to the replay (SurplusAllocations), and to placement.
//
// The session's lock is held by the caller, and released while it waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/record/call_lock.h"
#include "tracker/memory_map.h"

namespace gpusnap {

// How long others wait: for a call that gets memory, which is quick, but its thread may have to
// wait for a processor; for one that may wait for the device, or for a compiler; and for one that
// has given memory away and is about to return.
struct Patience {
  CallLock::Clock::duration quick = std::chrono::seconds(1);
  CallLock::Clock::duration may_wait = std::chrono::milliseconds(50);
  CallLock::Clock::duration free = std::chrono::seconds(10);
};

class MemoryOrder {
 public:
  explicit MemoryOrder(CallLock& lock, Patience patience = {}) : lock_(lock), patience_(patience) {}

  enum class Kind : uint8_t { kQuick, kMayWait };
  // Before the call, and after it; the number goes from one to the other.
  uint64_t begin(Kind kind);
  void end(uint64_t number);

  // Memory that is being given back is another thread's as soon as the driver says so: the journal
  // must have the freeing first.
  void begin_free(uint64_t address, uint64_t size) { being_freed_[address] = size; }
  void end_free(uint64_t address);
  void wait_for_frees(uint64_t address, uint64_t size);

 private:
  struct Call {
    uint64_t number = 0;
    CallLock::Clock::time_point patience;  // nobody waits for it any longer
  };

  CallLock& lock_;
  const Patience patience_;
  std::condition_variable changed_;
  std::vector<Call> calls_;  // being made
  uint64_t count_ = 0;
  std::map<uint64_t, uint64_t> being_freed_;  // address -> size
};

// In a replay: memory that the driver gave at the address that another call of the recording got.
class SurplusAllocations {
 public:
  struct Memory {
    uint64_t size = 0;
    MemoryKind kind = MemoryKind::kDevice;
    HookId hook{};  // the call that got it
    bool operator==(const Memory&) const = default;
  };

  void keep(uint64_t address, Memory memory) { kept_[address] = memory; }
  // Whether there was such memory; it is the caller's now.
  bool take(uint64_t address, Memory memory);
  // All that is left is the caller's.
  std::map<uint64_t, Memory> take_all() { return std::exchange(kept_, {}); }

 private:
  std::map<uint64_t, Memory> kept_;
};

}  // namespace gpusnap
