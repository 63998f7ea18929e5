// Operands: registers, constants, special registers and symbols become slots.
#include <algorithm>
#include <cstring>

#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/special.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

uint64_t low(uint64_t value, uint32_t bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

// The float nearest to the double that the source says.
uint64_t single(uint64_t double_bits) {
  double d = 0;
  std::memcpy(&d, &double_bits, sizeof d);
  const auto f = static_cast<float>(d);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

}  // namespace

bool Decoder::expect_operands(size_t least, size_t most) {
  if (operands() >= least && operands() <= most) return true;
  fail("wrong number of operands");
  return false;
}

int32_t Decoder::new_slot(uint32_t bits) {
  constexpr int64_t kMost = INT32_MAX / 2;
  if (bits == 1 && predicate_room_ > 0) {
    predicate_room_ -= 4;
    return static_cast<int32_t>(register_bytes_ - predicate_room_ - 4);
  }
  // A line of predicates is left half used when another register is placed.
  const int64_t at = register_bytes_;
  if (at > kMost) {
    fail("too many registers");
    return 0;
  }
  if (bits == 1) {
    predicate_room_ = 60;
    register_bytes_ += 64;
    return static_cast<int32_t>(at);
  }
  predicate_room_ = 0;
  register_bytes_ += int64_t{bits} * kLanes / 8;
  return static_cast<int32_t>(at);
}

uint32_t Decoder::register_bits(ptx::RegisterIndex index) const {
  const Type type = function_.registers[index].type;
  if (type == Type::kPred) return 1;
  const uint32_t bytes = ptx::size_of(type);
  return bytes == 1 ? 16 : bytes * 8;
}

int32_t Decoder::register_slot(ptx::RegisterIndex index) {
  if (slots_[index] == kNoSlot) {
    const uint32_t bits = register_bits(index);
    slots_[index] = new_slot(bits);
  }
  return slots_[index];
}

int32_t Decoder::constant(uint64_t value, uint32_t bits) {
  value = low(value, bits);
  const auto known = constants_.find({value, bits});
  if (known != constants_.end()) return known->second;
  if (constant_bytes_ > INT32_MAX / 2) fail("too many constants");
  constant_bytes_ += static_cast<int32_t>(bits < 16 ? 64 : bits * kLanes / 8);
  out_.constants.push_back({-constant_bytes_, bits, value, UINT32_MAX});
  constants_.emplace(std::pair{value, bits}, -constant_bytes_);
  return -constant_bytes_;
}

int32_t Decoder::symbol_constant(uint32_t global, uint64_t addend, uint32_t bits) {
  constant_bytes_ += static_cast<int32_t>(bits * kLanes / 8);
  out_.constants.push_back({-constant_bytes_, bits, addend, global});
  return -constant_bytes_;
}

const ptx::Variable* Decoder::variable(ptx::Symbol symbol) const {
  switch (symbol.scope) {
    case ptx::SymbolScope::kModuleVariable:
      return &module_.variables[symbol.index];
    case ptx::SymbolScope::kLocalVariable:
      return &function_.variables[symbol.index];
    case ptx::SymbolScope::kParameter:
      return &function_.parameters[symbol.index];
    case ptx::SymbolScope::kReturn:
      return &function_.returns[symbol.index];
    case ptx::SymbolScope::kFunction:
      break;
  }
  return nullptr;
}

// A symbol's address in its own space.
int32_t Decoder::symbol_value(const ptx::SymbolOperand& operand, uint32_t bits) {
  const ptx::Symbol symbol = operand.symbol;
  const auto addend = static_cast<uint64_t>(operand.offset);
  const FunctionLayout& layout = layout_.function(index_);
  if (bits != 64 && bits != 32) {
    fail("an address needs a register of 32 or 64 bits");
    return 0;
  }
  if (symbol.scope == ptx::SymbolScope::kFunction) {
    return constant(kCodeWindow + symbol.index * kCodeStep, bits);
  }
  const ptx::Variable* v = variable(symbol);
  const bool module_scope = symbol.scope == ptx::SymbolScope::kModuleVariable;
  if (v->space == Space::kGlobal || v->space == Space::kConst) {
    if (bits != 64) fail("the address of a variable in global memory has 64 bits");
    return symbol_constant(
        module_scope ? layout_.global(symbol.index) : layout.globals[symbol.index], addend, bits);
  }
  if (v->space == Space::kShared) {
    const uint64_t at =
        module_scope ? layout_.shared_address(symbol.index) : layout.variables[symbol.index];
    return constant(at + addend, bits);
  }
  if (symbol.scope == ptx::SymbolScope::kParameter && function_.is_kernel) {
    return constant(layout.parameters[symbol.index] + addend, bits);
  }
  const uint64_t at = symbol.scope == ptx::SymbolScope::kParameter ? layout.parameters[symbol.index]
                      : symbol.scope == ptx::SymbolScope::kReturn  ? layout.results[symbol.index]
                                                                   : layout.variables[symbol.index];
  const int32_t slot = new_slot(bits);
  Op& op = emit(frame_address_handler(bits), {slot});
  op.immediate = static_cast<int64_t>(at + addend);
  return slot;
}

int32_t Decoder::special(std::string_view name, uint32_t bits) {
  const std::optional<SpecialRegister> found = special_register(name);
  if (!found) {
    fail("special register " + std::string(name) + " is not supported");
    return 0;
  }
  code_.uses_reserved_shared |= found->code >= Special::kReservedBegin;
  // A narrower read takes the low bits, a wider one is extended with zeros.
  const int32_t slot = new_slot(found->bits);
  Op& op = emit(special_handler(found->bits), {slot});
  op.code = static_cast<uint8_t>(found->code);
  if (found->bits == bits) return slot;
  const int32_t sized = new_slot(bits);
  emit(handlers_.resize(unsigned_of(std::min(bits, found->bits)), found->bits, bits),
       {sized, slot});
  return sized;
}

int32_t Decoder::read(const Operand& operand, uint32_t bits, bool is_float) {
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&operand.value)) {
    if (reg->negated) fail("only a predicate can be negated");
    if (register_bits(reg->index) != bits) {
      fail("register " + function_.registers[reg->index].name + " has the wrong size");
    }
    return register_slot(reg->index);
  }
  if (const auto* integer = std::get_if<ptx::IntegerOperand>(&operand.value)) {
    if (is_float) fail("an integer where a floating-point value is wanted");
    return constant(integer->value, bits);
  }
  if (const auto* real = std::get_if<ptx::FloatOperand>(&operand.value)) {
    if (bits == 64) {
      if (!real->is_double) fail("a single-precision constant where 64 bits are wanted");
      return constant(real->bits, 64);
    }
    if (bits == 32) return constant(real->is_double ? single(real->bits) : real->bits, 32);
    fail("a floating-point constant of that size is not supported");
    return 0;
  }
  if (const auto* reg = std::get_if<ptx::SpecialOperand>(&operand.value)) {
    return special(reg->name, bits);
  }
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&operand.value)) {
    return symbol_value(*symbol, bits);
  }
  fail("an operand of the wrong kind");
  return 0;
}

int32_t Decoder::read(size_t index, uint32_t bits, bool is_float) {
  return read(operand(index), bits, is_float);
}

int32_t Decoder::read_predicate(const Operand& operand, bool* negated) {
  *negated = false;
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&operand.value)) {
    if (register_bits(reg->index) != 1) fail("a predicate is wanted");
    *negated = reg->negated;
    return register_slot(reg->index);
  }
  if (const auto* integer = std::get_if<ptx::IntegerOperand>(&operand.value)) {
    return constant(integer->value != 0 ? 1 : 0, 1);
  }
  const auto* reg = std::get_if<ptx::SpecialOperand>(&operand.value);
  // Launches that name the size of their clusters have clusters of one block, too.
  if (reg != nullptr && reg->name == "%is_explicit_cluster") return constant(0, 1);
  fail("a predicate is wanted");
  return 0;
}

int32_t Decoder::written(const Operand& operand, uint32_t bits) {
  if (std::holds_alternative<ptx::SinkOperand>(operand.value)) return new_slot(bits);
  const auto* reg = std::get_if<ptx::RegisterOperand>(&operand.value);
  if (reg == nullptr || reg->negated) {
    fail("the destination must be a register");
    return 0;
  }
  if (register_bits(reg->index) != bits) {
    fail("register " + function_.registers[reg->index].name + " has the wrong size");
  }
  return register_slot(reg->index);
}

int32_t Decoder::written_predicate(const Operand& operand) {
  return written(operand, 1);
}

int32_t Decoder::read_wide(const Operand& operand, uint32_t least, uint32_t* bits, bool is_float) {
  *bits = least;
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&operand.value)) {
    *bits = std::max(register_bits(reg->index), least);
  }
  return read(operand, *bits, is_float);
}

int32_t Decoder::written_wide(const Operand& operand, uint32_t least, uint32_t* bits) {
  *bits = least;
  if (const auto* reg = std::get_if<ptx::RegisterOperand>(&operand.value)) {
    *bits = std::max(register_bits(reg->index), least);
  }
  return written(operand, *bits);
}

// The mode named, or the nearest.
Rounding Decoder::take_rounding(Modifiers& mods, bool* named) {
  const int mode = mods.take_one({"rn", "rz", "rm", "rp"});
  if (named != nullptr) *named = mode >= 0;
  return mode < 0 ? Rounding::kNearest : static_cast<Rounding>(mode);
}

void Decoder::finished(const Modifiers& mods) {
  if (!mods.left().empty())
    fail("modifier ." + std::string(mods.left()) + " is not supported here");
}

}  // namespace simcuda
