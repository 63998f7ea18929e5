// Copies of many pieces of device memory, asked of the driver in as few calls as it allows: what a
// copy takes besides its bytes is what the program waits for where scattered zones are saved before
// a call.
#pragma once

#include <cstdint>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

// A run of zones from this size on has a copy of its own, which runs at full bandwidth (section
// 4.3.1, figure 9).
#ifdef GPUSNAP_ORACLE
inline constexpr uint64_t kLargeRun = 16 << 10;  // random programs have little memory
#else
inline constexpr uint64_t kLargeRun = 512 << 10;
#endif

struct ZoneCopy {
  uint64_t to = 0;
  uint64_t from = 0;
  uint64_t size = 0;
  uint32_t range = 0;  // that `from` is in: the driver copies from one allocation at a time
};

enum class CopyTo : uint8_t { kDevice, kHost };

// Enqueues the copies, in any order: none reads what another writes. `from` is device memory, `to`
// what `side` says. Copies within a range whose two ends follow those of the one before become one.
// After an error some may have been enqueued. The stream's context is current; thread-safe.
CUresult copy_zones(const Driver& driver, CopyTo side, std::vector<ZoneCopy> copies,
                    CUstream stream);

}  // namespace gpusnap
