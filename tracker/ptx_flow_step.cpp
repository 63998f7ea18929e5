// Follows values through each kind of instruction.

#include <algorithm>

#include "tracker/ptx_flow_state.h"

namespace gpusnap::ptx {
namespace {

// Offsets and masks below it move an address by less than any allocation's alignment.
constexpr uint64_t kSmall = 4096;
// Bytes of one parameter that are told apart when it is passed on: all that kernels can have.
constexpr uint64_t kMostPassed = 32768;

bool is_float(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
    case Type::kBF16:
    case Type::kBF16x2:
    case Type::kF32:
    case Type::kF64:
      return true;
    default:
      return false;
  }
}

bool is_signed(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

// Extends a value of `size` bytes to 64 bits, with its sign or with zeros.
uint64_t extended(uint64_t value, uint32_t size, bool sign) {
  const unsigned shift = 64 - size * 8;
  if (size == 0 || size >= 8) return value;
  return sign ? static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift)
              : value << shift >> shift;
}

// The bytes of an operand that a load or store moves at a time.
const std::vector<Operand>* elements_of(const Operand& operand) {
  if (const auto* vector = std::get_if<VectorOperand>(&operand.value)) return &vector->elements;
  return nullptr;
}

// Neither source nor doubt: nothing of an address is in it.
bool is_number(const Value& value) {
  return value.sources.empty() && value.doubt == Doubt::kNone;
}

}  // namespace

uint32_t Flow::width_of(const At& at, const Operand& operand) const {
  const auto* reg = std::get_if<RegisterOperand>(&operand.value);
  return reg == nullptr ? 0 : size_of(at.function.registers[reg->index].type);
}

void Flow::step(const At& at) {
  const Meaning meaning = meaning_of(at.instruction);
  const auto& operands = at.instruction.operands;
  if (meaning.effect == Effect::kCall) return call(at);
  if (meaning.effect == Effect::kNone || operands.empty()) return;
  if (operands.size() == 1) return compute(at, meaning.effect != Effect::kOther);
  switch (meaning.effect) {
    case Effect::kLoad:
      return load(at, meaning.space);
    case Effect::kStore:
      return store(at, meaning.space);
    case Effect::kAtomic:
      return atomic(at);
    case Effect::kMove:
      return move(at);
    case Effect::kConvert:
      return convert(at);
    case Effect::kAddress:
      return convert_address(at);
    case Effect::kSum:
      return sum(at);
    case Effect::kProduct:
      return multiply_add(at);
    case Effect::kBits:
      return combine_bits(at);
    case Effect::kScratch:
      return assign(at, operands[0], Value::of({}));
    case Effect::kNumber:
    case Effect::kOther:
      return compute(at, meaning.effect == Effect::kNumber);
    case Effect::kNone:
    case Effect::kCall:
      return;
  }
}

void Flow::load(const At& at, Space space) {
  const auto& operands = at.instruction.operands;
  const auto* place = std::get_if<AddressOperand>(&operands[1].value);
  const bool own = space == Space::kGeneric || space == Space::kLocal || space == Space::kParam;
  if (place == nullptr || !own || at.instruction.opcode != "ld") {
    return assign(at, operands[0], Value::doubted(Doubt::kLoaded, at.instruction.line));
  }
  const uint32_t size = std::max(1u, size_of(last_type(at.instruction)));
  Value address = address_of(at, *place);
  const auto* elements = elements_of(operands[0]);
  if (elements == nullptr) return assign(at, operands[0], load_from(at, address, size));
  for (const Operand& element : *elements) {
    assign(at, element, load_from(at, address, size));
    address.shift(size);
  }
}

// A value that is put into memory that others can see is not remembered: it comes back as a doubt.
void Flow::store(const At& at, Space space) {
  const auto& operands = at.instruction.operands;
  const auto* place = std::get_if<AddressOperand>(&operands[0].value);
  if (place == nullptr || space == Space::kShared || space == Space::kGlobal) return;
  const uint32_t size = std::max(1u, size_of(last_type(at.instruction)));
  Value address = address_of(at, *place);
  if (at.instruction.opcode != "st") {
    return store_to(address, size, Value::doubted(Doubt::kAtomic, at.instruction.line));
  }
  const auto* elements = elements_of(operands[1]);
  if (elements == nullptr) return store_to(address, size, value_of(at, operands[1]));
  for (const Operand& element : *elements) {
    store_to(address, size, value_of(at, element));
    address.shift(size);
  }
}

void Flow::atomic(const At& at) {
  const auto& operands = at.instruction.operands;
  const Value result = Value::doubted(Doubt::kAtomic, at.instruction.line);
  if (const auto* place = std::get_if<AddressOperand>(&operands[1].value)) {
    store_to(address_of(at, *place), size_of(last_type(at.instruction)), result);
  }
  assign(at, operands[0], result);
}

void Flow::move(const At& at) {
  const auto& operands = at.instruction.operands;
  const auto* to = elements_of(operands[0]);
  const auto* from = elements_of(operands[1]);
  if (to != nullptr && from != nullptr && to->size() == from->size()) {
    // A destination may be among the sources.
    std::vector<Value> values;
    for (const Operand& each : *from) values.push_back(value_of(at, each));
    for (size_t i = 0; i < to->size(); ++i) assign(at, (*to)[i], values[i]);
  } else if (to != nullptr) {
    unpack(at, *to);
  } else if (from != nullptr) {
    assign(at, operands[0], pack(at, *from));
  } else {
    assign(at, operands[0], value_of(at, operands[1]));
  }
}

void Flow::unpack(const At& at, const std::vector<Operand>& parts) {
  const Value whole = value_of(at, at.instruction.operands[1]);
  if (!whole.assigned) return;
  const uint32_t size = size_of(last_type(at.instruction)) / static_cast<uint32_t>(parts.size());
  for (uint32_t i = 0; i < parts.size(); ++i) {
    Value part;
    if (whole.exact && size != 0 && whole.exact->size == size * parts.size()) {
      part = parameter_bytes(whole.exact->offset + i * size, size);
    } else if (size >= kPointerBytes) {
      part.absorb(whole);
    } else {
      part = whole.as_number(0);
      part.add_doubt(whole.doubt, whole.doubt_line);
    }
    assign(at, parts[i], part);
  }
}

Value Flow::pack(const At& at, const std::vector<Operand>& parts) {
  const uint32_t size = size_of(last_type(at.instruction));
  const auto part_size = static_cast<uint32_t>(size / parts.size());
  Value sum = Value::number();
  bool exact = true;     // bytes of the parameter block, one after the other
  bool low_only = true;  // all but the first are zero
  std::optional<uint32_t> start;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const Value part = value_of(at, parts[i]);
    if (!part.assigned) return {};
    exact = exact && part.exact && part.exact->size == part_size &&
            (!start || part.exact->offset == *start + i * part_size);
    if (i == 0 && part.exact) start = part.exact->offset;
    low_only = low_only && (i == 0 || part.constant == 0);
    sum.absorb(part_size >= kPointerBytes ? part : part.as_number(0));
  }
  if (exact && start) return parameter_bytes(*start, size);
  if (size >= kPointerBytes && part_size < kPointerBytes && !low_only) {
    sum.add_doubt(Doubt::kAssembled, at.instruction.line);
  }
  return sum;
}

void Flow::convert(const At& at) {
  const auto& operands = at.instruction.operands;
  const Type from = last_type(at.instruction);
  const Value value = value_of(at, operands[1]);
  const uint32_t to_size = width_of(at, operands[0]);
  const uint32_t from_size = size_of(from);
  const auto is_float_word = [](std::string_view word) { return is_float(type_from_name(word)); };
  if (operands.size() != 2 || std::ranges::any_of(at.instruction.modifiers, is_float_word)) {
    return compute(at, true);
  }
  if (!value.assigned) return;
  if (to_size >= kPointerBytes && from_size >= kPointerBytes) {
    return assign(at, operands[0], value);
  }
  Value part = value.as_number(from_size);
  if (to_size < kPointerBytes) part.add_doubt(value.doubt, value.doubt_line);
  for (const Source& source : value.sources) {
    // Addresses of shared memory and the stack have 32 bits, too.
    if (source.kind != Source::Kind::kWord && source.kind != Source::Kind::kWords) {
      part.add_source(source);
    }
  }
  if (value.constant) part.constant = extended(*value.constant, from_size, is_signed(from));
  if (value.exact && to_size < value.exact->size) {
    part.exact = Value::Bytes{value.exact->offset, to_size};
  }
  assign(at, operands[0], part);
}

void Flow::convert_address(const At& at) {
  const auto& operands = at.instruction.operands;
  if (meaning_of(at.instruction).space == Space::kShared) {
    return assign(at, operands[0], Value::of({}));
  }
  assign(at, operands[0], value_of(at, operands[1]));
}

void Flow::sum(const At& at) {
  const auto& operands = at.instruction.operands;
  const std::string_view opcode = at.instruction.opcode;
  const bool selects = opcode == "selp" || opcode == "slct";
  if (!selects && is_float(last_type(at.instruction))) return compute(at, true);
  if (opcode != "add" && opcode != "sub") return choose(at);
  if (operands.size() != 3) return compute(at, false);
  const Value left = value_of(at, operands[1]);
  const Value right = value_of(at, operands[2]);
  if (!left.assigned && !right.assigned) return;
  const bool minus = opcode == "sub";
  Value result;
  if (left.constant && right.constant) {
    result = Value::of_constant(minus ? *left.constant - *right.constant
                                      : *left.constant + *right.constant);
  } else if (right.constant && right.sources.empty()) {
    result.absorb(left);
    const uint64_t by = extended(*right.constant, width_of(at, operands[0]), true);
    result.shift(static_cast<int64_t>(minus ? 0 - by : by));
  } else if (left.constant && left.sources.empty() && !minus) {
    result.absorb(right);
    result.shift(static_cast<int64_t>(extended(*left.constant, width_of(at, operands[0]), true)));
  } else {
    result.absorb(left);
    result.absorb(right);
    result.shift({});
  }
  assign(at, operands[0], result);
}

// One of its operands: selp, slct, min, max. Or their sum in ways that are rare: addc, neg.
void Flow::choose(const At& at) {
  const auto& operands = at.instruction.operands;
  const std::string_view opcode = at.instruction.opcode;
  const bool selects = opcode == "selp" || opcode == "slct";
  const size_t end = operands.size() - (selects ? 1 : 0);
  Value result;
  for (size_t i = 1; i < end; ++i) result.join(value_of(at, operands[i]));
  if (!selects && opcode != "min" && opcode != "max") {
    result.constant.reset();
    result.exact.reset();
    result.shift({});
  }
  if (result.assigned) assign(at, operands[0], result);
}

void Flow::multiply_add(const At& at) {
  const auto& operands = at.instruction.operands;
  if (is_float(last_type(at.instruction)) || operands.size() != 4) return compute(at, true);
  const uint32_t size = size_of(last_type(at.instruction));
  Value result = value_of(at, operands[1]).as_number(size);
  result.absorb(value_of(at, operands[2]).as_number(size));
  result.absorb(value_of(at, operands[3]));
  result.shift({});
  if (result.assigned) assign(at, operands[0], result);
}

void Flow::combine_bits(const At& at) {
  const auto& operands = at.instruction.operands;
  if (operands.size() != 3) return compute(at, false);
  Value value = value_of(at, operands[1]);
  Value other = value_of(at, operands[2]);
  if (value.constant && !other.constant) std::swap(value, other);
  if (!value.assigned || !other.assigned) return;
  const bool is_and = at.instruction.opcode == "and";
  const std::optional<uint64_t> mask = other.constant;
  const uint32_t size = width_of(at, operands[0]);
  Value result = value.as_number(size);
  if (is_and && mask && *mask < kSmall) {
    // The few bits that are left of an address say nothing of where it points.
    result = Value::number();
  } else if (is_and ? mask && ~*mask < kSmall : is_number(other) || is_number(value)) {
    result = Value();
    result.absorb(value);
    result.absorb(other);
    result.shift({});
  } else {
    result.add_numbers_of(other.as_number(size));
  }
  assign(at, operands[0], result);
}

void Flow::compute(const At& at, bool known) {
  const auto& operands = at.instruction.operands;
  Value result = Value::number();
  bool constants = true;
  bool large = false;  // a factor that moves what is below 32 bits into the upper half
  for (size_t i = 1; i < operands.size(); ++i) {
    const auto add = [&](const Operand& operand) {
      const Value value = value_of(at, operand);
      result.add_numbers_of(value.as_number(width_of(at, operand)));
      constants = constants && value.constant.has_value();
      if (value.constant && at.instruction.opcode == "shl") large = *value.constant >= 32;
      if (value.constant && at.instruction.opcode == "mul") {
        const auto signed_value = static_cast<int64_t>(*value.constant);
        large = large || signed_value > INT32_MAX || signed_value < INT32_MIN;
      }
    };
    if (const auto* elements = elements_of(operands[i])) {
      std::ranges::for_each(*elements, add);
    } else {
      add(operands[i]);
    }
  }
  if (!known || (large && !constants)) result.add_doubt(Doubt::kOperation, at.instruction.line);
  assign(at, operands[0], result);
}

CallParts parts_of_call(const Instruction& instruction) {
  CallParts parts;
  for (const Operand& operand : instruction.operands) {
    if (const auto* list = std::get_if<ListOperand>(&operand.value)) {
      (parts.callee == nullptr ? parts.results : parts.arguments) = list;
    } else if (parts.callee == nullptr) {
      parts.callee = &operand;
      const auto* symbol = std::get_if<SymbolOperand>(&operand.value);
      if (symbol != nullptr) parts.function = symbol->symbol.index;
    }
  }
  return parts;
}

void Flow::call(const At& at) {
  const CallParts parts = parts_of_call(at.instruction);
  const bool known = parts.function != kNoIndex && module_.functions[parts.function].has_body &&
                     !module_.functions[parts.function].is_kernel;
  if (known) {
    const Function& callee = module_.functions[parts.function];
    reach(parts.function);
    const size_t arguments = parts.arguments == nullptr ? 0 : parts.arguments->elements.size();
    for (uint32_t i = 0; i < std::min(arguments, callee.parameters.size()); ++i) {
      pass(at, parts.arguments->elements[i], parts.function, i);
    }
    const size_t results = parts.results == nullptr ? 0 : parts.results->elements.size();
    for (uint32_t i = 0; i < std::min(results, callee.returns.size()); ++i) {
      give_back(at, parts.results->elements[i], parts.function, i);
    }
    return;
  }
  if (parts.results == nullptr) return;
  const Value result = Value::doubted(Doubt::kCall, at.instruction.line);
  for (const Operand& to : parts.results->elements) {
    assign(at, to, result);
    if (!std::holds_alternative<RegisterOperand>(to.value)) {
      Value place = value_of(at, to);
      place.shift({});
      for (const uint32_t size : {1u, 2u, 4u, 8u}) store_to(place, size, result);
    }
  }
}

namespace {
// The register that stands for a parameter or result that is declared .reg.
RegisterIndex register_of(const Function& function, const Variable& variable) {
  const auto at = std::ranges::find(function.registers, variable.name, &Register::name);
  return at == function.registers.end()
             ? kNoIndex
             : static_cast<RegisterIndex>(at - function.registers.begin());
}
}  // namespace

void Flow::pass(const At& at, const Operand& from, uint32_t function, uint32_t parameter) {
  const Function& callee = module_.functions[function];
  const Variable& variable = callee.parameters[parameter];
  const auto size = static_cast<uint32_t>(variable.size);
  const auto* symbol = std::get_if<SymbolOperand>(&from.value);
  Value place = symbol == nullptr ? Value() : value_of(at, from);
  const bool by_name = !place.sources.empty();
  if (variable.space == Space::kReg) {
    const RegisterIndex index = register_of(callee, variable);
    if (index == kNoIndex) return;
    const Value value = by_name ? load_from(at, place, size) : value_of(at, from);
    return assign_register(reach(function), variable.type, index, value);
  }
  const uint32_t to = object(function, SymbolScope::kParameter, parameter);
  if (!by_name) {
    changed_ |= objects_[to].store(0, size, value_of(at, from));
  } else if (place.sources[0].kind == Source::Kind::kObject) {
    const Object copy = objects_[place.sources[0].index];
    changed_ |= objects_[to].store_all(copy);
  } else {
    // A kernel passes its own parameter on: word by word.
    if (variable.size > kMostPassed) place.shift({});
    const uint64_t end = std::min(variable.size, kMostPassed);
    for (uint64_t start = 0; start < end; start += kPointerBytes) {
      Value from_there = place;
      from_there.shift(static_cast<int64_t>(start));
      const auto bytes =
          static_cast<uint32_t>(std::min<uint64_t>(kPointerBytes, variable.size - start));
      changed_ |=
          objects_[to].store(static_cast<int64_t>(start), bytes, load_from(at, from_there, bytes));
    }
  }
}

void Flow::give_back(const At& at, const Operand& to, uint32_t function, uint32_t which) {
  const Function& callee = module_.functions[function];
  const Variable& variable = callee.returns[which];
  const auto size = static_cast<uint32_t>(variable.size);
  const bool by_name = std::holds_alternative<SymbolOperand>(to.value);
  const Value place = by_name ? value_of(at, to) : Value();
  if (variable.space == Space::kReg) {
    const RegisterIndex index = register_of(callee, variable);
    if (index == kNoIndex) return;
    const Value value = reach(function).registers[index];
    return by_name ? store_to(place, size, value) : assign(at, to, value);
  }
  const uint32_t from = object(function, SymbolScope::kReturn, which);
  if (!by_name) return assign(at, to, load_object(at, from, 0, size));
  const Object copy = objects_[from];
  for (const Source& source : place.sources) {
    if (source.kind == Source::Kind::kObject) changed_ |= objects_[source.index].store_all(copy);
  }
}

}  // namespace gpusnap::ptx
