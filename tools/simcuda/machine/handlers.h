// The tables from operation and type to the handler that does it. The handlers are compiled once
// per instruction set of the host (every set gives the same bits); handlers() chooses at first use.
// A null handler means that there is no such operation for that type.
#pragma once

#include "tools/simcuda/machine/op.h"

namespace simcuda {

// Types of the values in slots. 8-bit values live in 16-bit slots.
enum class Num : uint8_t { kU8, kS8, kU16, kS16, kU32, kS32, kU64, kS64, kF32, kF64 };

// Slots: destination, then sources in PTX order. The type is the instruction's; "wide" forms take
// that type and give twice its width.
enum class IntOp : uint8_t {
  kAdd,
  kSub,
  kMulLo,
  kMulHi,
  kMulWide,
  kMadLo,
  kMadHi,
  kMadWide,
  kMul24Lo,
  kMul24Hi,
  kMad24Lo,
  kMad24Hi,
  kSad,
  kDiv,
  kRem,
  kMin,
  kMax,
  kAbs,
  kNeg,
  kAnd,
  kOr,
  kXor,
  kNot,
  kCnot,
  kShl,
  kShr,
  kAddSat,
  kSubSat,
  kMadHiSat,
  kMad24HiSat,
  kPopc,
  kClz,
  kBfind,
  kBfindShift,
  kBrev,
  kBfe,
  kBfi,
  kFns,
  kAddCarryOut,
  kAddCarryIn,
  kAddCarryInOut,
  kSubCarryOut,
  kSubCarryIn,
  kSubCarryInOut,
  kMadLoCarryOut,
  kMadLoCarryIn,
  kMadLoCarryInOut,
  kMadHiCarryOut,
  kMadHiCarryIn,
  kMadHiCarryInOut,
  kMove,
  kSelect,
  kDp4aUU,
  kDp4aUS,
  kDp4aSU,
  kDp4aSS,
  kDp2aLoUU,
  kDp2aLoUS,
  kDp2aLoSU,
  kDp2aLoSS,
  kDp2aHiUU,
  kDp2aHiUS,
  kDp2aHiSU,
  kDp2aHiSS,
  kShfLeftWrap,
  kShfLeftClamp,
  kShfRightWrap,
  kShfRightClamp,
  kLop3,
  kPrmt,
  kPrmtF4e,
  kPrmtB4e,
  kPrmtRc8,
  kPrmtEcl,
  kPrmtEcr,
  kPrmtRc16,
  kAddX2,
  kMinX2,
  kMaxX2,
};

enum class FloatOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFma,
  kDiv,
  kApproximateDiv,
  kRcp,
  kSqrt,
  kMin,
  kMax,
  kMinNan,
  kMaxNan,
  kAbs,
  kNeg,
  kCopySign,
  kRsqrt,
  kEx2,
  kLg2,
  kSin,
  kCos,
  kTanh,
  kRcpGross,
  kRsqrtGross,
};

enum class Test : uint8_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNumber,
  kNan,
};

// Rounding to an integral value.
enum class Integral : uint8_t { kNearest, kZero, kDown, kUp };

// Half-precision formats. "x2": two values in a 32-bit slot. Their handlers read the flags in
// Op::flags.
enum class Half : uint8_t { kF16, kF16x2, kBF16, kBF16x2 };
enum class HalfOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFma,
  kMin,
  kMax,
  kMinNan,
  kMaxNan,
  kAbs,
  kNeg,
};

// Formats of 8 bits; always two values in a 16-bit slot.
enum class Float8 : uint8_t { kE4M3, kE5M2 };

inline constexpr uint8_t kFlush = 1;     // .ftz
inline constexpr uint8_t kSaturate = 2;  // .sat
inline constexpr uint8_t kRelu = 4;      // .relu

// Flags of memory operations, in Op::flags.
inline constexpr uint8_t kAddress32 = 1;      // the base register has 32 bits
inline constexpr uint8_t kFrameRelative = 2;  // local: the offset counts from the frame
inline constexpr uint8_t kStrong = 4;         // volatile, relaxed, acquire: a single access each

// In the order of their names in PTX's table of operations.
enum class AtomicOp : uint8_t { kAdd, kAnd, kOr, kXor, kMin, kMax, kExchange, kCas, kInc, kDec };
enum class AtomicType : uint8_t {
  kB16,
  kB32,
  kB64,
  kU32,
  kU64,
  kS32,
  kS64,
  kF32,
  kF64,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kB128,
};

inline constexpr uint32_t kAddressSlot = 4;

struct Handlers {
  Handler (*integer)(IntOp op, Num type);
  Handler (*floating)(FloatOp op, Num type, uint8_t flags);
  Handler (*half)(HalfOp op, Half type);
  // slots: p, q (or none), a, b, c (a predicate, or none); Op::code is a Combine, bit 7: c negated.
  Handler (*compare)(Compare compare, Num type, uint8_t flags);
  Handler (*test)(Test test, Num type);
  // Low bits of the source as `type`, extended to the destination's slot (16, 32 or 64 bits).
  Handler (*resize)(Num type, uint32_t from_bits, uint32_t to_bits);
  // 64-bit signed or unsigned value clamped to `to`.
  Handler (*clamp)(bool from_signed, Num to);
  Handler (*integer_to_float)(Num from, Num to, uint8_t flags);
  // `zero_nan`: NaN gives 0 and not the type's own value for it.
  Handler (*float_to_integer)(Num from, Num to, Integral rounding, uint8_t flags, bool zero_nan);
  Handler (*integral)(Num type, Integral rounding, uint8_t flags);
  Handler (*float_to_float)(Num from, Num to, uint8_t flags);
  // f32, f64 or a 64-bit integer to half formats; the x2 forms take two f32, the first for the
  // upper half.
  Handler (*to_half)(Num from, Half to);
  Handler (*from_half)(Half from, Num to);
  // Two f32, the first for the upper half. A value that is too large becomes the largest number.
  Handler (*to_float8)(Float8 to);
  Handler (*from_float8)(Float8 from);  // to f16x2
  // f32 to the nearest of its numbers that have 10 bits of mantissa. Ties: to even, or away from 0.
  Handler (*to_tf32)(bool ties_away);
  // Runs Op::inner under Op::rounding.
  Handler rounded;
  // slots: predicates; `code` is a truth table over (a, b): bit a*2+b.
  Handler predicate;
  // slots: values (Op::vector of them, each with or without a slot) and at kAddressSlot the base.
  // Op::immediate is added to it. Op::code is the MemorySpace. `bits` is the width of the values'
  // slots; the type is what lies in memory.
  Handler (*load)(Num type, uint32_t bits);
  Handler (*store)(uint32_t bytes, uint32_t bits);
  // slots: old value (or none), operand, second operand of cas; the address as for load.
  Handler (*atomic)(AtomicOp op, AtomicType type);
  // 128-bit slots: from two of 64 bits, to two, and a copy.
  Handler pack_wide, unpack_wide, move_wide;
  // The places in host memory of one access of `bytes` a lane (`at[lane]`, for the lanes of the
  // mask), checked as load and store check them; the address as for load.
  bool (*locate)(WarpView& w, const Op& op, uint32_t mask, uint32_t bytes, bool write,
                 std::byte** at);
};

// The set that any x86-64 can run, and the best one that this host can.
const Handlers& baseline_handlers();
const Handlers& best_handlers();
// The one in use: the best, or the baseline where the environment says SIMCUDA_ISA=baseline at the
// first call.
const Handlers& handlers();

}  // namespace simcuda
