// cvt. A source register may be wider than the source type (its low bits count) and a destination
// wider than its type (the value is extended): both are operations of their own around the
// conversion proper.
#include <algorithm>
#include <iterator>

#include "tools/simcuda/machine/decoder.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

bool is_half(ptx::Type type) {
  return type == ptx::Type::kF16 || type == ptx::Type::kBF16;
}
bool is_pair(ptx::Type type) {
  return type == ptx::Type::kF16x2 || type == ptx::Type::kBF16x2;
}
bool is_float(ptx::Type type) {
  return type == ptx::Type::kF32 || type == ptx::Type::kF64 || is_half(type);
}
Half half_of(ptx::Type type) {
  switch (type) {
    case ptx::Type::kF16:
      return Half::kF16;
    case ptx::Type::kF16x2:
      return Half::kF16x2;
    case ptx::Type::kBF16:
      return Half::kBF16;
    default:
      return Half::kBF16x2;
  }
}
bool is_integer(ptx::Type type) {
  const std::string_view name = ptx::name_of(type);
  return !name.empty() && (name[0] == 'u' || name[0] == 's');
}
uint32_t bits_of(ptx::Type type) {
  return ptx::size_of(type) * 8;
}
uint32_t slot_bits(ptx::Type type) {
  return bits_of(type) == 8 ? 16 : bits_of(type);
}
bool is_signed(ptx::Type type) {
  return ptx::name_of(type)[0] == 's';
}
// Whether every value of the integer type `from` is one of `to`.
bool holds_all_of(ptx::Type to, ptx::Type from) {
  if (is_signed(from)) return is_signed(to) && bits_of(to) >= bits_of(from);
  return bits_of(to) >= bits_of(from) + (is_signed(to) ? 1 : 0);
}

}  // namespace

// The source as a value of its type alone, in a slot of that type's size.
int32_t Decoder::exact_source(size_t index, Type type) {
  uint32_t bits = 0;
  const int32_t slot = read_wide(operand(index), slot_bits(type), &bits, is_float(type));
  const Shape shape = *shape_of(type);
  if (bits == slot_bits(type) && bits_of(type) != 8) return slot;
  if (is_float(type) && bits != slot_bits(type)) {
    fail("the source register has the wrong size");
    return slot;
  }
  const int32_t exact = new_slot(slot_bits(type));
  emit(handlers_.resize(shape.num, bits, slot_bits(type)), {exact, slot});
  return exact;
}

// The destination: a slot for a value of the type, which finish_destination() then extends.
int32_t Decoder::exact_destination(Type type, uint32_t* bits, int32_t* real) {
  *real = written_wide(operand(0), slot_bits(type), bits);
  if (is_float(type) && *bits != slot_bits(type)) fail("the destination has the wrong size");
  const bool needs_extension = *bits != slot_bits(type) || bits_of(type) == 8;
  return needs_extension ? new_slot(slot_bits(type)) : *real;
}

void Decoder::finish_destination(Type type, int32_t exact, uint32_t bits, int32_t real) {
  if (exact == real) return;
  emit(handlers_.resize(shape_of(type)->num, slot_bits(type), bits), {real, exact});
}

void Decoder::convert_integers(Type to, Type from, bool saturate) {
  uint32_t from_bits = 0, to_bits = 0;
  int32_t real = 0;
  const int32_t source = read_wide(operand(1), slot_bits(from), &from_bits);
  const int32_t exact = exact_destination(to, &to_bits, &real);
  if (saturate) {
    const int32_t wide = new_slot(64);
    emit(handlers_.resize(shape_of(from)->num, from_bits, 64), {wide, source});
    emit(handlers_.clamp(is_signed(from), shape_of(to)->num), {exact, wide});
  } else if (slot_bits(from) <= slot_bits(to)) {
    emit(handlers_.resize(shape_of(from)->num, from_bits, slot_bits(to)), {exact, source});
  } else {
    emit(handlers_.resize(shape_of(to)->num, from_bits, slot_bits(to)), {exact, source});
  }
  finish_destination(to, exact, to_bits, real);
}

void Decoder::convert_to_float(Type to, Type from, Rounding rounding, uint8_t flags) {
  int32_t source = exact_source(1, from);
  // Small integers become 32-bit ones, whose conversion is exact for f64.
  if (bits_of(from) < 32) {
    const int32_t word = new_slot(32);
    emit(handlers_.resize(shape_of(from)->num, 16, 32), {word, source});
    source = word;
  }
  const bool sign = is_signed(from);
  const Num num = bits_of(from) == 64 ? sign ? Num::kS64 : Num::kU64 : sign ? Num::kS32 : Num::kU32;
  if (!is_half(to)) {
    const int32_t d = written(0, bits_of(to));
    emit_rounded(handlers_.integer_to_float(num, shape_of(to)->num, flags), rounding, {d, source});
    return;
  }
  const int32_t d = written(0, 16);
  if (bits_of(from) == 64) {
    Op& op = emit(handlers_.to_half(num, half_of(to)), {d, source});
    op.flags = flags;
    op.rounding = rounding;
    return;
  }
  const int32_t wide = new_slot(64);
  emit(handlers_.integer_to_float(num, Num::kF64, 0), {wide, source});
  Op& op = emit(handlers_.to_half(Num::kF64, half_of(to)), {d, wide});
  op.flags = flags;
  op.rounding = rounding;
}

void Decoder::convert_to_integer(Type to, Type from, Integral mode, uint8_t flags) {
  int32_t source = exact_source(1, from);
  uint32_t to_bits = 0;
  int32_t real = 0;
  const int32_t exact = exact_destination(to, &to_bits, &real);
  Num num = shape_of(from)->num;
  if (is_half(from)) {
    const int32_t single = new_slot(32);
    emit(handlers_.from_half(half_of(from), Num::kF32), {single, source});
    source = single;
    num = Num::kF32;
  }
  const bool zero_nan = from != Type::kF64 && bits_of(to) != 64;
  emit(handlers_.float_to_integer(num, shape_of(to)->num, mode, flags, zero_nan), {exact, source});
  finish_destination(to, exact, to_bits, real);
}

void Decoder::convert_floats(Type to, Type from, std::optional<Integral> integral,
                             Rounding rounding, uint8_t flags) {
  const int32_t source = exact_source(1, from);
  const int32_t d = written(0, bits_of(to));
  if (is_half(from) && is_half(to)) {
    if (to != from) return fail("that conversion is not supported");
    // Exact there and back.
    const int32_t single = new_slot(32);
    emit(handlers_.from_half(half_of(from), Num::kF32), {single, source});
    if (integral) emit(handlers_.integral(Num::kF32, *integral, 0), {single, single});
    emit(handlers_.to_half(Num::kF32, half_of(to)), {d, single}).flags = flags;
    return;
  }
  if (is_half(from)) {
    if (integral) return fail("no such form of the instruction");
    emit(handlers_.from_half(half_of(from), shape_of(to)->num), {d, source}).flags = flags;
    return;
  }
  if (is_half(to)) {
    if (integral) return fail("no such form of the instruction");
    int32_t value = source;
    // Hardware rounds a denormal away from zero here, as if .ftz were not there.
    const bool directed =
        to == Type::kF16 && (rounding == Rounding::kDown || rounding == Rounding::kUp);
    if ((flags & kFlush) != 0 && from == Type::kF32 && !directed) {
      value = new_slot(32);
      emit(handlers_.float_to_float(Num::kF32, Num::kF32, kFlush), {value, source});
    }
    Op& op = emit(handlers_.to_half(shape_of(from)->num, half_of(to)), {d, value});
    op.flags = flags;
    op.rounding = rounding;
    return;
  }
  if (integral) {
    if (to != from) return fail("no such form of the instruction");
    emit(handlers_.integral(shape_of(to)->num, *integral, flags), {d, source});
    return;
  }
  emit_rounded(handlers_.float_to_float(shape_of(from)->num, shape_of(to)->num, flags), rounding,
               {d, source});
}

// Two f32 into a pair: the first operand is the upper half.
void Decoder::convert_pair(Type to, Rounding rounding, uint8_t flags) {
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, 32);
  const int32_t a = read(1, 32, true);
  const int32_t b = read(2, 32, true);
  Op& op = emit(handlers_.to_half(Num::kF32, half_of(to)), {d, a, b});
  op.flags = flags;
  op.rounding = rounding;
}

// Conversions to and from formats that no register has: e4m3x2, e5m2x2 and tf32. False: it is none.
bool Decoder::convert_small(Modifiers& mods) {
  constexpr size_t kTf32 = 2;
  size_t found = SIZE_MAX;
  bool first = false;
  for (const std::string_view name : in_->modifiers) {
    constexpr std::string_view kNames[] = {"e4m3x2", "e5m2x2", "tf32"};
    for (size_t i = 0; i < std::size(kNames) && found == SIZE_MAX; ++i) {
      if (name == kNames[i]) found = i;
    }
    if (found != SIZE_MAX) {
      first = !failed() && ptx::type_from_name(in_->modifiers.back()) != Type::kNone;
      mods.take(name);
      break;
    }
  }
  if (found == SIZE_MAX) return false;
  const Type other = mods.take_type();
  const bool away = mods.take("rna");
  const bool even = !away && mods.take("rn");
  const bool finite = mods.take("satfinite");
  const uint8_t flags = mods.take("relu") ? kRelu : 0;
  finished(mods);
  if (found == kTf32) {
    const bool known = first && other == Type::kF32 && (away || even) && !finite && flags == 0;
    if (!known || !expect_operands(2, 2)) return fail("no such form of the instruction"), true;
    const int32_t d = written(0, 32);
    emit(handlers_.to_tf32(away), {d, read(1, 32, true)});
    return true;
  }
  const auto format = static_cast<Float8>(found);
  if (!even || finite != first) return fail("no such form of the instruction"), true;
  if (!first) {
    if (other != Type::kF16x2 || !expect_operands(2, 2)) {
      return fail("no such form of the instruction"), true;
    }
    const int32_t d = written(0, 32);
    emit(handlers_.from_float8(format), {d, read(1, 16)}).flags = flags;
    return true;
  }
  int32_t upper = kNoSlot, lower = kNoSlot;
  if (other == Type::kF32 && expect_operands(3, 3)) {
    upper = read(1, 32, true);
    lower = read(2, 32, true);
  } else if (other == Type::kF16x2 && expect_operands(2, 2)) {
    const int32_t pair = read(1, 32);
    upper = single_of(pair, other, true);
    lower = single_of(pair, other);
  } else {
    return fail("no such form of the instruction"), true;
  }
  emit(handlers_.to_float8(format), {written(0, 16), upper, lower}).flags = flags;
  return true;
}

// Two s32, saturated, become the low bits of the result: the second operand the lowest. The bits
// above are the low bits of a third one, if there is one.
void Decoder::convert_pack(Modifiers& mods) {
  struct Packed {
    std::string_view name;
    uint32_t bits;
    bool is_signed;
  };
  constexpr Packed kPacked[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false},
                                {"s8", 8, true},    {"u4", 4, false},  {"s4", 4, true},
                                {"u2", 2, false},   {"s2", 2, true}};
  const auto* to = std::find_if(std::begin(kPacked), std::end(kPacked),
                                [&mods](const Packed& each) { return mods.take(each.name); });
  const bool known = mods.take("sat") && to != std::end(kPacked) && mods.take("s32");
  const bool has_third = known && mods.take("b32");
  finished(mods);
  if (!known || has_third != (to->bits < 16)) return fail("no such form of the instruction");
  const uint32_t count = has_third ? 4 : 3;
  if (!expect_operands(count, count)) return;
  const int64_t most = (int64_t{1} << (to->is_signed ? to->bits - 1 : to->bits)) - 1;
  const int64_t least = to->is_signed ? -most - 1 : 0;
  const int32_t mask = constant((uint64_t{1} << to->bits) - 1, 32);
  const auto saturated = [&](uint32_t source) {
    const int32_t at_least = new_slot(32), both = new_slot(32), low = new_slot(32);
    emit(handlers_.integer(IntOp::kMax, Num::kS32),
         {at_least, read(source, 32), constant(static_cast<uint32_t>(least), 32)});
    emit(handlers_.integer(IntOp::kMin, Num::kS32),
         {both, at_least, constant(static_cast<uint32_t>(most), 32)});
    emit(handlers_.integer(IntOp::kAnd, Num::kU32), {low, both, mask});
    return low;
  };
  const auto above = [&](int32_t low, int32_t high, uint32_t bits, int32_t into) {
    const int32_t shifted = new_slot(32);
    emit(handlers_.integer(IntOp::kShl, Num::kU32), {shifted, high, constant(bits, 32)});
    emit(handlers_.integer(IntOp::kOr, Num::kU32), {into, low, shifted});
  };
  const int32_t high = saturated(1), low = saturated(2);
  const int32_t third = has_third ? read(3, 32) : kNoSlot;
  const int32_t d = written(0, 32);
  const int32_t pair = has_third ? new_slot(32) : d;
  above(low, high, to->bits, pair);
  if (has_third) above(pair, third, 2 * to->bits, d);
}

void Decoder::cvt() {
  Modifiers mods(in_->modifiers);
  if (mods.take("pack")) return convert_pack(mods);
  if (convert_small(mods)) return;
  bool named = false;
  const Rounding rounding = take_rounding(mods, &named);
  const int integral_mode = mods.take_one({"rni", "rzi", "rmi", "rpi"});
  uint8_t flags = take_flags(mods);
  if (mods.take("relu")) flags |= kRelu;
  const Type to = mods.take_type();
  const Type from = mods.take_type();
  finished(mods);
  if (failed()) return;
  if (is_pair(to)) {
    if (from != Type::kF32 || integral_mode >= 0 || !named || (flags & ~kRelu) != 0 ||
        rounding > Rounding::kZero) {
      return fail("no such form of the instruction");
    }
    return convert_pair(to, rounding, flags);
  }
  if (!expect_operands(2, 2)) return;
  if ((!is_integer(to) && !is_float(to)) || (!is_integer(from) && !is_float(from))) {
    return fail("no such types to convert");
  }
  if ((flags & kRelu) != 0 &&
      (!is_half(to) || from != Type::kF32 || (flags & ~kRelu) != 0 || rounding > Rounding::kZero)) {
    return fail("no such form of the instruction");
  }
  if ((flags & kSaturate) != 0 && to == Type::kBF16) return fail(".sat is not for bf16");
  const bool flush = (flags & kFlush) != 0;
  if (flush && from != Type::kF32 && to != Type::kF32) return fail(".ftz is for f32 only");
  if (is_integer(to) && is_integer(from)) {
    if (named || integral_mode >= 0) return fail("no rounding between integers");
    const bool saturate = (flags & kSaturate) != 0;
    if (saturate && holds_all_of(to, from)) return fail("nothing can saturate");
    return convert_integers(to, from, saturate);
  }
  if (is_integer(to)) {
    if (named || integral_mode < 0) return fail("the rounding to an integer must be named");
    return convert_to_integer(to, from, static_cast<Integral>(integral_mode), flags & kFlush);
  }
  if (is_integer(from)) {
    if (!named || integral_mode >= 0) return fail("the rounding must be named");
    return convert_to_float(to, from, rounding, flags);
  }
  std::optional<Integral> integral;
  if (integral_mode >= 0) integral = static_cast<Integral>(integral_mode);
  const bool narrows = bits_of(to) < bits_of(from);
  if (narrows && !named) return fail("the rounding must be named");
  if (!narrows && named) return fail("no such form of the instruction");
  convert_floats(to, from, integral, rounding, flags);
}

}  // namespace simcuda
