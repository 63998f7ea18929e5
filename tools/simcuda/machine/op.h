// Decoded instructions and what their handlers see of a warp.
//
// Registers are structures of arrays: a register of a warp is 32 values side by side (16, 32 or 64
// bits each), a predicate register is one 32-bit mask. A handler does one operation for all lanes.
//
// This header is compiled into the handlers once per instruction set of the host, so it holds only
// plain data and no function that a linker could merge between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simcuda {

struct Extent;
struct ImageTable;
struct WarpView;
struct Op;

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = UINT32_MAX;
inline constexpr int32_t kNoSlot = INT32_MIN;
inline constexpr uint32_t kMaxSlots = 7;

// False: the view's fault is set and the launch ends.
using Handler = bool (*)(WarpView&, const Op&, uint32_t mask);

// The run loop's treatment of an operation.
enum class OpKind : uint8_t {
  kPlain,   // call the handler, go on with the next
  kBranch,  // to `target`
  kBranchIndex,
  kCall,
  kReturn,
  kExit,
  kBarrier,   // of the block
  kWarpSync,  // of the warp: completes when every named lane is there
  kTrap,
  kYield,    // call the handler and let others run: nanosleep, or what asks for something again
  kAligned,  // call the handler once all lanes of the warp are there
};

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

// Address spaces as the memory handlers know them.
enum class MemorySpace : uint8_t { kGlobal, kShared, kLocal, kParam, kGeneric };

// A slot is an offset in bytes: from the frame's registers where it is not negative, from the end
// of the function's constants where it is.
struct Op {
  Handler run = nullptr;
  int32_t slot[kMaxSlots] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  int32_t guard = kNoSlot;   // a predicate
  Handler inner = nullptr;   // of a handler that wraps another (rounding modes)
  int64_t immediate = 0;     // address offset, constant, truth table
  uint32_t target = 0;       // operation to branch to; index of a call or barrier description
  uint32_t instruction = 0;  // index in ptx::Function::instructions
  OpKind kind = OpKind::kPlain;
  bool guard_negated = false;
  uint8_t code = 0;  // what a handler that serves several operations is to do
  uint8_t flags = 0;
  uint16_t hint = 0;   // memory operations: index in WarpView::hints
  uint8_t vector = 1;  // memory operations: elements
  Rounding rounding = Rounding::kNearest;
};

// Comparison results with a predicate: what to do with the third operand, in Op::code.
enum class Combine : uint8_t { kNone, kAnd, kOr, kXor };

// An access that a handler could not make: turned into a message by the run loop.
enum class AccessFault : uint8_t {
  kNone,
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kWrongSpace,
  kStackOverflow,
  kBadCode,
};

inline constexpr uint32_t kHints = 64;

// Counts sectors of memory, in all accesses of a launch so far.
inline constexpr uint64_t kSectorBytes = 32;
struct Traffic {
  uint64_t device_sectors = 0;
  uint64_t host_sectors = 0;
};

// The part of a warp's state that handlers use. Owned by the run loop.
struct WarpView {
  std::byte* registers = nullptr;        // of the current frame
  const std::byte* constants = nullptr;  // one past the end

  std::byte* shared = nullptr;  // the block's
  uint64_t shared_bytes = 0;
  std::byte* local = nullptr;             // lane 0's; lane i's is i * local_bytes further
  uint64_t local_bytes = 0;               // per thread
  uint64_t frame_base = 0;                // where the current frame begins in each lane's
  const std::byte* parameters = nullptr;  // of the launch
  uint64_t parameter_bytes = 0;

  const Extent* extents = nullptr;  // sorted
  size_t extent_count = 0;
  const Extent** hints = nullptr;  // kHints of them: where an operation found its memory last
  Traffic* traffic = nullptr;
  const ImageTable* images = nullptr;  // null: there are none

  // Set by a handler that returns false.
  AccessFault fault = AccessFault::kNone;
  uint64_t fault_address = 0;
  uint64_t fault_bytes = 0;
  uint32_t fault_lane = 0;
  bool fault_write = false;
};

}  // namespace simcuda
