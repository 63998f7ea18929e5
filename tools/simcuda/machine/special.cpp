#include "tools/simcuda/machine/special.h"

#include <ctime>
#include <unordered_map>

#include "tools/simcuda/machine/block.h"

namespace simcuda {
namespace {

constexpr uint64_t kClockStep = 8;
constexpr uint64_t kTimerStep = 32;  // nanoseconds, where time is not the host's

uint64_t nanoseconds(LaunchContext& context) {
  if (context.launch->timer) return *context.launch->timer + (context.timer += kTimerStep);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

const std::unordered_map<std::string_view, SpecialRegister>& names() {
  static const std::unordered_map<std::string_view, SpecialRegister> kNames = {
      {"%tid.x", {Special::kTidX, 32}},
      {"%tid.y", {Special::kTidY, 32}},
      {"%tid.z", {Special::kTidZ, 32}},
      {"%tid.w", {Special::kZero, 32}},
      {"%ntid.x", {Special::kNtidX, 32}},
      {"%ntid.y", {Special::kNtidY, 32}},
      {"%ntid.z", {Special::kNtidZ, 32}},
      {"%ntid.w", {Special::kZero, 32}},
      {"%ctaid.x", {Special::kCtaidX, 32}},
      {"%ctaid.y", {Special::kCtaidY, 32}},
      {"%ctaid.z", {Special::kCtaidZ, 32}},
      {"%ctaid.w", {Special::kZero, 32}},
      {"%nctaid.x", {Special::kNctaidX, 32}},
      {"%nctaid.y", {Special::kNctaidY, 32}},
      {"%nctaid.z", {Special::kNctaidZ, 32}},
      {"%nctaid.w", {Special::kZero, 32}},
      {"%laneid", {Special::kLaneId, 32}},
      {"%warpid", {Special::kWarpId, 32}},
      {"%nwarpid", {Special::kNwarpId, 32}},
      {"%smid", {Special::kSmId, 32}},
      {"%nsmid", {Special::kNsmId, 32}},
      {"%gridid", {Special::kGridId, 64}},
      {"%lanemask_eq", {Special::kLaneMaskEq, 32}},
      {"%lanemask_le", {Special::kLaneMaskLe, 32}},
      {"%lanemask_lt", {Special::kLaneMaskLt, 32}},
      {"%lanemask_ge", {Special::kLaneMaskGe, 32}},
      {"%lanemask_gt", {Special::kLaneMaskGt, 32}},
      {"%clock", {Special::kClock, 32}},
      {"%clock_hi", {Special::kClockHi, 32}},
      {"%clock64", {Special::kClock64, 64}},
      {"%globaltimer", {Special::kGlobalTimer, 64}},
      {"%globaltimer_lo", {Special::kGlobalTimerLo, 32}},
      {"%globaltimer_hi", {Special::kGlobalTimerHi, 32}},
      {"%dynamic_smem_size", {Special::kDynamicSharedBytes, 32}},
      {"%total_smem_size", {Special::kTotalSharedBytes, 32}},
      {"%aggr_smem_size", {Special::kTotalSharedBytes, 32}},
      {"WARP_SZ", {Special::kWarpSize, 32}},
      // A cluster is one block.
      {"%clusterid.x", {Special::kCtaidX, 32}},
      {"%clusterid.y", {Special::kCtaidY, 32}},
      {"%clusterid.z", {Special::kCtaidZ, 32}},
      {"%nclusterid.x", {Special::kNctaidX, 32}},
      {"%nclusterid.y", {Special::kNctaidY, 32}},
      {"%nclusterid.z", {Special::kNctaidZ, 32}},
      {"%cluster_ctaid.x", {Special::kZero, 32}},
      {"%cluster_ctaid.y", {Special::kZero, 32}},
      {"%cluster_ctaid.z", {Special::kZero, 32}},
      {"%cluster_nctaid.x", {Special::kOne, 32}},
      {"%cluster_nctaid.y", {Special::kOne, 32}},
      {"%cluster_nctaid.z", {Special::kOne, 32}},
      {"%cluster_ctarank", {Special::kZero, 32}},
      {"%cluster_nctarank", {Special::kOne, 32}},
      {"%current_graph_exec", {Special::kZero, 64}},
      {"%envreg1", {Special::kWorkspaceHigh, 32}},
      {"%envreg2", {Special::kWorkspaceLow, 32}},
      {"%reserved_smem_offset_begin", {Special::kReservedBegin, 32}},
      {"%reserved_smem_offset_0", {Special::kReservedBegin, 32}},
      {"%reserved_smem_offset_1", {Special::kReservedGroups, 32}},
      {"%reserved_smem_offset_end", {Special::kReservedEnd, 32}},
      {"%reserved_smem_offset_cap", {Special::kReservedEnd, 32}},
  };
  return kNames;
}

// Values that do not differ between lanes.
uint64_t uniform_value(Special code, const Warp& warp) {
  LaunchContext& context = warp.block->context();
  const Launch& launch = *context.launch;
  const Dim3 block = warp.block->index();
  switch (code) {
    case Special::kNtidX:
      return launch.block.x;
    case Special::kNtidY:
      return launch.block.y;
    case Special::kNtidZ:
      return launch.block.z;
    case Special::kCtaidX:
      return block.x;
    case Special::kCtaidY:
      return block.y;
    case Special::kCtaidZ:
      return block.z;
    case Special::kNctaidX:
      return launch.grid.x;
    case Special::kNctaidY:
      return launch.grid.y;
    case Special::kNctaidZ:
      return launch.grid.z;
    case Special::kWarpId:
      return warp.index;
    case Special::kNwarpId:
      return (context.threads + kLanes - 1) / kLanes;
    case Special::kNsmId:
      return 1;
    case Special::kGridId:
      return context.grid_id;
    // Counts operations, and every reading too, so that it moves inside one turn of a warp.
    case Special::kClock:
    case Special::kClock64:
      return context.operations += kClockStep;
    case Special::kClockHi:
      return context.operations >> 32;
    case Special::kGlobalTimer:
    case Special::kGlobalTimerLo:
      return nanoseconds(context);
    case Special::kGlobalTimerHi:
      return nanoseconds(context) >> 32;
    case Special::kDynamicSharedBytes:
      return launch.dynamic_shared_bytes;
    // Where the barrier of a cooperative launch is.
    case Special::kWorkspaceHigh:
      return launch.cooperative ? kWorkspace >> 32 : 0;
    case Special::kWorkspaceLow:
      return launch.cooperative ? kWorkspace & UINT32_MAX : 0;
    case Special::kReservedBegin:
      return context.reserved_shared;
    case Special::kReservedGroups:
      return context.reserved_shared + kReservedShared / 2;
    case Special::kReservedEnd:
      return context.reserved_shared + kReservedShared;
    case Special::kTotalSharedBytes:
      return context.kernel->shared_bytes + launch.dynamic_shared_bytes;
    case Special::kOne:
      return 1;
    case Special::kWarpSize:
      return kLanes;
    default:
      return 0;
  }
}

// Values that differ between lanes, for all of them: a decision for each lane would cost more than
// the values do.
void lane_values(Special code, const Warp& warp, uint32_t (&values)[kLanes]) {
  const auto set = [&values](const auto& value) {
    for (uint32_t i = 0; i < kLanes; ++i) values[i] = value(i);
  };
  switch (code) {
    case Special::kTidX:
      return set([&](uint32_t lane) { return warp.thread[0][lane]; });
    case Special::kTidY:
      return set([&](uint32_t lane) { return warp.thread[1][lane]; });
    case Special::kTidZ:
      return set([&](uint32_t lane) { return warp.thread[2][lane]; });
    case Special::kLaneId:
      return set([](uint32_t lane) { return lane; });
    case Special::kLaneMaskEq:
      return set([](uint32_t lane) { return 1u << lane; });
    case Special::kLaneMaskLe:
      return set([](uint32_t lane) { return 1u << lane | ((1u << lane) - 1); });
    case Special::kLaneMaskLt:
      return set([](uint32_t lane) { return (1u << lane) - 1; });
    case Special::kLaneMaskGe:
      return set([](uint32_t lane) { return ~((1u << lane) - 1); });
    default:
      return set([](uint32_t lane) { return ~(1u << lane | ((1u << lane) - 1)); });
  }
}

bool differs_by_lane(Special code) {
  switch (code) {
    case Special::kTidX:
    case Special::kTidY:
    case Special::kTidZ:
    case Special::kLaneId:
    case Special::kLaneMaskEq:
    case Special::kLaneMaskLe:
    case Special::kLaneMaskLt:
    case Special::kLaneMaskGe:
    case Special::kLaneMaskGt:
      return true;
    default:
      return false;
  }
}

template <class T>
void fill(WarpView& view, int32_t slot, uint32_t mask, T value) {
  T* to = reinterpret_cast<T*>(view.registers + slot);
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((mask >> i) & 1) to[i] = value;
  }
}

template <class T>
bool read_special(WarpView& view, const Op& op, uint32_t mask) {
  const auto& warp = static_cast<const Warp&>(view);
  const auto code = static_cast<Special>(op.code);
  if (!differs_by_lane(code)) {
    fill(view, op.slot[0], mask, static_cast<T>(uniform_value(code, warp)));
    return true;
  }
  uint32_t values[kLanes];
  lane_values(code, warp, values);
  T* to = reinterpret_cast<T*>(view.registers + op.slot[0]);
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((mask >> i) & 1) to[i] = static_cast<T>(values[i]);
  }
  return true;
}

template <class T>
bool frame_address(WarpView& view, const Op& op, uint32_t mask) {
  fill(view, op.slot[0], mask,
       static_cast<T>(view.frame_base + static_cast<uint64_t>(op.immediate)));
  return true;
}

bool active_mask(WarpView& view, const Op& op, uint32_t mask) {
  fill(view, op.slot[0], mask, mask);
  return true;
}

bool fence(WarpView&, const Op&, uint32_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

}  // namespace

std::optional<SpecialRegister> special_register(std::string_view name) {
  const auto found = names().find(name);
  if (found != names().end()) return found->second;
  if (name.starts_with("%envreg")) return SpecialRegister{Special::kZero, 32};
  return std::nullopt;
}

Handler special_handler(uint32_t bits) {
  return bits == 64 ? read_special<uint64_t> : read_special<uint32_t>;
}

Handler frame_address_handler(uint32_t bits) {
  return bits == 64 ? frame_address<uint64_t> : frame_address<uint32_t>;
}

Handler active_mask_handler() {
  return active_mask;
}

Handler fence_handler() {
  return fence;
}

}  // namespace simcuda
