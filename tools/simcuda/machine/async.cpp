#include "tools/simcuda/machine/async.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tools/simcuda/machine/handlers.h"

namespace simcuda {
namespace {

constexpr uint32_t kBarrierBytes = 8;
constexpr uint32_t kBulkUnit = 16;

// The state of a barrier in shared memory, whose 64 bits only these instructions look into.
struct MessageBarrier {
  uint32_t expected = 0;  // arrivals in each phase
  uint32_t pending = 0;   // arrivals that are missing in the current one
  int32_t bytes = 0;      // likewise of copies
  bool odd = false;       // the phase's number

  static constexpr uint32_t kCountBits = 20;
  static constexpr uint64_t kCount = (1u << kCountBits) - 1;
  static constexpr uint32_t kBytesAt = 2 * kCountBits;
  static constexpr uint64_t kBytes = (1u << 23) - 1;

  static MessageBarrier from(uint64_t bits) {
    MessageBarrier b;
    b.expected = static_cast<uint32_t>(bits & kCount);
    b.pending = static_cast<uint32_t>(bits >> kCountBits & kCount);
    // 23 bits with their sign.
    b.bytes = static_cast<int32_t>(static_cast<uint32_t>(bits >> kBytesAt & kBytes) << 9) >> 9;
    b.odd = bits >> 63 != 0;
    return b;
  }
  uint64_t bits() const {
    return (expected & kCount) | (pending & kCount) << kCountBits |
           (static_cast<uint32_t>(bytes) & kBytes) << kBytesAt | uint64_t{odd} << 63;
  }
  void finish_phase() {
    if (pending != 0 || bytes != 0) return;
    odd = !odd;
    pending = expected;
  }
  void arrive(uint32_t count) {
    pending -= std::min(count, pending);
    finish_phase();
  }
  void complete(uint32_t count) {
    bytes -= static_cast<int32_t>(count);
    finish_phase();
  }
};

template <class T>
T lane(const WarpView& w, int32_t slot, uint32_t i) {
  T value;
  std::memcpy(&value, (slot < 0 ? w.constants : w.registers) + slot + size_t{i} * sizeof value,
              sizeof value);
  return value;
}

template <class T>
void set_lane(const WarpView& w, int32_t slot, uint32_t i, T value) {
  std::memcpy(w.registers + slot + size_t{i} * sizeof value, &value, sizeof value);
}

template <class Visit>
void for_each_lane(uint32_t lanes, const Visit& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<uint32_t>(std::countr_zero(lanes)));
}

// An access to where the slot's generic address and `offset` say.
Op access_at(const Op& op, int32_t slot, uint64_t offset, uint32_t side) {
  Op access;
  access.slot[kAddressSlot] = slot;
  access.immediate = static_cast<int64_t>(offset);
  access.code = static_cast<uint8_t>(MemorySpace::kGeneric);
  access.hint = static_cast<uint16_t>(op.hint + side);
  return access;
}

// Does `change` to each lane's barrier.
template <class Change>
bool update(WarpView& w, const Op& op, uint32_t mask, const Change& change) {
  std::byte* at[kLanes];
  if (!handlers().locate(w, op, mask, kBarrierBytes, true, at)) return false;
  for_each_lane(mask, [&](uint32_t i) {
    uint64_t bits = 0;
    std::memcpy(&bits, at[i], sizeof bits);
    MessageBarrier barrier = MessageBarrier::from(bits);
    change(i, bits, barrier);
    bits = barrier.bits();
    std::memcpy(at[i], &bits, sizeof bits);
  });
  return true;
}

template <MessageOp kOp>
bool message_barrier(WarpView& w, const Op& op, uint32_t mask) {
  uint32_t passed = 0;
  const bool ok = update(w, op, mask, [&](uint32_t i, uint64_t bits, MessageBarrier& barrier) {
    const auto count = lane<uint32_t>(w, op.slot[1], kOp == MessageOp::kTestState ? 0 : i);
    switch (kOp) {
      case MessageOp::kInit:
        barrier = {count, count, 0, false};
        return;
      case MessageOp::kInvalidate:
        barrier = {};
        return;
      case MessageOp::kLook:
        return;
      case MessageOp::kExpect:
        barrier.bytes += static_cast<int32_t>(count);
        return;
      case MessageOp::kComplete:
        barrier.complete(count);
        return;
      case MessageOp::kArrive:
        barrier.arrive(count);
        break;
      case MessageOp::kDrop:
        barrier.expected -= std::min(count, barrier.expected);
        barrier.arrive(count);
        break;
      case MessageOp::kArriveExpecting:
        barrier.bytes += static_cast<int32_t>(count);
        barrier.arrive(1);
        break;
      case MessageOp::kDropExpecting:
        barrier.bytes += static_cast<int32_t>(count);
        barrier.expected -= std::min(1u, barrier.expected);
        barrier.arrive(1);
        break;
      case MessageOp::kTestState: {
        const auto state = MessageBarrier::from(lane<uint64_t>(w, op.slot[1], i));
        passed |= uint32_t{state.odd != barrier.odd} << i;
        return;
      }
      case MessageOp::kTestParity:
        passed |= uint32_t{((count & 1) != 0) != barrier.odd} << i;
        return;
    }
    if (op.slot[0] != kNoSlot) set_lane(w, op.slot[0], i, bits);
  });
  if (ok && (kOp == MessageOp::kTestState || kOp == MessageOp::kTestParity)) {
    const auto p = lane<uint32_t>(w, op.slot[0], 0);
    set_lane(w, op.slot[0], 0, (p & ~mask) | passed);
  }
  return ok;
}

bool pending_count(WarpView& w, const Op& op, uint32_t mask) {
  for_each_lane(mask, [&](uint32_t i) {
    const auto state = MessageBarrier::from(lane<uint64_t>(w, op.slot[1], i));
    set_lane(w, op.slot[0], i, state.pending);
  });
  return true;
}

// Less than all of the source: byte by byte, so that nothing beyond it is looked at.
bool copy_some(WarpView& w, const Op& op, const uint32_t (&count)[kLanes], uint32_t mask,
               std::byte* const (&to)[kLanes]) {
  for (uint32_t k = 0; k < op.vector; ++k) {
    uint32_t there = 0;
    for_each_lane(mask, [&](uint32_t i) { there |= uint32_t{count[i] > k} << i; });
    std::byte* from[kLanes];
    if (there != 0 &&
        !handlers().locate(w, access_at(op, op.slot[1], k, 1), there, 1, false, from)) {
      return false;
    }
    for_each_lane(mask,
                  [&](uint32_t i) { to[i][k] = (there >> i & 1) != 0 ? *from[i] : std::byte{0}; });
  }
  return true;
}

bool copy(WarpView& w, const Op& op, uint32_t mask) {
  const uint32_t bytes = op.vector;
  std::byte* to[kLanes];
  if (!handlers().locate(w, access_at(op, op.slot[0], 0, 0), mask, bytes, true, to)) return false;
  uint32_t count[kLanes];
  uint32_t partial = 0;
  for_each_lane(mask, [&](uint32_t i) {
    count[i] = op.slot[2] == kNoSlot ? bytes : std::min(bytes, lane<uint32_t>(w, op.slot[2], i));
    if (op.slot[3] != kNoSlot) {
      const bool p = (lane<uint32_t>(w, op.slot[3], 0) >> i & 1) != 0;
      if (p != (op.code != 0)) count[i] = 0;
    }
    partial |= uint32_t{count[i] != bytes} << i;
  });
  if (partial != 0) return copy_some(w, op, count, mask, to);
  std::byte* from[kLanes];
  if (!handlers().locate(w, access_at(op, op.slot[1], 0, 1), mask, bytes, false, from))
    return false;
  for_each_lane(mask, [&](uint32_t i) { std::memcpy(to[i], from[i], bytes); });
  return true;
}

bool bulk_copy(WarpView& w, const Op& op, uint32_t mask) {
  for (uint32_t done = 0;; done += kBulkUnit) {
    uint32_t left = 0, odd = 0;
    for_each_lane(mask, [&](uint32_t i) {
      const auto bytes = lane<uint32_t>(w, op.slot[2], i);
      left |= uint32_t{bytes > done} << i;
      odd |= uint32_t{bytes % kBulkUnit != 0} << i;
    });
    if (odd != 0) {
      w.fault = AccessFault::kMisaligned;
      w.fault_lane = static_cast<uint32_t>(std::countr_zero(odd));
      w.fault_bytes = lane<uint32_t>(w, op.slot[2], w.fault_lane);
      w.fault_address = lane<uint64_t>(w, op.slot[1], w.fault_lane);
      w.fault_write = false;
      return false;
    }
    if (left == 0) break;
    std::byte *from[kLanes], *to[kLanes];
    const Op source = access_at(op, op.slot[1], done, 1);
    const Op target = access_at(op, op.slot[0], done, 0);
    if (!handlers().locate(w, source, left, kBulkUnit, false, from) ||
        !handlers().locate(w, target, left, kBulkUnit, true, to)) {
      return false;
    }
    for_each_lane(left, [&](uint32_t i) { std::memmove(to[i], from[i], kBulkUnit); });
  }
  if (op.slot[3] == kNoSlot) return true;
  return update(w, access_at(op, op.slot[3], 0, 0), mask,
                [&](uint32_t i, uint64_t, MessageBarrier& barrier) {
                  barrier.complete(lane<uint32_t>(w, op.slot[2], i));
                });
}

}  // namespace

Handler message_barrier_handler(MessageOp op) {
  switch (op) {
    case MessageOp::kInit:
      return message_barrier<MessageOp::kInit>;
    case MessageOp::kInvalidate:
      return message_barrier<MessageOp::kInvalidate>;
    case MessageOp::kLook:
      return message_barrier<MessageOp::kLook>;
    case MessageOp::kExpect:
      return message_barrier<MessageOp::kExpect>;
    case MessageOp::kComplete:
      return message_barrier<MessageOp::kComplete>;
    case MessageOp::kArrive:
      return message_barrier<MessageOp::kArrive>;
    case MessageOp::kDrop:
      return message_barrier<MessageOp::kDrop>;
    case MessageOp::kArriveExpecting:
      return message_barrier<MessageOp::kArriveExpecting>;
    case MessageOp::kDropExpecting:
      return message_barrier<MessageOp::kDropExpecting>;
    case MessageOp::kTestState:
      return message_barrier<MessageOp::kTestState>;
    case MessageOp::kTestParity:
      return message_barrier<MessageOp::kTestParity>;
  }
  return nullptr;
}

Handler pending_count_handler() {
  return pending_count;
}
Handler copy_handler() {
  return copy;
}
Handler bulk_copy_handler() {
  return bulk_copy;
}

}  // namespace simcuda
