// SPDX-License-Identifier: Apache-2.0
//
// The memory of a history's caches: one area a tier, allocated once (GPU cache and prefetch paper,
// section 4.1.4). The host's area is pinned in the background, from its beginning on, while it is
// in use: pinning is slower than what is to be copied meanwhile (SC'22 showcase, slides 30 to 37).
// Other threads make its pages ahead of that.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tiers/history/tier_cache.h"
#include "tiers/spawn.h"
#include "tools/veloc/config.h"
#include "tools/veloc/memory.h"
#include "tools/veloc/mover.h"

namespace gpusnap::veloc {

class Caches {
 public:
  // Sizes are those of the configuration, or by default: of the device 4 GiB or a tenth of its
  // memory, of the host 32 GiB or an eighth of its memory, whatever is less. Without a device, or
  // without room on it, there is only the host's. `memory` outlives it.
  static Result<std::unique_ptr<Caches>> create(const Config& config, Memory& memory);
  Caches(const Caches&) = delete;
  Caches& operator=(const Caches&) = delete;
  ~Caches();

  const std::vector<Area>& areas() const { return areas_; }
  const std::vector<history::TierCache::Options>& options() const { return options_; }

 private:
  explicit Caches(Memory& memory) : memory_(memory) {}
  void add_device(uint64_t bytes, history::Evictor evictor);
  Status add_host(uint64_t bytes, history::Evictor evictor);
  void pin_host();

  Memory& memory_;
  std::vector<Area> areas_;
  std::vector<history::TierCache::Options> options_;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  uint64_t host_bytes_ = 0;
  std::atomic<bool> is_ending_{false};
  uint64_t pinned_ = 0;  // bytes from the area's beginning; the pinning thread's
  Join pinning_;
};

}  // namespace gpusnap::veloc
