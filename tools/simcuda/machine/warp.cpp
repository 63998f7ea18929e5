#include "tools/simcuda/machine/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "tools/simcuda/machine/block.h"
#include "tools/simcuda/machine/built_in.h"
#include "tools/simcuda/machine/places.h"

namespace simcuda {
namespace {

constexpr size_t kAlign = 64;
constexpr uint32_t kNoLimit = UINT32_MAX;
constexpr uint32_t kDeepestCall = 4096;
// A group that could run but has not for so many operations of its warp gets a turn out of order.
// The wait is long because on hardware lanes do not run ahead of those that they are to meet.
constexpr uint64_t kLongestWait = 1'000'000;
// How often a group that waits looks again before others of its warp have waited too long. Other
// warps run in between, so this is enough for whole blocks that wait for one another.
constexpr uint64_t kLooks = 200;
constexpr uint64_t kTurn = 2000;

uint32_t predicate(const WarpView& w, int32_t slot) {
  uint32_t value = 0;
  std::memcpy(&value, (slot < 0 ? w.constants : w.registers) + slot, sizeof value);
  return value;
}

template <class T>
T lane(const WarpView& w, int32_t slot, uint32_t i) {
  T value;
  std::memcpy(&value, (slot < 0 ? w.constants : w.registers) + slot + int64_t{i} * sizeof(T),
              sizeof value);
  return value;
}

void enter(Warp& w, const Frame& frame) {
  w.registers = frame.registers;
  w.constants = frame.code->constant_bytes.data() + frame.code->constant_bytes.size();
  w.frame_base = frame.local_base;
}

Stop fault(Warp& w, const Group& g, Fault::Kind kind, std::string reason) {
  w.fault_code = g.frame->code;
  w.fault_op = &g.frame->code->ops[g.next];
  w.fault_kind = kind;
  w.fault_reason = std::move(reason);
  return Stop::kFault;
}

Stop access_fault(Warp& w, const Group& g) {
  switch (w.fault) {
    case AccessFault::kMisaligned:
      return fault(w, g, Fault::Kind::kMisalignedAddress, std::move(w.fault_reason));
    case AccessFault::kStackOverflow:
      return fault(w, g, Fault::Kind::kStackOverflow, std::move(w.fault_reason));
    default:
      return fault(w, g, Fault::Kind::kIllegalAddress, std::move(w.fault_reason));
  }
}

void leave_frames(Warp& w, Frame* frame, uint32_t lanes) {
  while (frame != nullptr) {
    Frame* caller = frame->caller;
    frame->lanes &= ~lanes;
    if (frame->lanes == 0) w.frames->give(frame);
    frame = caller;
  }
}

// Takes `lanes` out of group `index` into one of their own.
size_t split(Warp& w, size_t index, uint32_t lanes) {
  if (w.groups[index].mask == lanes) return index;
  Group part = w.groups[index];
  part.mask = lanes;
  w.groups[index].mask &= ~lanes;
  w.groups.push_back(part);
  return w.groups.size() - 1;
}

// Lanes that do not take part in the operation go on to the next.
size_t split_guarded(Warp& w, size_t index, uint32_t lanes) {
  const size_t mine = split(w, index, lanes);
  if (mine != index) ++w.groups[index].next;
  return mine;
}

void exit_lanes(Warp& w, size_t index, uint32_t lanes) {
  const size_t mine = split_guarded(w, index, lanes);
  w.live &= ~lanes;
  leave_frames(w, w.groups[mine].frame, lanes);
  w.groups.erase(w.groups.begin() + static_cast<ptrdiff_t>(mine));
  // Groups that wait for these lanes must look again.
  for (Group& g : w.groups) {
    if (g.state == Group::State::kAtSync) g.state = Group::State::kReady;
  }
  w.block->lanes_exited();
}

// One argument or result. Registers are in the frames' registers, the rest in local memory.
void copy_place(Warp& w, const Frame& from, const Place& source, const Frame& to,
                const Place& target, uint32_t lanes) {
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(left));
    const std::byte* a = place_in(w, from, source, i);
    std::memmove(result_in(w, to, target, i), a, std::min(source.size, target.size));
  }
}

bool same_places(const std::vector<Place>& a, const std::vector<Place>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Place& x, const Place& y) { return x.size == y.size; });
}

// Runs one warp for one turn.
class Turn {
 public:
  Turn(Warp& warp, uint64_t budget) : w_(warp), budget_(budget) {}
  Stop run();
  uint64_t instructions() const { return instructions_; }
  uint64_t operations() const { return done_; }

 private:
  bool choose(size_t* index);
  void merge();
  uint32_t limit_for(size_t index) const;
  void look_for_starving();
  void wait();
  // These return false on a fault; then the warp says what it was.
  bool execute(size_t index, uint32_t limit);
  bool control(size_t index, const Op& op, uint32_t mask);
  bool branch(size_t index, uint32_t taken, uint32_t target);
  bool branch_index(size_t index, const Op& op, uint32_t mask);
  bool call(size_t index, const Op& op, uint32_t mask);
  bool call_built_in(size_t index, const CallSite& site, BuiltIn which);
  bool enter_function(size_t index, const CallSite& site, const CodeFunction& target);
  void give_back(size_t index, uint32_t mask);
  void barrier(size_t index, const Op& op, uint32_t mask);
  void sync(size_t index, const Op& op, uint32_t mask);
  bool aligned(size_t index, const Op& op, uint32_t mask);
  bool fail(size_t index, Fault::Kind kind, std::string reason) {
    const Group& g = w_.groups[index];
    w_.fault_lane = static_cast<uint32_t>(std::countr_zero(g.mask));
    fault(w_, g, kind, std::move(reason));
    return false;
  }

  Warp& w_;
  uint64_t budget_;
  uint64_t instructions_ = 0;
  uint64_t done_ = 0;
  bool yielded_ = false;
};

// A group that waits at a barrier, or for lanes that it has named, is found there.
bool waits_for_members(const Group& g) {
  return g.state == Group::State::kAtBarrier ||
         (g.state == Group::State::kAtSync && g.members != 0);
}

// Groups at one place of one call become one.
void Turn::merge() {
  for (size_t i = 0; i < w_.groups.size(); ++i) {
    for (size_t k = i + 1; k < w_.groups.size();) {
      Group& a = w_.groups[i];
      const Group& b = w_.groups[k];
      if (a.frame != b.frame || a.next != b.next || waits_for_members(a) || waits_for_members(b)) {
        ++k;
        continue;
      }
      a.mask |= b.mask;
      a.state = Group::State::kReady;
      a.last_run = std::min(a.last_run, b.last_run);
      w_.taking_turns = false;
      if (w_.favoured < kLanes && ((a.mask >> w_.favoured) & 1)) w_.favoured = kLanes;
      w_.groups.erase(w_.groups.begin() + static_cast<ptrdiff_t>(k));
    }
  }
}

bool Turn::choose(size_t* index) {
  bool found = false;
  for (size_t i = 0; i < w_.groups.size(); ++i) {
    const Group& g = w_.groups[i];
    if (g.state != Group::State::kReady) continue;
    if (w_.favoured < kLanes && ((g.mask >> w_.favoured) & 1)) {
      *index = i;
      return true;
    }
    if (found) {
      const Group& best = w_.groups[*index];
      const bool better = g.frame->depth != best.frame->depth ? g.frame->depth > best.frame->depth
                                                              : g.next < best.next;
      if (!better) continue;
    }
    *index = i;
    found = true;
  }
  w_.favoured = kLanes;
  return found;
}

// Where the group must stop to meet another.
uint32_t Turn::limit_for(size_t index) const {
  uint32_t limit = kNoLimit;
  const Group& g = w_.groups[index];
  for (size_t i = 0; i < w_.groups.size(); ++i) {
    const Group& other = w_.groups[i];
    if (i != index && other.frame == g.frame && other.next > g.next) {
      limit = std::min(limit, other.next);
    }
  }
  return limit;
}

// Gives the group that has waited longest a turn out of order if that was too long. From then on
// groups take turns until some of them meet: the one that ran may wait for the others.
void Turn::look_for_starving() {
  const uint64_t longest = w_.taking_turns ? kTurn : kLongestWait;
  w_.next_look = w_.elapsed + kTurn;
  w_.favoured = kLanes;
  const Group* starving = nullptr;
  for (Group& g : w_.groups) {
    if (g.state != Group::State::kReady) {
      g.last_run = w_.elapsed;  // nobody keeps it from running
    } else if (w_.elapsed - g.last_run >= longest &&
               (starving == nullptr || g.last_run < starving->last_run)) {
      starving = &g;
    }
  }
  if (starving == nullptr) return;
  w_.favoured = static_cast<uint32_t>(std::countr_zero(starving->mask));
  w_.taking_turns = true;
}

// The group can only look again. Its wait may be ended by another warp, which runs first,
// or by a group of this one, which has its turn after some looks in vain.
void Turn::wait() {
  w_.elapsed += kLongestWait / kLooks;
  yielded_ = true;
}

Stop Turn::run() {
  while (!w_.groups.empty()) {
    if (w_.groups.size() > 1) merge();
    size_t index = 0;
    if (!choose(&index)) return Stop::kBlocked;
    const uint32_t limit = w_.groups.size() > 1 ? limit_for(index) : kNoLimit;
    if (!execute(index, limit)) return Stop::kFault;
    if (w_.groups.size() < 2) {
      w_.favoured = kLanes;
      w_.taking_turns = false;
    } else if (w_.elapsed >= w_.next_look) {
      look_for_starving();
    }
    if (w_.groups.empty()) break;
    if (done_ >= budget_ || yielded_) return Stop::kBudget;
  }
  return Stop::kDone;
}

// Runs a group until it branches among others, meets one, waits, or has used up the turn.
bool Turn::execute(size_t index, uint32_t limit) {
  Group& g = w_.groups[index];
  const bool alone = w_.groups.size() == 1;
  const uint32_t mask = g.mask;
  const Op* ops = g.frame->code->ops.data();
  uint32_t next = g.next;
  uint64_t count = 0;
  const uint64_t most = budget_ > done_ ? budget_ - done_ : 1;
  enter(w_, *g.frame);
  const auto leave = [&] {
    g.next = next;
    done_ += count;
    w_.elapsed += count;
    g.last_run = w_.elapsed;
    instructions_ += count * static_cast<uint64_t>(std::popcount(mask));
  };
  while (next != limit) {
    const Op& op = ops[next];
    uint32_t active = mask;
    ++count;
    if (op.guard != kNoSlot) {
      const uint32_t p = predicate(w_, op.guard);
      active &= op.guard_negated ? ~p : p;
      if (active == 0) {
        ++next;
        continue;
      }
    }
    if (op.kind == OpKind::kPlain) {
      if (!op.run(w_, op, active)) {
        leave();
        access_fault(w_, g);
        return false;
      }
      ++next;
      continue;
    }
    if (op.kind == OpKind::kBranch && active == mask && alone && count < most &&
        (op.target > next || !w_.repetition.due(w_.elapsed + count))) {
      next = op.target;
      continue;
    }
    leave();
    return control(index, op, active);
  }
  leave();
  return true;
}

bool Turn::control(size_t index, const Op& op, uint32_t mask) {
  switch (op.kind) {
    case OpKind::kBranch:
      return branch(index, mask, op.target);
    case OpKind::kBranchIndex:
      return branch_index(index, op, mask);
    case OpKind::kCall:
      return call(index, op, mask);
    case OpKind::kReturn:
      give_back(index, mask);
      return true;
    case OpKind::kExit:
      exit_lanes(w_, index, mask);
      return true;
    case OpKind::kBarrier:
      barrier(index, op, mask);
      return true;
    case OpKind::kWarpSync:
      sync(index, op, mask);
      return true;
    case OpKind::kTrap:
      return fail(split_guarded(w_, index, mask), Fault::Kind::kTrap, "the kernel trapped");
    case OpKind::kAligned:
      return aligned(index, op, mask);
    case OpKind::kYield:
      if (!op.run(w_, op, mask)) {
        access_fault(w_, w_.groups[index]);
        return false;
      }
      ++w_.groups[index].next;
      wait();
      return true;
    case OpKind::kPlain:
      break;
  }
  return true;
}

bool Turn::branch(size_t index, uint32_t taken, uint32_t target) {
  const size_t mine = split_guarded(w_, index, taken);
  Group& g = w_.groups[mine];
  const bool backward = target <= g.next;
  g.next = target;
  if (backward && w_.repetition.due(w_.elapsed) &&
      w_.repetition.seen(*g.frame, target, g.mask, w_.elapsed)) {
    wait();
  }
  return true;
}

bool Turn::branch_index(size_t index, const Op& op, uint32_t mask) {
  const std::vector<uint32_t>& targets = w_.groups[index].frame->code->branch_targets[op.target];
  size_t mine = split_guarded(w_, index, mask);
  while (true) {
    const uint32_t rest = w_.groups[mine].mask;
    const auto first = static_cast<uint32_t>(std::countr_zero(rest));
    const auto number = lane<uint32_t>(w_, op.slot[1], first);
    if (number >= targets.size()) {
      return fail(mine, Fault::Kind::kIllegalInstruction, "the branch index is beyond the list");
    }
    uint32_t same = 0;
    for (uint32_t left = rest; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(left));
      if (lane<uint32_t>(w_, op.slot[1], i) == number) same |= 1u << i;
    }
    const size_t part = split(w_, mine, same);
    w_.groups[part].next = targets[number];
    if (part == mine) return true;
  }
}

bool Turn::call(size_t index, const Op& op, uint32_t mask) {
  const Code& code = *w_.block->context().code;
  const CallSite& site = w_.groups[index].frame->code->calls[op.target];
  if (site.function != UINT32_MAX) {
    const CodeFunction& target = code.functions[site.function];
    const size_t mine = split_guarded(w_, index, mask);
    if (target.decoded) return enter_function(mine, site, target);
    return call_built_in(mine, site, *built_in_named(target.source->name));
  }
  // Only the lanes that call the same function go in together.
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  const auto address = lane<uint64_t>(w_, site.address_slot, first);
  uint32_t same = 0;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(left));
    if (lane<uint64_t>(w_, site.address_slot, i) == address) same |= 1u << i;
  }
  const CodeFunction* target = code.function_at(address);
  if (target == nullptr || target->source->is_kernel) {
    return fail(index, Fault::Kind::kIllegalInstruction, "a call to what is not a function");
  }
  if (!same_places(site.arguments, target->parameters) ||
      !same_places(site.results, target->results)) {
    return fail(index, Fault::Kind::kIllegalInstruction,
                "the function called does not have the prototype's parameters");
  }
  const size_t callers = mask == same ? split_guarded(w_, index, mask) : split(w_, index, same);
  return enter_function(callers, site, *target);
}

bool Turn::call_built_in(size_t index, const CallSite& site, BuiltIn which) {
  Group& g = w_.groups[index];
  const BuiltInFault fault = run_built_in(w_, g, site, which);
  if (fault.kind != Fault::Kind::kNone) return fail(index, fault.kind, fault.reason);
  ++g.next;
  return true;
}

bool Turn::enter_function(size_t index, const CallSite& site, const CodeFunction& target) {
  Group& g = w_.groups[index];
  const Frame& caller = *g.frame;
  const uint64_t base = caller.local_base + caller.code->frame_bytes;
  if (caller.depth >= kDeepestCall || base + target.frame_bytes > w_.local_bytes) {
    return fail(index, Fault::Kind::kStackOverflow, "the call stack is full");
  }
  Frame* frame = w_.frames->take(target);
  frame->caller = g.frame;
  frame->local_base = base;
  frame->return_to = g.next + 1;
  frame->lanes = g.mask;
  frame->depth = caller.depth + 1;
  for (size_t i = 0; i < site.arguments.size(); ++i) {
    copy_place(w_, caller, site.arguments[i], *frame, target.parameters[i], g.mask);
  }
  g.frame = frame;
  g.next = 0;
  return true;
}

void Turn::give_back(size_t index, uint32_t mask) {
  const size_t mine = split_guarded(w_, index, mask);
  Group& g = w_.groups[mine];
  Frame* frame = g.frame;
  Frame* caller = frame->caller;
  const Op& op = caller->code->ops[frame->return_to - 1];
  const CallSite& site = caller->code->calls[op.target];
  for (size_t i = 0; i < site.results.size(); ++i) {
    copy_place(w_, *frame, frame->code->results[i], *caller, site.results[i], mask);
  }
  g.frame = caller;
  g.next = frame->return_to;
  frame->lanes &= ~mask;
  if (frame->lanes == 0) w_.frames->give(frame);
}

void Turn::barrier(size_t index, const Op& op, uint32_t mask) {
  const size_t mine = split_guarded(w_, index, mask);
  Group& g = w_.groups[mine];
  w_.block->arrive(w_, g, g.frame->code->barriers[op.target]);
}

void Turn::sync(size_t index, const Op& op, uint32_t mask) {
  size_t mine = split_guarded(w_, index, mask);
  uint32_t members = mask;
  if (op.slot[5] != kNoSlot) {
    // Lanes that name different members do it apart, one after the other.
    const auto first = static_cast<uint32_t>(std::countr_zero(mask));
    const auto named = lane<uint32_t>(w_, op.slot[5], first);
    uint32_t same = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(left));
      if (lane<uint32_t>(w_, op.slot[5], i) == named) same |= 1u << i;
    }
    mine = split(w_, mine, same);
    members = (named & w_.live) | same;
  }
  Group& g = w_.groups[mine];
  g.members = members;
  std::vector<Group*> participants;
  uint32_t there = 0;
  for (Group& other : w_.groups) {
    const bool waits = other.state == Group::State::kAtSync && other.members == members &&
                       other.frame->code->ops[other.next].code == op.code;
    if (&other != &g && !waits) continue;
    participants.push_back(&other);
    there |= other.mask;
  }
  if (there != members) {
    g.state = Group::State::kAtSync;
    return;
  }
  synchronise(w_, participants);
  for (Group* p : participants) {
    p->state = Group::State::kReady;
    ++p->next;
  }
}

// Groups that come to one place become one there: the last lane's coming makes it whole.
bool Turn::aligned(size_t index, const Op& op, uint32_t mask) {
  Group& g = w_.groups[index];
  if (mask != w_.live) {
    if (g.mask != mask) {
      return fail(index, Fault::Kind::kIllegalInstruction,
                  "not all threads of the warp do it, as they must");
    }
    g.state = Group::State::kAtSync;
    g.members = 0;  // no part of any other synchronisation
    return true;
  }
  if (mask != kAllLanes) {
    return fail(index, Fault::Kind::kIllegalInstruction, "it needs all 32 threads of the warp");
  }
  if (!op.run(w_, op, mask)) {
    access_fault(w_, g);
    return false;
  }
  ++g.next;
  return true;
}

}  // namespace

void FramePool::Entry::Free::operator()(std::byte* p) const {
  ::operator delete[](p, std::align_val_t{kAlign});
}

// Registers are zero at the start, so that what a kernel reads does not depend on what ran before.
Frame* FramePool::take(const CodeFunction& code) {
  Entry* entry = nullptr;
  const uint64_t bytes = std::max<uint64_t>(code.register_bytes, kAlign);
  if (!free_.empty()) {
    entry = free_.back();
    free_.pop_back();
  } else {
    entry = all_.emplace_back(std::make_unique<Entry>()).get();
  }
  if (entry->bytes < bytes) {
    entry->memory.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlign})));
    entry->bytes = bytes;
  }
  std::memset(entry->memory.get(), 0, bytes);
  entry->frame = {};
  entry->frame.code = &code;
  entry->frame.registers = entry->memory.get();
  entry->frame.owner = entry;
  return &entry->frame;
}

void FramePool::give(Frame* frame) {
  free_.push_back(static_cast<Entry*>(frame->owner));
}

Stop run_warp(Warp& warp, uint64_t budget, uint64_t* instructions, uint64_t* operations) {
  Turn turn(warp, budget);
  const Stop stop = turn.run();
  *instructions += turn.instructions();
  *operations += turn.operations();
  return stop;
}

}  // namespace simcuda
