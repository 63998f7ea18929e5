// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/status.h"

namespace gpusnap {

// Makes whole pages of writable memory be there; what they hold does not change, and others may use
// them meanwhile. kUnsupported: the system has no call for it (before Linux 5.14). kNoSpace: it has
// no memory for them. Thread-safe.
Status populate_pages(std::byte* start, uint64_t bytes);

}  // namespace gpusnap
