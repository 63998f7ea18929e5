// SPDX-License-Identifier: Apache-2.0
//
// A backend's counters in the form in which the staging area shows them to observers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tiers/backend/backend.h"
#include "tiers/placement/placement.h"
#include "tiers/staging/layout.h"

namespace gpusnap {

inline BackendReport report_of(const BackendCounters& now, const Placement& placement,
                               uint64_t chunk_bytes) {
  BackendReport report;
  report.chunk_bytes = chunk_bytes;
  report.checkpoints = now.checkpoints;
  report.journals = now.journals;
  report.committed = now.committed;
  report.failed = now.failed;
  report.waiting = now.waiting;
  report.flushes = now.flushes;
  if (placement.has_flushed()) {
    report.flush_bytes_per_second = static_cast<uint64_t>(now.flush_bandwidth);
  }
  report.tiers = std::min(now.tiers.size(), kMostTiersTold);
  for (size_t i = 0; i < report.tiers; ++i) {
    const TierCounters& tier = now.tiers[i];
    TierReport& told = report.tier[i];
    told.writing = tier.writing;
    told.waiting = tier.waiting;
    told.flushing = tier.flushing;
    told.capacity = placement.local(i).capacity_chunks;
    if (i > 0) placement.local(i).name.copy(told.folder, kTierText - 1);
  }
  return report;
}

}  // namespace gpusnap
