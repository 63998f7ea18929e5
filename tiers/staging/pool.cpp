#include "tiers/staging/pool.h"

#include <algorithm>
#include <optional>
#include <string>

namespace gpusnap {

namespace {
// A wait is interrupted so often to see whether a server still empties slots.
constexpr std::chrono::nanoseconds kLongestWaitUnwatched = std::chrono::milliseconds(200);
}  // namespace

StagingPool::StagingPool(StagingMemory& memory, StagingClient& client, ServerWatch& watch)
    : memory_(memory), client_(client), watch_(watch), slots_(memory.slots().size()) {
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    slots_[index] = {memory.bytes(index).data(), slot_bytes(), 0, index};
  }
}

Result<Slot*> StagingPool::acquire(std::chrono::nanoseconds longest) {
  using Steady = std::chrono::steady_clock;
  const bool waits = longest > std::chrono::nanoseconds(0);
  const auto busy = [&] {
    return Status(Code::kBusy, "no staging memory came free within " +
                                   std::to_string(longest / std::chrono::milliseconds(1)) + " ms");
  };
  if (!waits && waiting_.load(std::memory_order_acquire) != 0) return busy();
  std::optional<Claim> claim;
  if (waits) claim.emplace(*this);
  const auto deadline = Steady::now() + longest;
  Result<Slot*> result = busy();
  for (auto left = longest;; left = deadline - Steady::now()) {
    const Result<uint32_t> slot =
        client_.claim(std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0),
                                                           kLongestWaitUnwatched),
                      preferred_.load(std::memory_order_relaxed));
    if (slot.ok()) result = &slots_[slot.value()];
    if (result.ok()) break;
    // For who does not wait, too, but comes again and again: there may be nobody else.
    if (Status served = watch_.look(); !served.ok()) {
      result = served;
      break;
    }
    if (left <= kLongestWaitUnwatched) break;
  }
  if (result.ok()) result.value()->used = 0;
  return result;
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

void StagingPool::hand_over(uint32_t stream, Slot* slot, std::span<const Piece> pieces) {
  client_.hand_over(stream, slot->index, slot->used, pieces);
}

}  // namespace gpusnap
