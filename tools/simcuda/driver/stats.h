// Counts what the process did, in counters that another process can read at any time.
//
// SIMCUDA_STATS names a file of little-endian 64-bit counters, mapped shared, so that it is right
// up to the last instruction even when the process is killed. Processes that name the same file add
// up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/simcuda/driver/engine_settings.h"
#include "tools/simcuda/machine.h"

namespace simcuda {

// The file, byte for byte. Offsets are documented in tools/simcuda/README.md and never change; new
// counters go to the end.
struct Stats {
  Counters machine;                              // 0: launches, 8: thread instructions
  std::atomic<uint64_t> bytes_to_device{0};      // 16
  std::atomic<uint64_t> bytes_from_device{0};    // 24
  std::atomic<uint64_t> bytes_within_device{0};  // 32
  std::atomic<uint64_t> bytes_set{0};            // 40
  std::atomic<uint64_t> allocations{0};     // 48: device and managed memory, by successful calls
  std::atomic<uint64_t> frees{0};           // 56
  std::atomic<uint64_t> modules_loaded{0};  // 64
  std::atomic<uint64_t> faults{0};          // 72: contexts lost to a fault
  // Nanoseconds of the virtual clock: until the last operation ended, and that each engine of all
  // devices was busy, in the order of Engine.
  std::atomic<uint64_t> virtual_nanoseconds{0};        // 80
  std::array<std::atomic<uint64_t>, kEngines> busy{};  // 88, 96, 104, 112
  std::atomic<uint64_t> kernels{0};                    // 120: that have begun to run at least once
  std::atomic<uint64_t> heap_left{0};  // 128: launches with memory of the kernels' heap after them
};
static_assert(sizeof(Stats) == 136 && offsetof(Stats, bytes_to_device) == 16);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The process's counters: in `file` when it is not empty, else in plain memory. Never freed. Null,
// with one line in `error`, when the file cannot be made or mapped.
Stats* open_stats(const std::string& file, std::string* error);

}  // namespace simcuda
