// A staging area of a test's own, with all that a StagingPool needs.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "tiers/staging/pool.h"

namespace gpusnap::test {

class StagingArea {
 public:
  explicit StagingArea(size_t slot_bytes = 4096, size_t bytes = 16384) {
    auto made = StagingMemory::make_private({slot_bytes, bytes});
    if (!made.ok() || made.value()->grow(UINT32_MAX) == 0) std::abort();
    memory = std::move(made.value());
    auto joined = StagingClient::join(*memory);
    if (!joined.ok()) std::abort();
    client = std::move(joined.value());
    watch = std::make_unique<ServerWatch>(*memory);
    pool = std::make_unique<StagingPool>(*memory, *client, *watch);
  }
  size_t free_slots() const {
    size_t count = 0;
    for (const SlotEntry& slot : memory->slots()) {
      count += slot.word.load().state == SlotState::kFree ? 1 : 0;
    }
    return count;
  }

  std::unique_ptr<StagingMemory> memory;
  std::unique_ptr<StagingClient> client;
  std::unique_ptr<ServerWatch> watch;
  std::unique_ptr<StagingPool> pool;
};

}  // namespace gpusnap::test
