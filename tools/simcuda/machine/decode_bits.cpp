// Logic, shifts, bit fields, moves, selection and comparison.
#include <algorithm>

#include "tools/simcuda/machine/decoder.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

// The type of an instruction that does not interpret its bits.
bool is_untyped(ptx::Type type) {
  return type == ptx::Type::kB16 || type == ptx::Type::kB32 || type == ptx::Type::kB64;
}

bool is_half(ptx::Type type) {
  return type == ptx::Type::kF16 || type == ptx::Type::kBF16;
}
bool is_half_pair(ptx::Type type) {
  return type == ptx::Type::kF16x2 || type == ptx::Type::kBF16x2;
}
// 1.0 as a comparison gives it; all ones for integers.
uint64_t truth(ptx::Type type) {
  switch (type) {
    case ptx::Type::kF32:
      return 0x3f800000;
    case ptx::Type::kF16:
    case ptx::Type::kF16x2:
      return 0x3c00;
    case ptx::Type::kBF16:
    case ptx::Type::kBF16x2:
      return 0x3f80;
    default:
      return UINT64_MAX;
  }
}

constexpr uint8_t kTableNot = 0b0011;  // not a: for (a, b) = 00 and 01
constexpr uint8_t kTableCopy = 0b1100;
constexpr uint8_t kTableAnd = 0b1000;
constexpr uint8_t kTableOr = 0b1110;
constexpr uint8_t kTableXor = 0b0110;

// The same table with an operand negated.
uint8_t with_negated(uint8_t table, bool a, bool b) {
  uint8_t r = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t from = k ^ (a ? 2 : 0) ^ (b ? 1 : 0);
    r = static_cast<uint8_t>(r | ((table >> from) & 1) << k);
  }
  return r;
}

}  // namespace

void Decoder::logic() {
  Modifiers mods(in_->modifiers);
  const bool unary = in_->opcode == "not" || in_->opcode == "cnot";
  const bool predicates = mods.take("pred");
  const Type type = mods.take_type();
  finished(mods);
  if (!expect_operands(unary ? 2 : 3, unary ? 2 : 3)) return;
  if (predicates) {
    if (type != Type::kNone || in_->opcode == "cnot") return fail("no such form");
    bool not_a = false, not_b = false;
    const int32_t p = written_predicate(operand(0));
    const int32_t a = read_predicate(operand(1), &not_a);
    const int32_t b = unary ? kNoSlot : read_predicate(operand(2), &not_b);
    const uint8_t table = in_->opcode == "not"   ? kTableNot
                          : in_->opcode == "and" ? kTableAnd
                          : in_->opcode == "or"  ? kTableOr
                                                 : kTableXor;
    emit(handlers_.predicate, {p, a, b}).code = with_negated(table, not_a, not_b);
    return;
  }
  if (!is_untyped(type)) return fail("no such type for this instruction");
  const IntOp op = in_->opcode == "and"   ? IntOp::kAnd
                   : in_->opcode == "or"  ? IntOp::kOr
                   : in_->opcode == "xor" ? IntOp::kXor
                   : in_->opcode == "not" ? IntOp::kNot
                                          : IntOp::kCnot;
  const Shape shape = *shape_of(type);
  elementwise(handlers_.integer(op, shape.num), shape, unary ? 1 : 2);
}

void Decoder::shift() {
  Modifiers mods(in_->modifiers);
  const bool left = in_->opcode == "shl";
  const Type type = mods.take_type();
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || shape->is_float || ptx::size_of(type) < 2 || (left && !is_untyped(type)) ||
      type == Type::kF16 || type == Type::kBF16 || type == Type::kF16x2 || type == Type::kBF16x2) {
    return fail("no such type for this instruction");
  }
  if (!expect_operands(3, 3)) return;
  const int32_t to = written(0, shape->bits);
  const int32_t a = read(1, shape->bits);
  const int32_t n = read(2, 32);
  emit(handlers_.integer(left ? IntOp::kShl : IntOp::kShr, shape->num), {to, a, n});
}

void Decoder::funnel_shift() {
  Modifiers mods(in_->modifiers);
  const int side = mods.take_one({"l", "r"});
  const int mode = mods.take_one({"wrap", "clamp"});
  const Type type = mods.take_type();
  finished(mods);
  if (side < 0 || mode < 0 || type != Type::kB32) return fail("no such form of the instruction");
  constexpr IntOp kOps[] = {IntOp::kShfLeftWrap, IntOp::kShfLeftClamp, IntOp::kShfRightWrap,
                            IntOp::kShfRightClamp};
  elementwise(handlers_.integer(kOps[side * 2 + mode], Num::kU32), *shape_of(type), 3);
}

void Decoder::lop3() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  if (type != Type::kB32) return fail("no such form of the instruction");
  if (!expect_operands(5, 5)) return;
  const auto* table = std::get_if<ptx::IntegerOperand>(&operand(4).value);
  if (table == nullptr || table->value > 255) return fail("the table must be a constant of 8 bits");
  const int32_t to = written(0, 32);
  const int32_t a = read(1, 32);
  const int32_t b = read(2, 32);
  const int32_t c = read(3, 32);
  emit(handlers_.integer(IntOp::kLop3, Num::kU32), {to, a, b, c}).immediate =
      static_cast<int64_t>(table->value);
}

void Decoder::count_bits() {
  Modifiers mods(in_->modifiers);
  const bool amount = mods.take("shiftamt");
  const Type type = mods.take_type();
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  const bool find = in_->opcode == "bfind";
  if (!shape || shape->bits < 32 || shape->is_float || (amount && !find) ||
      (find ? is_untyped(type) : !is_untyped(type))) {
    return fail("no such form of the instruction");
  }
  if (in_->opcode == "fns") {
    if (type != Type::kB32) return fail("no such type for this instruction");
    return elementwise(handlers_.integer(IntOp::kFns, Num::kU32), *shape, 3);
  }
  if (!expect_operands(2, 2)) return;
  const IntOp op = in_->opcode == "popc"   ? IntOp::kPopc
                   : in_->opcode == "clz"  ? IntOp::kClz
                   : in_->opcode == "brev" ? IntOp::kBrev
                   : amount                ? IntOp::kBfindShift
                                           : IntOp::kBfind;
  const int32_t to = written(0, op == IntOp::kBrev ? shape->bits : 32);
  const int32_t a = read(1, shape->bits);
  emit(handlers_.integer(op, shape->num), {to, a});
}

void Decoder::bit_field() {
  Modifiers mods(in_->modifiers);
  const bool insert = in_->opcode == "bfi";
  const Type type = mods.take_type();
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || shape->bits < 32 || shape->is_float || insert != is_untyped(type)) {
    return fail("no such type for this instruction");
  }
  if (!expect_operands(insert ? 5 : 4, insert ? 5 : 4)) return;
  const int32_t to = written(0, shape->bits);
  const int32_t a = read(1, shape->bits);
  const int32_t b = read(2, insert ? shape->bits : 32);
  const int32_t c = read(3, 32);
  const int32_t d = insert ? read(4, 32) : kNoSlot;
  emit(handlers_.integer(insert ? IntOp::kBfi : IntOp::kBfe, shape->num), {to, a, b, c, d});
}

void Decoder::prmt() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  const int mode = mods.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  finished(mods);
  if (type != Type::kB32) return fail("no such form of the instruction");
  constexpr IntOp kModes[] = {IntOp::kPrmt,    IntOp::kPrmtF4e, IntOp::kPrmtB4e, IntOp::kPrmtRc8,
                              IntOp::kPrmtEcl, IntOp::kPrmtEcr, IntOp::kPrmtRc16};
  elementwise(handlers_.integer(kModes[mode + 1], Num::kU32), *shape_of(type), 3);
}

// A mask of b bits from bit a on.
void Decoder::bit_mask() {
  Modifiers mods(in_->modifiers);
  const int mode = mods.take_one({"clamp", "wrap"});
  const Type type = mods.take_type();
  finished(mods);
  if (mode < 0 || type != Type::kB32) return fail("no such form of the instruction");
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, 32);
  int32_t from[2];
  for (size_t i = 0; i < 2; ++i) {
    const int32_t value = read(i + 1, 32);
    from[i] = new_slot(32);
    emit(handlers_.integer(mode == 0 ? IntOp::kMin : IntOp::kAnd, Num::kU32),
         {from[i], value, constant(mode == 0 ? 32 : 31, 32)});
  }
  emit(handlers_.integer(IntOp::kBfi, Num::kU32),
       {d, constant(UINT32_MAX, 32), constant(0, 32), from[0], from[1]});
}

// The low b bits of a, extended.
void Decoder::sign_extend() {
  Modifiers mods(in_->modifiers);
  const int mode = mods.take_one({"clamp", "wrap"});
  const Type type = mods.take_type();
  finished(mods);
  if (mode < 0 || (type != Type::kU32 && type != Type::kS32)) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, 32);
  const int32_t a = read(1, 32);
  const int32_t b = read(2, 32);
  const int32_t length = new_slot(32);
  emit(handlers_.integer(mode == 0 ? IntOp::kMin : IntOp::kAnd, Num::kU32),
       {length, b, constant(mode == 0 ? 32 : 31, 32)});
  emit(handlers_.integer(IntOp::kBfe, shape_of(type)->num), {d, a, constant(0, 32), length});
}

void Decoder::dot_product() {
  Modifiers mods(in_->modifiers);
  const bool four = in_->opcode == "dp4a";
  const int part = four ? 0 : mods.take_one({"lo", "hi"});
  const Type a = mods.take_type();
  const Type b = mods.take_type();
  finished(mods);
  const auto sign = [this](Type type) {
    if (type != Type::kU32 && type != Type::kS32) fail("no such type for this instruction");
    return type == Type::kS32 ? 1u : 0u;
  };
  if (part < 0) return fail("no such form of the instruction");
  const IntOp base = four ? IntOp::kDp4aUU : part == 0 ? IntOp::kDp2aLoUU : IntOp::kDp2aHiUU;
  const auto op = static_cast<IntOp>(static_cast<uint32_t>(base) + sign(a) * 2 + sign(b));
  elementwise(handlers_.integer(op, Num::kS32), *shape_of(Type::kU32), 3);
}

// {a, b} to or from a register of their sizes together.
void Decoder::move_vector(const ptx::VectorOperand& parts, const Operand& whole, bool pack,
                          uint32_t bits) {
  const auto count = static_cast<uint32_t>(parts.elements.size());
  const uint32_t part_bits = count == 0 ? 0 : bits / count;
  if (count != 2 && count != 4) return fail("no such number of parts");
  if (part_bits != 8 && part_bits != 16 && part_bits != 32) {
    return fail("parts of that size are not supported");
  }
  const uint32_t slot_bits = std::max(part_bits, 16u);
  const Num part_type = part_bits == 8 ? Num::kU8 : unsigned_of(part_bits);
  const int32_t whole_slot = pack ? written(whole, bits) : read(whole, bits);
  // The destination may be among the sources.
  int32_t sum = kNoSlot;
  std::vector<int32_t> values(count, kNoSlot);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = i * part_bits;
    const int32_t shifted = new_slot(bits);
    if (pack) {
      const int32_t part = read(parts.elements[i], slot_bits);
      emit(handlers_.resize(part_type, slot_bits, bits), {shifted, part});
      const int32_t moved = new_slot(bits);
      emit(handlers_.integer(IntOp::kShl, unsigned_of(bits)), {moved, shifted, constant(at, 32)});
      if (i == 0) {
        sum = moved;
        continue;
      }
      const int32_t to = i + 1 == count ? whole_slot : new_slot(bits);
      emit(handlers_.integer(IntOp::kOr, unsigned_of(bits)), {to, sum, moved});
      sum = to;
    } else {
      emit(handlers_.integer(IntOp::kShr, unsigned_of(bits)),
           {shifted, whole_slot, constant(at, 32)});
      values[i] = shifted;
    }
  }
  for (uint32_t i = 0; i < count && !pack; ++i) {
    const int32_t to = written(parts.elements[i], slot_bits);
    emit(handlers_.resize(part_type, bits, slot_bits), {to, values[i]});
  }
}

void Decoder::move_wide(const Operand& to, const Operand& from) {
  const auto halves = [this](const ptx::VectorOperand& parts, auto&& slot_for) {
    std::pair<int32_t, int32_t> slots{kNoSlot, kNoSlot};
    if (parts.elements.size() != 2) {
      fail("no such number of parts");
      return slots;
    }
    slots.first = slot_for(parts.elements[0]);
    slots.second = slot_for(parts.elements[1]);
    return slots;
  };
  if (const auto* parts = std::get_if<ptx::VectorOperand>(&from.value)) {
    const auto [low, high] = halves(*parts, [&](const Operand& o) { return read(o, 64); });
    emit(handlers_.pack_wide, {written(to, 128), low, high});
  } else if (const auto* whole = std::get_if<ptx::VectorOperand>(&to.value)) {
    const auto [low, high] = halves(*whole, [&](const Operand& o) { return written(o, 64); });
    emit(handlers_.unpack_wide, {low, high, read(from, 128)});
  } else {
    const int32_t d = written(to, 128);
    emit(handlers_.move_wide, {d, read(from, 128)});
  }
}

// Element by element; a destination may be among the sources.
void Decoder::move_elements(Type type, uint32_t count) {
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || ptx::size_of(type) < 2) return fail("no such type for this instruction");
  const std::vector<const Operand*> to = elements(operand(0), count);
  const std::vector<const Operand*> from = elements(operand(1), count);
  if (failed()) return;
  const Handler move = handlers_.integer(IntOp::kMove, unsigned_of(shape->bits));
  std::vector<int32_t> values;
  for (const Operand* each : from) {
    values.push_back(new_slot(shape->bits));
    emit(move, {values.back(), read(*each, shape->bits)});
  }
  for (uint32_t i = 0; i < count; ++i) emit(move, {written(*to[i], shape->bits), values[i]});
}

void Decoder::mov() {
  Modifiers mods(in_->modifiers);
  const bool predicates = mods.take("pred");
  const int vector = mods.take_one({"v2", "v4"});
  const Type type = mods.take_type();
  finished(mods);
  if (!expect_operands(2, 2)) return;
  if (vector >= 0) return move_elements(type, vector == 0 ? 2 : 4);
  if (predicates) {
    bool negated = false;
    const int32_t p = written_predicate(operand(0));
    const int32_t a = read_predicate(operand(1), &negated);
    emit(handlers_.predicate, {p, a, kNoSlot}).code = with_negated(kTableCopy, negated, false);
    return;
  }
  if (type == Type::kB128) return move_wide(operand(0), operand(1));
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || ptx::size_of(type) < 2) return fail("no such type for this instruction");
  const auto* from = std::get_if<ptx::VectorOperand>(&operand(1).value);
  const auto* to = std::get_if<ptx::VectorOperand>(&operand(0).value);
  if (from != nullptr && to != nullptr) return fail("no such form of the instruction");
  if (from != nullptr) return move_vector(*from, operand(0), true, shape->bits);
  if (to != nullptr) return move_vector(*to, operand(1), false, shape->bits);
  const int32_t d = written(0, shape->bits);
  const int32_t a = read(1, shape->bits, shape->is_float);
  emit(handlers_.integer(IntOp::kMove, unsigned_of(shape->bits)), {d, a});
}

void Decoder::selp() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || ptx::size_of(type) < 2) return fail("no such type for this instruction");
  if (!expect_operands(4, 4)) return;
  bool negated = false;
  const int32_t d = written(0, shape->bits);
  int32_t a = read(1, shape->bits, shape->is_float);
  int32_t b = read(2, shape->bits, shape->is_float);
  const int32_t p = read_predicate(operand(3), &negated);
  if (negated) std::swap(a, b);
  emit(handlers_.integer(IntOp::kSelect, unsigned_of(shape->bits)), {d, a, b, p});
}

// a where c is not negative (and no NaN), else b.
void Decoder::slct() {
  Modifiers mods(in_->modifiers);
  const uint8_t flags = mods.take("ftz") ? kFlush : 0;
  const Type type = mods.take_type();
  const Type control = mods.take_type();
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || ptx::size_of(type) < 2 || (control != Type::kS32 && control != Type::kF32) ||
      (flags != 0 && control != Type::kF32)) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(4, 4)) return;
  const Shape by = *shape_of(control);
  const int32_t d = written(0, shape->bits);
  const int32_t a = read(1, shape->bits, shape->is_float);
  const int32_t b = read(2, shape->bits, shape->is_float);
  const int32_t c = read(3, 32, by.is_float);
  const int32_t p = new_slot(1);
  emit(handlers_.compare(Compare::kGe, by.num, flags), {p, kNoSlot, c, constant(0, 32)});
  emit(handlers_.integer(IntOp::kSelect, unsigned_of(shape->bits)), {d, a, b, p});
}

std::optional<Compare> Decoder::take_compare(Modifiers& mods) {
  const int index = mods.take_one({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu",
                                   "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs"});
  if (index < 0) return std::nullopt;
  constexpr Compare kUnsigned[] = {Compare::kLt, Compare::kLe, Compare::kGt, Compare::kGe};
  return index < 14 ? static_cast<Compare>(index) : kUnsigned[index - 14];
}

Combine Decoder::take_combine(Modifiers& mods) {
  const int index = mods.take_one({"and", "or", "xor"});
  return static_cast<Combine>(index + 1);
}

// Sources from operand `first` on, and the predicate to combine with where there is one.
void Decoder::compare(Modifiers& mods, int32_t p, int32_t q, size_t first, Combine combine,
                      Compare compare_op, Type type) {
  const uint8_t flags = type == Type::kF32 && mods.take("ftz") ? kFlush : 0;
  finished(mods);
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || ptx::size_of(type) < 2 || is_half_pair(type)) {
    return fail("no such type for this instruction");
  }
  if (is_untyped(type) && compare_op != Compare::kEq && compare_op != Compare::kNe) {
    return fail("no such comparison for this type");
  }
  const bool unsigned_only = std::any_of(
      in_->modifiers.begin(), in_->modifiers.end(),
      [](std::string_view m) { return m == "lo" || m == "ls" || m == "hi" || m == "hs"; });
  if (unsigned_only && (shape->is_signed || shape->is_float || is_half(type))) {
    return fail("no such comparison for this type");
  }
  const size_t last = first + (combine == Combine::kNone ? 2 : 3);
  if (!expect_operands(last, last)) return;
  bool negated = false;
  int32_t a = read(first, shape->bits, shape->is_float);
  int32_t b = read(first + 1, shape->bits, shape->is_float);
  Num num = shape->num;
  if (is_half(type)) {
    a = single_of(a, type);
    b = single_of(b, type);
    num = Num::kF32;
  }
  const int32_t c =
      combine == Combine::kNone ? kNoSlot : read_predicate(operand(first + 2), &negated);
  Op& op = emit(handlers_.compare(compare_op, num, flags), {p, q, a, b, c});
  op.code = static_cast<uint8_t>(static_cast<uint8_t>(combine) | (negated ? 0x80 : 0));
}

int32_t Decoder::single_of(int32_t slot, Type type, bool upper) {
  const bool brain = type == Type::kBF16 || type == Type::kBF16x2;
  if (is_half_pair(type)) {
    int32_t word = slot;
    if (upper) {
      word = new_slot(32);
      emit(handlers_.integer(IntOp::kShr, Num::kU32), {word, slot, constant(16, 32)});
    }
    slot = new_slot(16);
    emit(handlers_.resize(Num::kU16, 32, 16), {slot, word});
  }
  const int32_t single = new_slot(32);
  emit(handlers_.from_half(brain ? Half::kBF16 : Half::kF16, Num::kF32), {single, slot});
  return single;
}

// p from the lower halves, q from the upper ones.
void Decoder::setp_pair(Modifiers& mods, Compare compare_op, Combine combine, Type type) {
  finished(mods);
  const auto* pair = std::get_if<ptx::PairOperand>(&operand(0).value);
  if (pair == nullptr) return fail("two predicates are wanted");
  const size_t last = combine == Combine::kNone ? 3 : 4;
  if (!expect_operands(last, last)) return;
  bool negated = false;
  const int32_t a = read(1, 32);
  const int32_t b = read(2, 32);
  const int32_t c = combine == Combine::kNone ? kNoSlot : read_predicate(operand(3), &negated);
  for (size_t i = 0; i < 2; ++i) {
    if (std::holds_alternative<ptx::SinkOperand>(pair->elements[i].value)) continue;
    const int32_t left = single_of(a, type, i == 1);
    const int32_t right = single_of(b, type, i == 1);
    const int32_t p = written_predicate(pair->elements[i]);
    Op& op = emit(handlers_.compare(compare_op, Num::kF32, 0), {p, kNoSlot, left, right, c});
    op.code = static_cast<uint8_t>(static_cast<uint8_t>(combine) | (negated ? 0x80 : 0));
  }
}

void Decoder::setp() {
  Modifiers mods(in_->modifiers);
  const std::optional<Compare> compare_op = take_compare(mods);
  const Combine combine = take_combine(mods);
  const Type type = mods.take_type();
  if (!compare_op) return fail("no comparison is named");
  if (!expect_operands(3, 4)) return;
  if (is_half_pair(type)) return setp_pair(mods, *compare_op, combine, type);
  int32_t p = kNoSlot, q = kNoSlot;
  if (const auto* pair = std::get_if<ptx::PairOperand>(&operand(0).value)) {
    p = written_predicate(pair->elements[0]);
    q = written_predicate(pair->elements[1]);
  } else {
    p = written_predicate(operand(0));
  }
  compare(mods, p, q, 1, combine, *compare_op, type);
}

// Each half on its own.
void Decoder::set_half_pair(Compare compare_op, Type to, Type type) {
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, 32);
  const int32_t a = read(1, 32);
  const int32_t b = read(2, 32);
  const int32_t none = constant(0, 32);
  int32_t part[2];
  for (uint32_t i = 0; i < 2; ++i) {
    const int32_t left = single_of(a, type, i == 1);
    const int32_t right = single_of(b, type, i == 1);
    const int32_t p = new_slot(1);
    emit(handlers_.compare(compare_op, Num::kF32, 0), {p, kNoSlot, left, right, kNoSlot});
    part[i] = new_slot(32);
    emit(handlers_.integer(IntOp::kSelect, Num::kU32),
         {part[i], constant((truth(to) & 0xffff) << (16 * i), 32), none, p});
  }
  emit(handlers_.integer(IntOp::kOr, Num::kU32), {d, part[0], part[1]});
}

// All ones or 1.0 where the comparison holds.
void Decoder::set() {
  Modifiers mods(in_->modifiers);
  const std::optional<Compare> compare_op = take_compare(mods);
  const Combine combine = take_combine(mods);
  const Type to = mods.take_type();
  const Type type = mods.take_type();
  const bool word = to == Type::kU32 || to == Type::kS32;
  if (compare_op && is_half_pair(type) && (word || to == type) && combine == Combine::kNone) {
    finished(mods);
    return set_half_pair(*compare_op, to, type);
  }
  const bool small = is_half(to) || to == Type::kU16 || to == Type::kS16;
  if (!compare_op || (!word && to != Type::kF32 && !(small && is_half(type)))) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(3, 4)) return;
  const uint32_t bits = small ? 16 : 32;
  const int32_t p = new_slot(1);
  const int32_t d = written(0, bits);
  compare(mods, p, kNoSlot, 1, combine, *compare_op, type);
  emit(handlers_.integer(IntOp::kSelect, unsigned_of(bits)),
       {d, constant(truth(to), bits), constant(0, bits), p});
}

}  // namespace simcuda
