// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/status.h"

namespace gpusnap {

// Allocates and maps whole pages of writable memory. Their content does not change, and other
// threads may use them meanwhile. Returns kUnsupported if the system has no call for it (before
// Linux 5.14), kNoSpace if it has no memory. Thread-safe.
Status populate_pages(std::byte* start, uint64_t bytes);

}  // namespace gpusnap
