// SPDX-License-Identifier: Apache-2.0
//
// Host memory, reserved when the history starts, through which bytes pass between files and device
// memory. One thread's own, so that no transfer waits for another one's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tiers/store.h"
#include "tools/veloc/memory.h"

namespace gpusnap::veloc {

// Thread-safe.
class BounceBuffers final : public ReadBuffers {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;
  static constexpr size_t kCount = 4;

  // Pins them if `memory` has a device, which outlives them.
  static Result<std::unique_ptr<BounceBuffers>> create(Memory& memory);
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;
  ~BounceBuffers() override;

  size_t bytes() const override { return kBytes; }
  // With `wait`, of the reader, nobody else gives one back, so that there is one.
  Result<std::byte*> take(bool wait) override;
  void give_back(std::byte* buffer) override;
  // Waits until there is one.
  std::byte* take_when_free();

 private:
  BounceBuffers(Memory& memory, std::byte* all, bool is_pinned);

  Memory& memory_;
  std::byte* const all_;
  const bool is_pinned_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::byte*> free_;
};

}  // namespace gpusnap::veloc
