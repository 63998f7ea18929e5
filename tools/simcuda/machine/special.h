// Special registers, and values that depend on where a warp is.
#pragma once

#include <optional>
#include <string_view>

#include "tools/simcuda/machine/op.h"

namespace simcuda {

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kGridId,
  kLaneMaskEq,
  kLaneMaskLe,
  kLaneMaskLt,
  kLaneMaskGe,
  kLaneMaskGt,
  kClock,
  kClockHi,
  kClock64,
  kGlobalTimer,
  kGlobalTimerLo,
  kGlobalTimerHi,
  kDynamicSharedBytes,
  kTotalSharedBytes,
  kZero,
  kOne,
  kWarpSize,
  kWorkspaceHigh,
  kWorkspaceLow,
  kReservedBegin,
  kReservedGroups,
  kReservedEnd,
};

struct SpecialRegister {
  Special code;
  uint32_t bits;
};

// None: not supported.
std::optional<SpecialRegister> special_register(std::string_view name);

// slots: destination; Op::code is the Special. `bits` is 32 or 64.
Handler special_handler(uint32_t bits);
// slots: destination; Op::immediate is an offset in the frame.
Handler frame_address_handler(uint32_t bits);

// slots: destination: the lanes that do the operation.
Handler active_mask_handler();
// Orders memory accesses between host threads.
Handler fence_handler();

}  // namespace simcuda
