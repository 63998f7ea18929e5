// Operands of instructions: what they are worth, and what becomes of what is assigned to them.

#include <algorithm>

#include "tracker/ptx_flow_state.h"

namespace gpusnap::ptx {
namespace {

bool is_address(const Source& source) {
  return source.kind == Source::Kind::kWord || source.kind == Source::Kind::kWords ||
         source.kind == Source::Kind::kVariable;
}

}  // namespace

uint32_t Flow::object(uint32_t function, SymbolScope scope, uint32_t index) {
  const auto [at, fresh] =
      object_numbers_.try_emplace({function, scope, index}, static_cast<uint32_t>(objects_.size()));
  if (fresh) objects_.emplace_back();
  return at->second;
}

Value Flow::value_of(const At& at, const Operand& operand) {
  if (const auto* reg = std::get_if<RegisterOperand>(&operand.value)) {
    return at.state.registers[reg->index];
  }
  if (const auto* integer = std::get_if<IntegerOperand>(&operand.value)) {
    return Value::of_constant(integer->value);
  }
  if (const auto* symbol = std::get_if<SymbolOperand>(&operand.value)) {
    return value_of(at, symbol->symbol, symbol->offset);
  }
  // An element of an array by its name is what it holds.
  if (std::holds_alternative<AddressOperand>(operand.value)) {
    return Value::doubted(Doubt::kLoaded, at.instruction.line);
  }
  return Value::number();
}

Value Flow::value_of(const At& at, const Symbol& symbol, int64_t offset) {
  Source source;
  source.offset = offset;
  switch (symbol.scope) {
    case SymbolScope::kModuleVariable: {
      const Space space = module_.variables[symbol.index].space;
      if (space != Space::kGlobal && space != Space::kConst) return Value::of({});
      return Value::of({Source::Kind::kVariable, symbol.index, {}});
    }
    case SymbolScope::kLocalVariable: {
      const Space space = at.function.variables[symbol.index].space;
      if (space == Space::kShared) return Value::of({});
      // Data in device memory that has no name outside of its function.
      if (space != Space::kLocal && space != Space::kParam) {
        return Value::doubted(Doubt::kOperation, at.instruction.line);
      }
      break;
    }
    case SymbolScope::kParameter:
      if (at.function.is_kernel) {
        return Value::of({Source::Kind::kParams, symbol.index, offset});
      }
      break;
    case SymbolScope::kReturn:
      break;
    case SymbolScope::kFunction:
      return Value::number();
  }
  source.kind = Source::Kind::kObject;
  source.index = object(at.state.index, symbol.scope, symbol.index);
  return Value::of(source);
}

Value Flow::address_of(const At& at, const AddressOperand& address) {
  if (const auto* symbol = std::get_if<Symbol>(&address.base)) {
    return value_of(at, *symbol, address.offset);
  }
  const auto* reg = std::get_if<RegisterOperand>(&address.base);
  if (reg == nullptr) return Value::of_constant(static_cast<uint64_t>(address.offset));
  Value value = at.state.registers[reg->index];
  value.shift(address.offset);
  return value;
}

Value Flow::parameter_bytes(uint32_t offset, uint32_t size) const {
  for (const Variable& parameter : module_.functions[kernel_].parameters) {
    if (offset < parameter.offset || offset - parameter.offset >= parameter.size) continue;
    const uint64_t start = offset - parameter.offset;
    if (size > parameter.size - start) break;
    Value value = Value::number();
    value.exact = Value::Bytes{offset, size};
    if (size >= kPointerBytes) {
      for (uint32_t at = 0; at + kPointerBytes <= size; at += kPointerBytes) {
        value.add_source({Source::Kind::kWord, offset + at, {}});
      }
    } else if (const uint64_t word = start & ~uint64_t{kPointerBytes - 1};
               word + kPointerBytes <= parameter.size) {
      // It may be a part of an address that is put together again.
      value.add_number(static_cast<uint32_t>(parameter.offset + word));
    }
    return value;
  }
  return Value::doubted(Doubt::kOperation, 0);  // beyond the parameters
}

Value Flow::load_parameter(const Source& place, uint32_t size) const {
  const Variable& parameter = module_.functions[kernel_].parameters[place.index];
  if (!place.offset) {
    // An element of an array whose number is not a constant.
    if (size != kPointerBytes || parameter.size < kPointerBytes) return Value::number();
    return Value::of({Source::Kind::kWords, place.index, {}});
  }
  if (*place.offset < 0 || static_cast<uint64_t>(*place.offset) >= parameter.size) {
    return Value::doubted(Doubt::kOperation, 0);
  }
  return parameter_bytes(static_cast<uint32_t>(parameter.offset + *place.offset), size);
}

Value Flow::load_object(const At& at, uint32_t object, std::optional<int64_t> offset,
                        uint32_t size) const {
  const Value found = objects_[object].load(offset, size, at.instruction.line);
  // Copied together from two parameters, it is no word of either.
  return found.exact ? parameter_bytes(found.exact->offset, found.exact->size) : found;
}

Value Flow::load_from(const At& at, const Value& address, uint32_t size) const {
  Value result;
  if (!address.assigned) return result;
  for (const Source& source : address.sources) {
    if (source.kind == Source::Kind::kParams) {
      result.join(load_parameter(source, size));
    } else if (source.kind == Source::Kind::kObject) {
      result.join(load_object(at, source.index, source.offset, size));
    } else {
      result.join(Value::doubted(Doubt::kLoaded, at.instruction.line));
    }
  }
  if (address.sources.empty() || address.doubt != Doubt::kNone) {
    result.join(Value::doubted(Doubt::kLoaded, at.instruction.line));
  }
  return result;
}

void Flow::store_to(const Value& address, uint32_t size, const Value& value) {
  for (const Source& source : address.sources) {
    if (source.kind != Source::Kind::kObject) continue;
    changed_ |= objects_[source.index].store(source.offset, size, value);
  }
}

void Flow::assign(const At& at, const Operand& to, const Value& value) {
  if (const auto* reg = std::get_if<RegisterOperand>(&to.value)) {
    assign_register(at.state, at.function.registers[reg->index].type, reg->index, value);
  } else if (const auto* vector = std::get_if<VectorOperand>(&to.value)) {
    for (const Operand& element : vector->elements) assign(at, element, value);
  } else if (const auto* pair = std::get_if<PairOperand>(&to.value)) {
    for (const Operand& element : pair->elements) assign(at, element, value);
  }
}

void Flow::assign_register(State& state, Type type, RegisterIndex index, Value value) {
  const uint32_t size = size_of(type);
  if (size == 0) return;  // a predicate
  if (size < kPointerBytes) {
    // No room for an address in device memory, but for one of a thread's own.
    value.add_numbers_of(value.as_number(0));
    std::erase_if(value.sources, is_address);
    if (value.constant) *value.constant &= (uint64_t{1} << (size * 8)) - 1;
    if (value.exact && value.exact->size > size) value.exact.reset();
  }
  changed_ |= state.registers[index].join(value);
}

}  // namespace gpusnap::ptx
