// Loads, stores, atomics and conversions of addresses.
#include <algorithm>

#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/special.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

MemorySpace memory_space(ptx::Space space, bool kernel) {
  switch (space) {
    case ptx::Space::kGlobal:
    case ptx::Space::kConst:
      return MemorySpace::kGlobal;
    case ptx::Space::kShared:
      return MemorySpace::kShared;
    case ptx::Space::kLocal:
      return MemorySpace::kLocal;
    case ptx::Space::kParam:
      return kernel ? MemorySpace::kParam : MemorySpace::kLocal;
    default:
      return MemorySpace::kGeneric;
  }
}

std::optional<Shape> memory_shape(ptx::Type type, bool vector) {
  if (type == ptx::Type::kB128 && !vector) return Shape{Num::kU64, 128, false, false};
  return shape_of(type);
}

}  // namespace

ptx::Space Decoder::take_space(Modifiers& mods) {
  const int index = mods.take_one({"global", "shared", "local", "const", "param", "shared::cta",
                                   "param::entry", "param::func", "shared::cluster"});
  constexpr ptx::Space kSpaces[] = {ptx::Space::kGlobal, ptx::Space::kShared, ptx::Space::kLocal,
                                    ptx::Space::kConst,  ptx::Space::kParam,  ptx::Space::kShared,
                                    ptx::Space::kParam,  ptx::Space::kParam,  ptx::Space::kShared};
  return index < 0 ? ptx::Space::kGeneric : kSpaces[index];
}

bool Decoder::take_access_modifiers(Modifiers& mods) {
  mods.take("mmio");  // comes with an order
  const int order = mods.take_one({"volatile", "relaxed", "acquire", "release", "acq_rel"});
  mods.take("weak");
  mods.take_one({"cta", "cluster", "gpu", "sys"});
  mods.take_one({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  mods.take("nc");
  for (const std::string_view name : in_->modifiers) {
    if (name.starts_with("L1::") || name.starts_with("L2::evict") || name.starts_with("L2::64B") ||
        name.starts_with("L2::128B") || name.starts_with("L2::256B")) {
      mods.take(name);
    }
  }
  return order >= 0;
}

// A cache policy, which is the last operand, changes nothing.
bool Decoder::take_policy(Modifiers& mods) {
  if (!mods.take("L2::cache_hint")) return true;
  if (operands() == 0) {
    fail("wrong number of operands");
    return false;
  }
  read(operands() - 1, 64);
  hints_ = 1;
  return !failed();
}

void Decoder::create_policy() {
  Modifiers mods(in_->modifiers);
  const int kind = mods.take_one({"fractional", "range", "cvt"});
  mods.take("L2");
  take_space(mods);
  for (const std::string_view name : in_->modifiers) {
    if (name.starts_with("L2::evict")) mods.take(name);
  }
  const Type type = mods.take_type();
  finished(mods);
  if (kind < 0 || type != Type::kB64) return fail("no such form of the instruction");
  if (!expect_operands(1, 4)) return;
  emit(handlers_.integer(IntOp::kMove, Num::kU64), {written(0, 64), constant(0, 64)});
}

// A cluster is one block: what is at an address in its shared memory is in the block of rank 0.
void Decoder::map_rank() {
  Modifiers mods(in_->modifiers);
  const bool map = in_->opcode == "mapa";
  take_space(mods);
  const Type type = mods.take_type();
  finished(mods);
  if (type != Type::kU32 && type != Type::kU64) return fail("no such form of the instruction");
  const size_t count = map ? 3 : 2;
  if (!expect_operands(count, count)) return;
  const uint32_t bits = ptx::size_of(type) * 8;
  if (!map) {
    emit(handlers_.integer(IntOp::kMove, Num::kU32), {written(0, 32), constant(0, 32)});
    read(1, bits);
    return;
  }
  read(2, 32);
  const int32_t d = written(0, bits);
  emit(handlers_.integer(IntOp::kMove, unsigned_of(bits)), {d, read(1, bits)});
}

bool Decoder::address(const Operand& operand, Space space, Op& op) {
  const auto* at = std::get_if<ptx::AddressOperand>(&operand.value);
  if (at == nullptr) {
    fail("an address is wanted");
    return false;
  }
  MemorySpace memory = memory_space(space, function_.is_kernel);
  op.immediate = at->offset;
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&at->base)) {
    const uint32_t bits = register_bits(reg->index);
    if (bits != 32 && bits != 64) fail("an address needs a register of 32 or 64 bits");
    op.slot[kAddressSlot] = register_slot(reg->index);
    if (bits == 32) op.flags |= kAddress32;
  } else if (const auto* symbol = std::get_if<ptx::Symbol>(&at->base)) {
    const ptx::Variable* v = variable(*symbol);
    if (v == nullptr) {
      fail("code cannot be read or written");
      return false;
    }
    const bool in_global = v->space == Space::kGlobal || v->space == Space::kConst;
    const bool has_window = v->space == Space::kShared || v->space == Space::kLocal;
    if (v->space != space && !(space == Space::kGeneric && (in_global || has_window))) {
      fail("variable " + v->name + " is not in that space");
      return false;
    }
    if (has_window) memory = memory_space(v->space, function_.is_kernel);
    const FunctionLayout& layout = layout_.function(index_);
    const bool module_scope = symbol->scope == ptx::SymbolScope::kModuleVariable;
    if (in_global) {
      op.slot[kAddressSlot] = symbol_constant(
          module_scope ? layout_.global(symbol->index) : layout.globals[symbol->index], 0, 64);
    } else if (v->space == Space::kShared) {
      op.immediate += static_cast<int64_t>(module_scope ? layout_.shared_address(symbol->index)
                                                        : layout.variables[symbol->index]);
    } else if (symbol->scope == ptx::SymbolScope::kParameter && function_.is_kernel) {
      op.immediate += static_cast<int64_t>(layout.parameters[symbol->index]);
    } else {
      const auto& offsets = symbol->scope == ptx::SymbolScope::kParameter ? layout.parameters
                            : symbol->scope == ptx::SymbolScope::kReturn  ? layout.results
                                                                          : layout.variables;
      memory = MemorySpace::kLocal;
      op.flags |= kFrameRelative;
      op.immediate += static_cast<int64_t>(offsets[symbol->index]);
    }
  }
  op.code = static_cast<uint8_t>(memory);
  op.hint = memory_ops_++;
  return !failed();
}

std::vector<const ptx::Operand*> Decoder::elements(const Operand& operand, uint32_t count) {
  std::vector<const Operand*> list;
  if (const auto* vector = std::get_if<ptx::VectorOperand>(&operand.value)) {
    for (const Operand& e : vector->elements) list.push_back(&e);
  } else {
    list.push_back(&operand);
  }
  if (list.size() != count) fail("the number of values does not match the instruction");
  return list;
}

void Decoder::ld() {
  Modifiers mods(in_->modifiers);
  const bool strong = take_access_modifiers(mods);
  const Space space = take_space(mods);
  const int vector = mods.take_one({"v2", "v4"});
  const Type type = mods.take_type();
  if (!take_policy(mods)) return;
  finished(mods);
  const std::optional<Shape> shape = memory_shape(type, vector >= 0);
  if (!shape) return fail("no such type for this instruction");
  if (!expect_operands(2, 2)) return;
  const uint32_t count = vector < 0 ? 1 : vector == 0 ? 2 : 4;
  Op access;
  if (!address(operand(1), space, access)) return;
  uint32_t bits = shape->bits;
  const std::vector<const Operand*> values = elements(operand(0), count);
  for (const Operand* value : values) {
    if (const auto* reg = std::get_if<ptx::RegisterOperand>(&value->value)) {
      bits = std::max(bits, register_bits(reg->index));
    }
  }
  for (uint32_t i = 0; i < count && !failed(); ++i) {
    if (std::holds_alternative<ptx::SinkOperand>(values[i]->value)) continue;
    access.slot[i] = written(*values[i], bits);
  }
  Op& op = emit(handlers_.load(shape->num, bits));
  std::copy(std::begin(access.slot), std::end(access.slot), op.slot);
  op.immediate = access.immediate;
  op.flags = static_cast<uint8_t>(access.flags | (strong ? kStrong : 0));
  op.code = access.code;
  op.hint = access.hint;
  op.vector = static_cast<uint8_t>(count);
}

void Decoder::st() {
  Modifiers mods(in_->modifiers);
  const bool strong = take_access_modifiers(mods);
  const Space space = take_space(mods);
  const int vector = mods.take_one({"v2", "v4"});
  const Type type = mods.take_type();
  if (!take_policy(mods)) return;
  finished(mods);
  const std::optional<Shape> shape = memory_shape(type, vector >= 0);
  if (!shape) return fail("no such type for this instruction");
  if (space == Space::kConst) return fail("constant memory cannot be written");
  if (!expect_operands(2, 2)) return;
  const uint32_t count = vector < 0 ? 1 : vector == 0 ? 2 : 4;
  Op access;
  if (!address(operand(0), space, access)) return;
  uint32_t bits = shape->bits;
  const std::vector<const Operand*> values = elements(operand(1), count);
  for (const Operand* value : values) {
    if (const auto* reg = std::get_if<ptx::RegisterOperand>(&value->value)) {
      bits = std::max(bits, register_bits(reg->index));
    }
  }
  for (uint32_t i = 0; i < count && !failed(); ++i) {
    access.slot[i] = read(*values[i], bits, shape->is_float);
  }
  Op& op = emit(handlers_.store(ptx::size_of(type), bits));
  std::copy(std::begin(access.slot), std::end(access.slot), op.slot);
  op.immediate = access.immediate;
  op.flags = static_cast<uint8_t>(access.flags | (strong ? kStrong : 0));
  op.code = access.code;
  op.hint = access.hint;
  op.vector = static_cast<uint8_t>(count);
}

// Hints: nothing happens, also for addresses that are not there.
void Decoder::prefetch() {
  Modifiers mods(in_->modifiers);
  take_space(mods);
  for (const std::string_view name : in_->modifiers) {
    if (name.starts_with("L1") || name.starts_with("L2")) mods.take(name);
  }
  finished(mods);
  // discard leaves its bytes undefined: leaving them as they are is one of the possibilities.
  emit_control(OpKind::kPlain);
}

void Decoder::fence() {
  Modifiers mods(in_->modifiers);
  mods.take_one({"cta", "gl", "sys", "gpu", "cluster"});
  mods.take_one({"sc", "acq_rel", "acquire", "release"});
  mods.take_one({"cta", "gpu", "sys", "cluster"});
  mods.take("mbarrier_init");
  // Every kind of access sees memory as the others do.
  if (mods.take("proxy")) {
    mods.take_one({"alias", "async", "async::generic"});
    take_space(mods);
  }
  mods.take_one({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  finished(mods);
  if (!expect_operands(0, 0)) return;
  emit(fence_handler());
}

// Global, constant and generic addresses are the same; the other spaces have windows.
void Decoder::cvta() {
  Modifiers mods(in_->modifiers);
  const bool to = mods.take("to");
  const Space space = take_space(mods);
  const Type type = mods.take_type();
  finished(mods);
  if ((type != Type::kU64 && type != Type::kU32) || space == Space::kGeneric) {
    return fail("no such form of the instruction");
  }
  if (type == Type::kU32) return fail("generic addresses have 64 bits");
  if (!expect_operands(2, 2)) return;
  const bool of_kernel = space == Space::kParam && function_.is_kernel;
  const uint64_t window = space == Space::kShared                            ? kSharedWindow
                          : of_kernel                                        ? kParameterWindow
                          : space == Space::kLocal || space == Space::kParam ? kLocalWindow
                                                                             : 0;
  const int32_t d = written(0, 64);
  const int32_t a = read(1, 64);
  if (window == 0) {
    emit(handlers_.integer(IntOp::kMove, Num::kU64), {d, a});
    return;
  }
  emit(handlers_.integer(to ? IntOp::kSub : IntOp::kAdd, Num::kU64), {d, a, constant(window, 64)});
}

void Decoder::isspacep() {
  Modifiers mods(in_->modifiers);
  const Space space = take_space(mods);
  finished(mods);
  if (!expect_operands(2, 2)) return;
  const int32_t p = written_predicate(operand(0));
  const int32_t a = read(1, 64);
  const int32_t offset = new_slot(64);
  const auto in_window = [&](uint64_t window, Compare compare_op, uint64_t size, int32_t to) {
    emit(handlers_.integer(IntOp::kSub, Num::kU64), {offset, a, constant(window, 64)});
    emit(handlers_.compare(compare_op, Num::kU64, 0), {to, kNoSlot, offset, constant(size, 64)});
  };
  switch (space) {
    case Space::kShared:
      return in_window(kSharedWindow, Compare::kLt, kWindowBytes, p);
    case Space::kLocal:
      return in_window(kLocalWindow, Compare::kLt, kWindowBytes, p);
    case Space::kParam:
      return in_window(kParameterWindow, Compare::kLt, kWindowBytes, p);
    case Space::kGlobal:
      // All that lies in none of the windows, which follow one another.
      return in_window(kSharedWindow, Compare::kGe, kParameterWindow + kWindowBytes - kSharedWindow,
                       p);
    case Space::kConst: {
      // Its variables are among those in global memory.
      emit(handlers_.predicate, {p, p, kNoSlot}).code = 0;
      for (uint32_t i = 0; i < code_.globals.size(); ++i) {
        const ptx::Variable& v = *code_.globals[i].variable;
        if (v.space != Space::kConst) continue;
        const int32_t within = new_slot(1);
        emit(handlers_.integer(IntOp::kSub, Num::kU64), {offset, a, symbol_constant(i, 0, 64)});
        emit(handlers_.compare(Compare::kLt, Num::kU64, 0),
             {within, kNoSlot, offset, constant(v.size, 64)});
        constexpr uint8_t kEither = 0b1110;
        emit(handlers_.predicate, {p, p, within}).code = kEither;
      }
      return;
    }
    default:
      return fail("no such space");
  }
}

// Where it is in the generic space, in a register of its own.
int32_t Decoder::generic_address(const Operand& operand, Space space) {
  Op access;
  if (!address(operand, space, access)) return 0;
  if ((access.flags & kFrameRelative) != 0) {
    fail("local memory cannot be accessed so");
    return 0;
  }
  const uint64_t window =
      access.code == static_cast<uint8_t>(MemorySpace::kShared) ? kSharedWindow : 0;
  auto offset = static_cast<uint64_t>(access.immediate);
  int32_t base = access.slot[kAddressSlot];
  if (base == kNoSlot) return constant(offset + window, 64);
  if ((access.flags & kAddress32) != 0) {
    if (window != 0) {  // wraps at 32 bits
      const int32_t within = new_slot(32);
      emit(handlers_.integer(IntOp::kAdd, Num::kU32), {within, base, constant(offset, 32)});
      base = within;
      offset = 0;
    }
    const int32_t wide = new_slot(64);
    emit(handlers_.resize(Num::kU32, 32, 64), {wide, base});
    base = wide;
  }
  const int32_t sum = new_slot(64);
  emit(handlers_.integer(IntOp::kAdd, Num::kU64), {sum, base, constant(offset + window, 64)});
  return sum;
}

// Each element is an atomic operation of its own.
void Decoder::vector_atom(AtomicOp op, AtomicType type, const Shape& shape, uint32_t count) {
  const bool reduction = in_->opcode == "red";
  const size_t first = reduction ? 0 : 1;
  if (!expect_operands(first + 2, first + 2)) return;
  const int32_t base = generic_address(operand(first), Space::kGlobal);
  if (failed()) return;
  std::vector<int32_t> results;
  const std::vector<const Operand*> values = elements(operand(first + 1), count);
  for (uint32_t i = 0; i < count && !failed(); ++i) {
    results.push_back(new_slot(shape.bits));
    const int32_t b = read(*values[i], shape.bits, shape.is_float);
    Op& made = emit(handlers_.atomic(op, type), {results[i], b});
    made.slot[kAddressSlot] = base;
    made.immediate = i * (shape.bits / 8);
    made.code = static_cast<uint8_t>(MemorySpace::kGlobal);
    made.hint = memory_ops_++;
  }
  if (reduction || failed()) return;
  const std::vector<const Operand*> to = elements(operand(0), count);
  for (uint32_t i = 0; i < count && !failed(); ++i) {
    if (std::holds_alternative<ptx::SinkOperand>(to[i]->value)) continue;
    emit(handlers_.integer(IntOp::kMove, unsigned_of(shape.bits)),
         {written(*to[i], shape.bits), results[i]});
  }
}

void Decoder::atom() {
  Modifiers mods(in_->modifiers);
  const bool reduction = in_->opcode == "red";
  take_access_modifiers(mods);
  const Space space = take_space(mods);
  const int name =
      mods.take_one({"add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec"});
  const bool keeps_denormals = mods.take("noftz");
  const int vector = mods.take_one({"v2", "v4", "v8"});
  const Type type = mods.take_type();
  if (!take_policy(mods)) return;
  finished(mods);
  const bool half =
      type == Type::kF16 || type == Type::kF16x2 || type == Type::kBF16 || type == Type::kBF16x2;
  if (half != keeps_denormals) return fail(".noftz goes with the half-precision types");
  if (name < 0) return fail("no such operation");
  if (space != Space::kGeneric && space != Space::kGlobal && space != Space::kShared) {
    return fail("no atomics in that space");
  }
  const auto op_code = static_cast<AtomicOp>(name);
  if (reduction && (op_code == AtomicOp::kExchange || op_code == AtomicOp::kCas)) {
    return fail("no such operation");
  }
  const std::optional<Shape> shape = memory_shape(type, false);
  const std::optional<AtomicType> atomic_type = atomic_type_of(type);
  if (!shape || !atomic_type) return fail("no such type for this instruction");
  if (vector >= 0) {
    if (space != Space::kGlobal || (type != Type::kF32 && !half) || op_code == AtomicOp::kCas) {
      return fail("no such form of the instruction");
    }
    return vector_atom(op_code, *atomic_type, *shape, 2u << vector);
  }
  const size_t sources = op_code == AtomicOp::kCas ? 2 : 1;
  const size_t first = reduction ? 0 : 1;
  if (!expect_operands(first + 1 + sources, first + 1 + sources)) return;
  Op access;
  if (!address(operand(first), space, access)) return;
  const bool unused = reduction || std::holds_alternative<ptx::SinkOperand>(operand(0).value);
  const int32_t d = unused ? kNoSlot : written(0, shape->bits);
  const int32_t b = read(first + 1, shape->bits, shape->is_float);
  const int32_t c = sources == 2 ? read(first + 2, shape->bits, shape->is_float) : kNoSlot;
  Op& op = emit(handlers_.atomic(op_code, *atomic_type), {d, b, c});
  op.slot[kAddressSlot] = access.slot[kAddressSlot];
  op.immediate = access.immediate;
  op.flags = access.flags;
  op.code = access.code;
  op.hint = access.hint;
}

std::optional<AtomicType> Decoder::atomic_type_of(Type type) {
  switch (type) {
    case Type::kB16:
      return AtomicType::kB16;
    case Type::kB32:
      return AtomicType::kB32;
    case Type::kB64:
      return AtomicType::kB64;
    case Type::kU32:
      return AtomicType::kU32;
    case Type::kU64:
      return AtomicType::kU64;
    case Type::kS32:
      return AtomicType::kS32;
    case Type::kS64:
      return AtomicType::kS64;
    case Type::kF32:
      return AtomicType::kF32;
    case Type::kF64:
      return AtomicType::kF64;
    case Type::kF16:
      return AtomicType::kF16;
    case Type::kF16x2:
      return AtomicType::kF16x2;
    case Type::kBF16:
      return AtomicType::kBF16;
    case Type::kBF16x2:
      return AtomicType::kBF16x2;
    case Type::kB128:
      return AtomicType::kB128;
    default:
      return std::nullopt;
  }
}

}  // namespace simcuda
