// Operations that the lanes of a warp do together: shuffles, votes, matches, reductions.
#include <bit>
#include <cstring>

#include "tools/simcuda/machine/warp.h"

namespace simcuda {
namespace {

// Inputs and results of all lanes, gathered from the groups' frames.
struct Exchange {
  uint32_t lanes = 0;
  uint64_t a[kLanes] = {};
  uint32_t b[kLanes] = {};
  uint32_t c[kLanes] = {};
  uint64_t result[kLanes] = {};
  uint32_t predicate = 0;
};

const std::byte* at(const Frame& frame, int32_t slot) {
  const std::byte* constants =
      frame.code->constant_bytes.data() + frame.code->constant_bytes.size();
  return (slot < 0 ? constants : frame.registers) + slot;
}

template <class T>
T value(const Frame& frame, int32_t slot, uint32_t lane) {
  T v;
  std::memcpy(&v, at(frame, slot) + size_t{lane} * sizeof(T), sizeof v);
  return v;
}

uint32_t mask_value(const Frame& frame, int32_t slot) {
  return value<uint32_t>(frame, slot, 0);
}

template <class Visit>
void for_each_lane(uint32_t lanes, const Visit& visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<uint32_t>(std::countr_zero(lanes)));
}

bool is_vote(SyncOp op) {
  return op >= SyncOp::kVoteAll && op <= SyncOp::kVoteBallot;
}
bool is_shuffle(SyncOp op) {
  return op >= SyncOp::kShflUp && op <= SyncOp::kShflIdx;
}

void gather(const Group& g, const Op& op, Exchange& x) {
  x.lanes |= g.mask;
  const Frame& frame = *g.frame;
  const auto code = static_cast<SyncOp>(op.code);
  if (is_vote(code)) {
    uint32_t p = mask_value(frame, op.slot[2]);
    if (op.flags & 1) p = ~p;
    x.predicate |= p & g.mask;
    return;
  }
  if (code == SyncOp::kElect) return;
  for_each_lane(g.mask, [&](uint32_t i) {
    x.a[i] = op.vector == 64 ? value<uint64_t>(frame, op.slot[2], i)
                             : value<uint32_t>(frame, op.slot[2], i);
    if (is_shuffle(code)) {
      x.b[i] = value<uint32_t>(frame, op.slot[3], i);
      x.c[i] = value<uint32_t>(frame, op.slot[4], i);
    }
  });
}

// A lane whose source is out of range, or not there, keeps its own value.
void shuffle(SyncOp code, Exchange& x) {
  for_each_lane(x.lanes, [&](uint32_t lane) {
    const uint32_t segments = x.c[lane] >> 8 & 31;
    const uint32_t clamp = x.c[lane] & 31;
    const uint32_t b = x.b[lane] & 31;
    const uint32_t last = (lane & segments) | (clamp & ~segments);
    const uint32_t first = lane & segments;
    int32_t from = static_cast<int32_t>(lane);
    bool in_range = false;
    switch (code) {
      case SyncOp::kShflUp:
        from -= static_cast<int32_t>(b);
        in_range = from >= static_cast<int32_t>(last);
        break;
      case SyncOp::kShflDown:
        from += static_cast<int32_t>(b);
        in_range = from <= static_cast<int32_t>(last);
        break;
      case SyncOp::kShflBfly:
        from = static_cast<int32_t>(lane ^ b);
        in_range = from <= static_cast<int32_t>(last);
        break;
      default:
        from = static_cast<int32_t>(first | (b & ~segments));
        in_range = from <= static_cast<int32_t>(last);
        break;
    }
    if (in_range) x.predicate |= 1u << lane;
    const auto source = static_cast<uint32_t>(from) & 31;
    const bool there = in_range && ((x.lanes >> source) & 1);
    x.result[lane] = x.a[there ? source : lane];
  });
}

void vote(SyncOp code, Exchange& x) {
  const uint32_t yes = x.predicate;
  const bool holds = code == SyncOp::kVoteAll   ? yes == x.lanes
                     : code == SyncOp::kVoteAny ? yes != 0
                                                : yes == 0 || yes == x.lanes;
  x.predicate = holds ? UINT32_MAX : 0;
  for_each_lane(x.lanes, [&](uint32_t i) { x.result[i] = yes; });
}

void match(SyncOp code, Exchange& x) {
  uint32_t all = x.lanes;
  for_each_lane(x.lanes, [&](uint32_t i) {
    uint32_t same = 0;
    for_each_lane(x.lanes, [&](uint32_t k) { same |= (x.a[k] == x.a[i] ? 1u : 0u) << k; });
    x.result[i] = same;
    all &= same;
  });
  if (code == SyncOp::kMatchAny) return;
  const bool holds = all == x.lanes;
  x.predicate = holds ? UINT32_MAX : 0;
  for_each_lane(x.lanes, [&](uint32_t i) { x.result[i] = holds ? x.lanes : 0; });
}

uint32_t combined(SyncOp code, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a);
  const auto sb = static_cast<int32_t>(b);
  switch (code) {
    case SyncOp::kReduceAdd:
      return a + b;
    case SyncOp::kReduceMin:
      return a < b ? a : b;
    case SyncOp::kReduceMax:
      return a > b ? a : b;
    case SyncOp::kReduceMinSigned:
      return sa < sb ? a : b;
    case SyncOp::kReduceMaxSigned:
      return sa > sb ? a : b;
    case SyncOp::kReduceAnd:
      return a & b;
    case SyncOp::kReduceOr:
      return a | b;
    default:
      return a ^ b;
  }
}

void reduce(SyncOp code, Exchange& x) {
  const auto first = static_cast<uint32_t>(std::countr_zero(x.lanes));
  auto total = static_cast<uint32_t>(x.a[first]);
  for_each_lane(x.lanes & ~(1u << first),
                [&](uint32_t i) { total = combined(code, total, static_cast<uint32_t>(x.a[i])); });
  for_each_lane(x.lanes, [&](uint32_t i) { x.result[i] = total; });
}

void set_predicate(const Frame& frame, int32_t slot, uint32_t value, uint32_t lanes) {
  uint32_t p = mask_value(frame, slot);
  p = (p & ~lanes) | (value & lanes);
  std::memcpy(frame.registers + slot, &p, sizeof p);
}

void scatter(const Group& g, const Op& op, const Exchange& x) {
  const auto code = static_cast<SyncOp>(op.code);
  const Frame& frame = *g.frame;
  if (is_vote(code) && code != SyncOp::kVoteBallot) {
    set_predicate(frame, op.slot[0], x.predicate, g.mask);
    return;
  }
  if (op.slot[0] != kNoSlot) {
    for_each_lane(g.mask, [&](uint32_t i) {
      const auto v = static_cast<uint32_t>(x.result[i]);
      std::memcpy(frame.registers + op.slot[0] + size_t{i} * sizeof v, &v, sizeof v);
    });
  }
  if (op.slot[1] != kNoSlot) set_predicate(frame, op.slot[1], x.predicate, g.mask);
}

}  // namespace

void synchronise(Warp&, const std::vector<Group*>& participants) {
  const Group& first = *participants.front();
  const auto code = static_cast<SyncOp>(first.frame->code->ops[first.next].code);
  if (code == SyncOp::kBarrier) return;
  Exchange x;
  for (const Group* g : participants) gather(*g, g->frame->code->ops[g->next], x);
  if (is_shuffle(code)) {
    shuffle(code, x);
  } else if (is_vote(code)) {
    vote(code, x);
  } else if (code == SyncOp::kElect) {
    x.predicate = x.lanes & (~x.lanes + 1);
    for_each_lane(x.lanes, [&](uint32_t i) {
      x.result[i] = static_cast<uint64_t>(std::countr_zero(x.lanes));
    });
  } else if (code == SyncOp::kMatchAny || code == SyncOp::kMatchAll) {
    match(code, x);
  } else {
    reduce(code, x);
  }
  for (const Group* g : participants) scatter(*g, g->frame->code->ops[g->next], x);
}

}  // namespace simcuda
