// Arithmetic on integers, f32, f64 and the half-precision formats.
#include "tools/simcuda/machine/decoder.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

std::optional<Half> half_of(ptx::Type type) {
  switch (type) {
    case ptx::Type::kF16:
      return Half::kF16;
    case ptx::Type::kF16x2:
      return Half::kF16x2;
    case ptx::Type::kBF16:
      return Half::kBF16;
    case ptx::Type::kBF16x2:
      return Half::kBF16x2;
    default:
      return std::nullopt;
  }
}

bool is_integer(ptx::Type type) {
  const std::optional<Shape> shape = shape_of(type);
  return shape && !shape->is_float && !half_of(type) && ptx::size_of(type) >= 2 &&
         ptx::name_of(type)[0] != 'b';
}

bool is_float(ptx::Type type) {
  return type == ptx::Type::kF32 || type == ptx::Type::kF64;
}

}  // namespace

uint8_t Decoder::take_flags(Modifiers& mods) {
  uint8_t flags = 0;
  if (mods.take("ftz")) flags |= kFlush;
  if (mods.take("sat")) flags |= kSaturate;
  return flags;
}

void Decoder::elementwise(Handler handler, const Shape& shape, size_t sources, Rounding rounding) {
  if (!expect_operands(sources + 1, sources + 1)) return;
  int32_t slot[4] = {written(0, shape.bits), kNoSlot, kNoSlot, kNoSlot};
  for (size_t i = 1; i <= sources; ++i) slot[i] = read(i, shape.bits, shape.is_float);
  emit_rounded(handler, rounding, {slot[0], slot[1], slot[2], slot[3]});
}

void Decoder::float_arithmetic(FloatOp op, Modifiers& mods, Type type, size_t sources) {
  bool named = false;
  const Rounding rounding = take_rounding(mods, &named);
  const uint8_t flags = take_flags(mods);
  finished(mods);
  if (op == FloatOp::kFma && !named) return fail("the rounding must be named");
  const Shape shape = *shape_of(type);
  elementwise(handlers_.floating(op, shape.num, flags), shape, sources, rounding);
}

void Decoder::half_arithmetic(HalfOp op, Modifiers& mods, Type type, size_t sources) {
  const bool rounded = mods.take("rn");
  uint8_t flags = take_flags(mods);
  if (op == HalfOp::kFma && mods.take("relu")) flags |= kRelu;
  finished(mods);
  const bool brain = type == Type::kBF16 || type == Type::kBF16x2;
  const bool rounds =
      op == HalfOp::kAdd || op == HalfOp::kSub || op == HalfOp::kMul || op == HalfOp::kFma;
  const bool both = (flags & kSaturate) != 0 && (flags & kRelu) != 0;
  if (both || (brain && (flags & (kFlush | kSaturate)) != 0) ||
      (!rounds && (rounded || (flags & kSaturate) != 0)) || (op == HalfOp::kFma && !rounded)) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(sources + 1, sources + 1)) return;
  const std::optional<Half> half = half_of(type);
  const Shape shape = *shape_of(type);
  int32_t slot[4] = {written(0, shape.bits), kNoSlot, kNoSlot, kNoSlot};
  for (size_t i = 1; i <= sources; ++i) slot[i] = read(i, shape.bits);
  Op& made = emit(handlers_.half(op, *half), {slot[0], slot[1], slot[2], slot[3]});
  made.flags = flags;
}

// The condition code comes after the operands.
void Decoder::with_carry(IntOp op, const Shape& shape, size_t sources) {
  if (shape.bits < 32 || shape.is_float) return fail("no such type with a carry");
  if (!expect_operands(sources + 1, sources + 1)) return;
  if (condition_code_ == kNoSlot) condition_code_ = new_slot(1);
  int32_t slot[5] = {written(0, shape.bits), kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  for (size_t i = 1; i <= sources; ++i) slot[i] = read(i, shape.bits);
  slot[sources + 1] = condition_code_;
  emit(handlers_.integer(op, shape.num), {slot[0], slot[1], slot[2], slot[3], slot[4]});
}

// Two 16-bit integers in a register. False: the type is not one of those.
bool Decoder::integer_pair(IntOp op, Modifiers& mods) {
  const int type = mods.take_one({"u16x2", "s16x2"});
  if (type < 0) return false;
  if (op != IntOp::kAddX2 && type == 1 && mods.take("relu")) {
    finished(mods);
    relu(*shape_of(Type::kB32), op, Num::kS16);
    return true;
  }
  finished(mods);
  const Num num = type == 0 ? Num::kU16 : Num::kS16;
  elementwise(handlers_.integer(op, num), *shape_of(Type::kB32), 2);
  return true;
}

void Decoder::add_sub() {
  Modifiers mods(in_->modifiers);
  const bool subtract = in_->opcode.substr(0, 3) == "sub";
  const bool carry_in = in_->opcode.size() == 4;
  const bool carry_out = mods.take("cc");
  const Type type = mods.take_type();
  if (half_of(type) && !carry_in && !carry_out) {
    return half_arithmetic(subtract ? HalfOp::kSub : HalfOp::kAdd, mods, type, 2);
  }
  if (is_float(type) && !carry_in && !carry_out) {
    return float_arithmetic(subtract ? FloatOp::kSub : FloatOp::kAdd, mods, type, 2);
  }
  if (!subtract && !carry_in && !carry_out && integer_pair(IntOp::kAddX2, mods)) return;
  if (!is_integer(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  if (carry_in || carry_out) {
    finished(mods);
    const IntOp add = !carry_in   ? IntOp::kAddCarryOut
                      : carry_out ? IntOp::kAddCarryInOut
                                  : IntOp::kAddCarryIn;
    const IntOp sub = !carry_in   ? IntOp::kSubCarryOut
                      : carry_out ? IntOp::kSubCarryInOut
                                  : IntOp::kSubCarryIn;
    return with_carry(subtract ? sub : add, shape, 2);
  }
  IntOp op = subtract ? IntOp::kSub : IntOp::kAdd;
  if (mods.take("sat")) op = subtract ? IntOp::kSubSat : IntOp::kAddSat;
  finished(mods);
  elementwise(handlers_.integer(op, shape.num), shape, 2);
}

void Decoder::multiply() {
  Modifiers mods(in_->modifiers);
  const bool short24 = in_->opcode == "mul24";
  const int part = mods.take_one({"lo", "hi", "wide"});
  const Type type = mods.take_type();
  if (half_of(type) && part < 0 && !short24) return half_arithmetic(HalfOp::kMul, mods, type, 2);
  if (is_float(type) && part < 0 && !short24) return float_arithmetic(FloatOp::kMul, mods, type, 2);
  finished(mods);
  if (!is_integer(type) || part < 0) return fail("no such form of the instruction");
  const Shape shape = *shape_of(type);
  if (short24) {
    if (part == 2) return fail("no such form of the instruction");
    return elementwise(handlers_.integer(part == 0 ? IntOp::kMul24Lo : IntOp::kMul24Hi, shape.num),
                       shape, 2);
  }
  if (part < 2) {
    return elementwise(handlers_.integer(part == 0 ? IntOp::kMulLo : IntOp::kMulHi, shape.num),
                       shape, 2);
  }
  if (shape.bits == 64) return fail("no such type for a wide product");
  if (!expect_operands(3, 3)) return;
  const int32_t to = written(0, shape.bits * 2);
  const int32_t a = read(1, shape.bits);
  const int32_t b = read(2, shape.bits);
  emit(handlers_.integer(IntOp::kMulWide, shape.num), {to, a, b});
}

void Decoder::integer_mad(Modifiers& mods, const Shape& shape) {
  const bool short24 = in_->opcode == "mad24";
  const bool carry_in = in_->opcode == "madc";
  const bool carry_out = mods.take("cc");
  const int part = mods.take_one({"lo", "hi", "wide"});
  const bool saturate = mods.take("sat");
  finished(mods);
  if (part < 0) return fail("no such form of the instruction");
  if (carry_in || carry_out) {
    if (part == 2 || saturate || short24) return fail("no such form of the instruction");
    const IntOp low = !carry_in   ? IntOp::kMadLoCarryOut
                      : carry_out ? IntOp::kMadLoCarryInOut
                                  : IntOp::kMadLoCarryIn;
    const IntOp high = !carry_in   ? IntOp::kMadHiCarryOut
                       : carry_out ? IntOp::kMadHiCarryInOut
                                   : IntOp::kMadHiCarryIn;
    return with_carry(part == 0 ? low : high, shape, 3);
  }
  if (part == 2) {
    if (shape.bits == 64 || short24 || saturate) return fail("no such form of the instruction");
    if (!expect_operands(4, 4)) return;
    const int32_t to = written(0, shape.bits * 2);
    const int32_t a = read(1, shape.bits);
    const int32_t b = read(2, shape.bits);
    const int32_t c = read(3, shape.bits * 2);
    emit(handlers_.integer(IntOp::kMadWide, shape.num), {to, a, b, c});
    return;
  }
  if (saturate && (part == 0 || shape.num != Num::kS32)) {
    return fail("no such form of the instruction");
  }
  const IntOp plain = part == 0 ? IntOp::kMadLo : saturate ? IntOp::kMadHiSat : IntOp::kMadHi;
  const IntOp in24 = part == 0 ? IntOp::kMad24Lo : saturate ? IntOp::kMad24HiSat : IntOp::kMad24Hi;
  elementwise(handlers_.integer(short24 ? in24 : plain, shape.num), shape, 3);
}

// On the machines of today mad of floating-point numbers is fma.
void Decoder::mad_fma() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  const bool fma = in_->opcode == "fma";
  if (half_of(type) && fma) return half_arithmetic(HalfOp::kFma, mods, type, 3);
  if (is_float(type) && (fma || in_->opcode == "mad")) {
    return float_arithmetic(FloatOp::kFma, mods, type, 3);
  }
  if (fma || !is_integer(type)) return fail("no such type for this instruction");
  integer_mad(mods, *shape_of(type));
}

void Decoder::divide() {
  Modifiers mods(in_->modifiers);
  const bool remainder = in_->opcode == "rem";
  const Type type = mods.take_type();
  if (is_float(type) && !remainder) {
    const int form = mods.take_one({"approx", "full"});
    const bool approximate_form = form >= 0;
    bool named = false;
    const Rounding rounding = take_rounding(mods, &named);
    const uint8_t flags = mods.take("ftz") ? kFlush : 0;
    finished(mods);
    if (approximate_form == named || (approximate_form && type == Type::kF64)) {
      return fail("no such form of the instruction");
    }
    const Shape shape = *shape_of(type);
    const FloatOp op = form == 0 ? FloatOp::kApproximateDiv : FloatOp::kDiv;
    return elementwise(handlers_.floating(op, shape.num, flags), shape, 2, rounding);
  }
  finished(mods);
  if (!is_integer(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  elementwise(handlers_.integer(remainder ? IntOp::kRem : IntOp::kDiv, shape.num), shape, 2);
}

void Decoder::min_max() {
  Modifiers mods(in_->modifiers);
  const bool least = in_->opcode == "min";
  const Type type = mods.take_type();
  if (is_float(type) || half_of(type)) {
    const bool nan = mods.take("NaN");
    if (half_of(type)) {
      const HalfOp op = least ? nan ? HalfOp::kMinNan : HalfOp::kMin
                        : nan ? HalfOp::kMaxNan
                              : HalfOp::kMax;
      return half_arithmetic(op, mods, type, 2);
    }
    const FloatOp op = least ? nan ? FloatOp::kMinNan : FloatOp::kMin
                       : nan ? FloatOp::kMaxNan
                             : FloatOp::kMax;
    const uint8_t flags = mods.take("ftz") ? kFlush : 0;
    finished(mods);
    const Shape shape = *shape_of(type);
    return elementwise(handlers_.floating(op, shape.num, flags), shape, 2);
  }
  if (integer_pair(least ? IntOp::kMinX2 : IntOp::kMaxX2, mods)) return;
  if (type == Type::kS32 && mods.take("relu")) {
    finished(mods);
    return relu(*shape_of(type), least ? IntOp::kMin : IntOp::kMax, Num::kS32);
  }
  finished(mods);
  if (!is_integer(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  elementwise(handlers_.integer(least ? IntOp::kMin : IntOp::kMax, shape.num), shape, 2);
}

void Decoder::abs_neg() {
  Modifiers mods(in_->modifiers);
  const bool negate = in_->opcode == "neg";
  const Type type = mods.take_type();
  if (half_of(type)) return half_arithmetic(negate ? HalfOp::kNeg : HalfOp::kAbs, mods, type, 1);
  const bool real = is_float(type);
  const uint8_t flags = real && mods.take("ftz") ? kFlush : 0;
  finished(mods);
  if (!real && !is_integer(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  elementwise(real ? handlers_.floating(negate ? FloatOp::kNeg : FloatOp::kAbs, shape.num, flags)
                   : handlers_.integer(negate ? IntOp::kNeg : IntOp::kAbs, shape.num),
              shape, 1);
}

void Decoder::sad() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  if (!is_integer(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  elementwise(handlers_.integer(IntOp::kSad, shape.num), shape, 3);
}

// rcp, sqrt and rsqrt; the approximate forms of f32 are the exact ones here.
void Decoder::root_and_reciprocal() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  const bool approximate_form = mods.take("approx");
  bool named = false;
  const Rounding rounding = take_rounding(mods, &named);
  const uint8_t flags = mods.take("ftz") ? kFlush : 0;
  finished(mods);
  if (!is_float(type) || approximate_form == named) return fail("no such form of the instruction");
  const Shape shape = *shape_of(type);
  FloatOp op = in_->opcode == "rcp" ? FloatOp::kRcp : FloatOp::kSqrt;
  if (in_->opcode == "rsqrt") {
    if (named) return fail("no such form of the instruction");
    op = FloatOp::kRsqrt;
  }
  if (type == Type::kF64 && approximate_form) {
    if (op == FloatOp::kSqrt || (op == FloatOp::kRcp && flags == 0)) {
      return fail("no such form of the instruction");
    }
    if (flags != 0) op = op == FloatOp::kRcp ? FloatOp::kRcpGross : FloatOp::kRsqrtGross;
  }
  elementwise(handlers_.floating(op, shape.num, flags), shape, 1, rounding);
}

// Computed as an f32 and rounded: nearer than the approximation has to be.
void Decoder::half_by_single(FloatOp op, Modifiers& mods, Type type) {
  const Half half = *half_of(type);
  const bool brain = half == Half::kBF16 || half == Half::kBF16x2;
  // bf16 has denormals where f32 has them: the f32 form flushes both.
  const bool flush = mods.take("ftz");
  finished(mods);
  if (flush && (!brain || op != FloatOp::kEx2)) return fail("no such form of the instruction");
  if (!expect_operands(2, 2)) return;
  const bool pair = half == Half::kF16x2 || half == Half::kBF16x2;
  const uint32_t bits = pair ? 32 : 16;
  const int32_t d = written(0, bits);
  const int32_t a = read(1, bits);
  const Handler handler = handlers_.floating(op, Num::kF32, flush ? kFlush : 0);
  int32_t result[2] = {kNoSlot, kNoSlot};
  for (size_t i = 0; i < (pair ? 2 : 1); ++i) {
    const int32_t single = single_of(a, type, i == 1);
    result[i] = new_slot(32);
    emit(handler, {result[i], single});
  }
  if (pair) {
    emit(handlers_.to_half(Num::kF32, half), {d, result[1], result[0]});
  } else {
    emit(handlers_.to_half(Num::kF32, half), {d, result[0]});
  }
}

// An integer minimum or maximum, and 0 where it is negative.
void Decoder::relu(const Shape& shape, IntOp op, Num num) {
  const bool pair = op == IntOp::kMinX2 || op == IntOp::kMaxX2;
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, shape.bits);
  const int32_t a = read(1, shape.bits);
  const int32_t b = read(2, shape.bits);
  const int32_t result = new_slot(shape.bits);
  emit(handlers_.integer(op, num), {result, a, b});
  emit(handlers_.integer(pair ? IntOp::kMaxX2 : IntOp::kMax, num),
       {d, result, constant(0, shape.bits)});
}

void Decoder::approximate() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  const bool named = mods.take("approx");
  const bool is_half = half_of(type) && (in_->opcode == "ex2" || in_->opcode == "tanh");
  if (named && is_half) {
    return half_by_single(in_->opcode == "ex2" ? FloatOp::kEx2 : FloatOp::kTanh, mods, type);
  }
  const uint8_t flags = mods.take("ftz") ? kFlush : 0;
  finished(mods);
  if (!named || type != Type::kF32) return fail("no such form of the instruction");
  const FloatOp op = in_->opcode == "ex2"   ? FloatOp::kEx2
                     : in_->opcode == "lg2" ? FloatOp::kLg2
                     : in_->opcode == "sin" ? FloatOp::kSin
                     : in_->opcode == "cos" ? FloatOp::kCos
                                            : FloatOp::kTanh;
  if (op == FloatOp::kTanh && flags != 0) return fail("no such form of the instruction");
  elementwise(handlers_.floating(op, Num::kF32, flags), *shape_of(type), 1);
}

void Decoder::copysign() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  if (!is_float(type)) return fail("no such type for this instruction");
  const Shape shape = *shape_of(type);
  elementwise(handlers_.floating(FloatOp::kCopySign, shape.num, 0), shape, 2);
}

void Decoder::testp() {
  Modifiers mods(in_->modifiers);
  const int test =
      mods.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = mods.take_type();
  finished(mods);
  if (test < 0 || !is_float(type)) return fail("no such form of the instruction");
  if (!expect_operands(2, 2)) return;
  const Shape shape = *shape_of(type);
  const int32_t p = written_predicate(operand(0));
  const int32_t a = read(1, shape.bits, true);
  emit(handlers_.test(static_cast<Test>(test), shape.num), {p, a});
}

}  // namespace simcuda
