// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/pool.h"

#include <algorithm>
#include <optional>
#include <string>

namespace gpusnap {

namespace {
// The interval at which a wait checks whether a server still empties slots.
constexpr std::chrono::nanoseconds kLongestWaitUnwatched = std::chrono::milliseconds(200);
}  // namespace

StagingPool::StagingPool(StagingMemory& memory, StagingClient& client, ServerWatch& watch)
    : memory_(memory),
      client_(client),
      watch_(watch),
      slots_(memory.slots().size()),
      standing_place_(client.place()) {
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    slots_[index] = {memory.bytes(index).data(), slot_bytes(), 0, index};
  }
}

Result<Slot*> StagingPool::acquire(std::chrono::nanoseconds longest) {
  using Steady = std::chrono::steady_clock;
  const auto busy = [&] {
    return Status(Code::kBusy, "no staging memory came free within " +
                                   std::to_string(longest / std::chrono::milliseconds(1)) + " ms");
  };
  const bool waits = longest > std::chrono::nanoseconds(0);
  if (!waits && waiting_.load(std::memory_order_acquire) != 0) return busy();
  std::optional<Claim> claim;
  if (waits) claim.emplace(*this);
  PlaceInLine place = waits ? take_standing() : client_.place();
  const auto deadline = Steady::now() + longest;
  for (auto left = longest;; left = deadline - Steady::now()) {
    const auto now = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0),
                                                          kLongestWaitUnwatched);
    const Result<uint32_t> slot =
        waits ? client_.claim(place, now, preferred_.load(std::memory_order_relaxed)) : poll();
    if (slot.ok()) {
      slots_[slot.value()].used = 0;
      return &slots_[slot.value()];
    }
    // Also for a caller that does not wait but polls: there may be no other caller.
    if (Status served = watch_.look(); !served.ok()) return served;
    if (left <= kLongestWaitUnwatched) return busy();
  }
}

Result<uint32_t> StagingPool::poll() {
  const MutexLock lock(standing_mutex_);
  const auto try_now = [&]() REQUIRES(standing_mutex_) {
    return client_.claim(standing_place_, std::chrono::nanoseconds(0),
                         preferred_.load(std::memory_order_relaxed));
  };
  Result<uint32_t> slot = try_now();
  const bool lines_up = !slot.ok() && standing_ > 0 && !standing_place_.has_ticket();
  // Looks once more with its ticket: a slot may have come free before there was one.
  return lines_up && standing_place_.draw() ? try_now() : slot;
}

// A caller that waits takes over the place of those that do not, so that none keeps a slot that is
// not taken.
PlaceInLine StagingPool::take_standing() {
  const MutexLock lock(standing_mutex_);
  return std::move(standing_place_);
}

void StagingPool::begin_standing() {
  const MutexLock lock(standing_mutex_);
  ++standing_;
}

void StagingPool::end_standing() {
  const MutexLock lock(standing_mutex_);
  if (--standing_ == 0) standing_place_.leave();
}

uint32_t StagingPool::free_slots() const {
  const bool grows = memory_.header().refused.load(std::memory_order_relaxed) == 0;
  const std::span<SlotEntry> entries = memory_.slots();
  return static_cast<uint32_t>(std::ranges::count_if(
      entries.first(grows ? entries.size() : memory_.backed()),
      [](const SlotEntry& slot) { return slot.word.load().state == SlotState::kFree; }));
}

void StagingPool::release(Slot* slot) {
  client_.give_back(slot->index);
}

}  // namespace gpusnap
