// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "interpose/services/call_site.h"
#include "tracker/memory_map.h"

namespace gpusnap {

// Identifies allocations across runs: by the call site, and the ordinal among the allocations of
// that site. The session's lock guards it.
class AllocationIdentities {
 public:
  // `own_address`: as CallSites has it.
  explicit AllocationIdentities(const void* own_address) : sites_(own_address) {}
  // The identity of the allocation that the calling thread is making.
  Identity next() {
    Identity identity;
    identity.call_site = sites_.here();
    identity.ordinal = uses_[identity.call_site]++;
    return identity;
  }

 private:
  CallSites sites_;
  std::map<uint64_t, uint32_t> uses_;
};

}  // namespace gpusnap
