#include "tools/simcuda/machine/block.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

namespace simcuda {
namespace {

uint32_t lane_u32(const Frame& frame, int32_t slot, uint32_t lane) {
  const std::byte* constants =
      frame.code->constant_bytes.data() + frame.code->constant_bytes.size();
  uint32_t value = 0;
  std::memcpy(&value, (slot < 0 ? constants : frame.registers) + slot + size_t{lane} * sizeof value,
              sizeof value);
  return value;
}

}  // namespace

void Block::FreeBytes::operator()(std::byte* p) const {
  std::free(p);
}

Block::Block(LaunchContext& context)
    : context_(context),
      warps_((context.threads + kLanes - 1) / kLanes),
      // A few bytes more, so that there is an address even for none.
      shared_(context.shared_bytes + 16) {
  if (context.local_bytes > 0) {
    // Untouched pages cost nothing, and all of it begins as zero.
    local_.reset(static_cast<std::byte*>(std::calloc(warps_.size() * kLanes, context.local_bytes)));
    if (!local_) throw std::bad_alloc();
  }
  const Dim3 size = context.launch->block;
  for (uint32_t w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    warp.block = this;
    warp.index = w;
    warp.frames = &frames_;
    warp.shared = shared_.data();
    warp.shared_bytes = context.shared_bytes;
    warp.local_bytes = context.local_bytes;
    warp.local = local_ ? local_.get() + size_t{w} * kLanes * context.local_bytes : nullptr;
    warp.parameters = context.launch->parameters;
    for (const Kernel& kernel : context.code->kernels) {
      if (&kernel == context.launch->kernel) warp.parameter_bytes = kernel.info.parameter_bytes;
    }
    if (context.memory != nullptr) {
      warp.extents = context.memory->extents.data();
      warp.extent_count = context.memory->extents.size();
    }
    warp.images = context.launch->images.get();
    warp.hints = hints_.data();
    warp.traffic = &context.traffic;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t thread = w * kLanes + i;
      warp.thread[0][i] = thread % size.x;
      warp.thread[1][i] = thread / size.x % size.y;
      warp.thread[2][i] = thread / size.x / size.y;
    }
  }
}

void Block::start(Dim3 index) {
  index_ = index;
  barriers_ = {};
  std::memset(shared_.data(), 0, shared_.size());
  for (Warp& warp : warps_) {
    const uint32_t threads = std::min(context_.threads - warp.index * kLanes, kLanes);
    warp.live = threads == kLanes ? kAllLanes : (1u << threads) - 1;
    warp.groups.clear();
    warp.favoured = kLanes;
    warp.taking_turns = false;
    warp.repetition.restart();
    Group group;
    group.mask = warp.live;
    group.frame = frames_.take(*context_.kernel);
    group.frame->lanes = warp.live;
    warp.groups.push_back(group);
  }
}

Stop Block::run(uint32_t slices, uint64_t turn) {
  for (uint32_t slice = 0; slice < slices; ++slice) {
    bool moved = false, left = false;
    for (Warp& warp : warps_) {
      if (warp.groups.empty()) continue;
      if (context_.cancel->load(std::memory_order_relaxed)) {
        fault_ = {Fault::Kind::kCancelled, "the launch was cancelled"};
        return Stop::kFault;
      }
      uint64_t operations = 0;
      const Stop stop = run_warp(warp, turn, &context_.instructions, &operations);
      context_.operations += operations;
      moved = moved || operations > 0;
      if (stop == Stop::kFault) {
        fault_ = {warp.fault_kind, describe_fault(context_, warp, index_)};
        return Stop::kFault;
      }
      if (recheck_) release_complete();
      left = left || !warp.groups.empty();
    }
    if (!left) return Stop::kDone;
    if (!moved) return deadlock();
  }
  return Stop::kBudget;
}

// Nothing of the block can ever move again: on a GPU it would hang.
Stop Block::deadlock() {
  for (Warp& warp : warps_) {
    for (const Group& g : warp.groups) {
      warp.fault_code = g.frame->code;
      warp.fault_op = &g.frame->code->ops[g.next];
      warp.fault_lane = static_cast<uint32_t>(std::countr_zero(g.mask));
      warp.fault_reason = "every thread of the block waits for threads that cannot arrive";
      fault_ = {Fault::Kind::kIllegalInstruction, describe_fault(context_, warp, index_)};
      return Stop::kFault;
    }
  }
  return Stop::kDone;
}

uint32_t Block::live_threads() const {
  uint32_t count = 0;
  for (const Warp& warp : warps_) count += static_cast<uint32_t>(std::popcount(warp.live));
  return count;
}

void Block::arrive(Warp& warp, Group& group, const BarrierSite& site) {
  const Frame& frame = *group.frame;
  const auto lane = static_cast<uint32_t>(std::countr_zero(group.mask));
  const uint32_t id =
      site.of_cluster ? kOfCluster : lane_u32(frame, site.id_slot, lane) % kNumbered;
  Barrier& barrier = barriers_[id];
  const bool counted = site.count_slot != kNoSlot;
  if (counted) barrier.expected = lane_u32(frame, site.count_slot, lane);
  // Where a number is named, whole warps count, also those whose other lanes have exited.
  barrier.arrived += counted && group.mask == warp.live
                         ? kLanes
                         : static_cast<uint32_t>(std::popcount(group.mask));
  if (site.reduce != BarrierSite::Reduce::kNone) {
    uint32_t p = lane_u32(frame, site.predicate_slot, 0);
    if (site.predicate_negated) p = ~p;
    barrier.popc += static_cast<uint32_t>(std::popcount(p & group.mask));
    barrier.all = barrier.all && (p & group.mask) == group.mask;
    barrier.any = barrier.any || (p & group.mask) != 0;
  }
  if (site.arrive) {
    ++group.next;
  } else {
    group.state = Group::State::kAtBarrier;
    group.barrier = id;
  }
  release_complete();
}

void Block::release_complete() {
  recheck_ = false;
  for (uint32_t id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = barriers_[id];
    if (barrier.arrived == 0) continue;
    const uint32_t expected = barrier.expected != 0 ? barrier.expected : live_threads();
    if (barrier.arrived >= expected) release(id);
  }
}

void Block::release(uint32_t id) {
  const Barrier barrier = barriers_[id];
  barriers_[id] = {};
  for (Warp& warp : warps_) {
    for (Group& g : warp.groups) {
      if (g.state != Group::State::kAtBarrier || g.barrier != id) continue;
      const Frame& frame = *g.frame;
      const BarrierSite& site = frame.code->barriers[frame.code->ops[g.next].target];
      std::byte* result = frame.registers + site.result_slot;
      if (site.reduce == BarrierSite::Reduce::kPopc) {
        for (uint32_t left = g.mask; left != 0; left &= left - 1) {
          const auto i = static_cast<uint32_t>(std::countr_zero(left));
          std::memcpy(result + size_t{i} * sizeof barrier.popc, &barrier.popc, sizeof barrier.popc);
        }
      } else if (site.reduce != BarrierSite::Reduce::kNone) {
        const bool holds = site.reduce == BarrierSite::Reduce::kAnd ? barrier.all : barrier.any;
        uint32_t p = lane_u32(frame, site.result_slot, 0);
        p = holds ? p | g.mask : p & ~g.mask;
        std::memcpy(result, &p, sizeof p);
      }
      g.state = Group::State::kReady;
      ++g.next;
    }
  }
}

}  // namespace simcuda
