#include "tracker/ptx_operand.h"

#include <algorithm>
#include <array>

#include "tracker/ptx_constant.h"

namespace gpusnap::ptx {
namespace {

// Without their components, and numbered ones without their number.
constexpr std::array<std::string_view, 47> kSpecials = {
    "%tid",
    "%ntid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%ctaid",
    "%nctaid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%is_explicit_cluster",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_0",
    "%reserved_smem_offset_1",
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%current_graph_exec",
    "%pm0",
    "%pm1",
    "%pm2",
    "%pm3",
    "%pm4",
    "%pm5",
    "%pm6",
    "%pm7",
    "%envreg",
    "WARP_SZ",
};

bool is_special(std::string_view name) {
  if (name.starts_with("%envreg")) return true;
  if (name.starts_with("%pm") && name.ends_with("_64")) name.remove_suffix(3);
  return std::find(kSpecials.begin(), kSpecials.end(), name) != kSpecials.end();
}

// The number that a component's letter stands for; 4 when it is none.
uint32_t component(std::string_view word) {
  if (word.size() != 2) return 4;
  const size_t xyzw = std::string_view("xyzw").find(word[1]);
  const size_t rgba = std::string_view("rgba").find(word[1]);
  return static_cast<uint32_t>(std::min({xyzw, rgba, size_t{4}}));
}

// Opcodes whose addresses may have coordinates.
bool has_coordinates(std::string_view opcode) {
  for (const std::string_view name : {"cp", "tex", "tld4", "suld", "sust", "sured"}) {
    if (opcode == name) return true;
  }
  return false;
}

// Video instructions, whose operands may be parts of registers.
bool has_parts(std::string_view opcode) {
  return opcode.starts_with('v') && opcode != "vote";
}

// Opcodes that take an array element by its address rather than by its contents.
bool wants_address_value(std::string_view opcode) {
  return opcode == "mov" || opcode == "cvta";
}

}  // namespace

bool OperandParser::parse(Instruction& instruction, uint32_t index) {
  if (cursor_.peek().is(";")) return true;
  if (instruction.opcode == "call") return parse_call(instruction, index);
  if (instruction.opcode == "bra") {
    return parse_label(instruction, index, Labels::Kind::kInstruction);
  }
  if (instruction.opcode == "brx") return parse_branch(instruction, index);
  return parse_general(instruction);
}

bool OperandParser::parse_general(Instruction& instruction) {
  do {
    Operand operand;
    if (!parse_operand(operand, instruction.opcode)) return false;
    instruction.operands.push_back(std::move(operand));
  } while (cursor_.accept(","));
  return true;
}

// brx.idx index, list
bool OperandParser::parse_branch(Instruction& instruction, uint32_t index) {
  Operand number;
  if (!parse_operand(number, instruction.opcode) || !cursor_.expect(",")) return false;
  instruction.operands.push_back(std::move(number));
  return parse_label(instruction, index, Labels::Kind::kTargets);
}

bool OperandParser::parse_label(Instruction& instruction, uint32_t index, Labels::Kind kind) {
  LabelUse use;
  use.kind = kind;
  use.instruction = index;
  use.operand = static_cast<uint32_t>(instruction.operands.size());
  use.scope = scopes_.current();
  use.line = cursor_.peek().line;
  if (!cursor_.expect_identifier(use.name)) return false;
  label_uses_.push_back(use);
  Operand operand;
  if (kind == Labels::Kind::kInstruction) operand.value = LabelOperand{};
  if (kind == Labels::Kind::kTargets) operand.value = LabelListOperand{};
  if (kind == Labels::Kind::kPrototype) operand.value = PrototypeOperand{};
  instruction.operands.push_back(std::move(operand));
  return true;
}

// call (returns), function, (arguments), prototype: all but the function may be missing.
bool OperandParser::parse_call(Instruction& instruction, uint32_t index) {
  if (cursor_.peek().is("(") && (!parse_list(instruction) || !cursor_.expect(","))) return false;
  const uint32_t line = cursor_.peek().line;
  const std::string_view callee_text = cursor_.peek().text;
  Operand callee;
  if (!parse_operand(callee, instruction.opcode)) return false;
  const auto* symbol = std::get_if<SymbolOperand>(&callee.value);
  const bool direct = symbol != nullptr && symbol->symbol.scope == SymbolScope::kFunction;
  if (!direct && !std::holds_alternative<RegisterOperand>(callee.value)) {
    return cursor_.fail_at(line, callee_text, "only a function or a register can be called");
  }
  instruction.operands.push_back(std::move(callee));
  if (!cursor_.accept(",")) return true;
  if (cursor_.peek().is("(")) {
    if (!parse_list(instruction)) return false;
    if (!cursor_.accept(",")) return true;
  }
  return parse_label(instruction, index, Labels::Kind::kPrototype);
}

bool OperandParser::parse_list(Instruction& instruction) {
  ListOperand list;
  if (!cursor_.expect("(")) return false;
  while (!cursor_.peek().is(")")) {
    Operand element;
    if (!parse_scalar(element, instruction.opcode)) return false;
    list.elements.push_back(std::move(element));
    if (!cursor_.accept(",")) break;
  }
  if (!cursor_.expect(")")) return false;
  instruction.operands.push_back({std::move(list)});
  return true;
}

bool OperandParser::parse_operand(Operand& operand, std::string_view opcode) {
  if (cursor_.peek().is("{")) return parse_vector(operand) && parse_pair(operand, opcode);
  if (cursor_.peek().is("[")) return parse_address(operand, opcode);
  if (!parse_scalar(operand, opcode)) return false;
  const bool can_pair = std::holds_alternative<RegisterOperand>(operand.value) ||
                        std::holds_alternative<SinkOperand>(operand.value);
  return can_pair ? parse_pair(operand, opcode) : true;
}

// "|second" behind an operand that may be the first of a pair.
bool OperandParser::parse_pair(Operand& operand, std::string_view opcode) {
  if (!cursor_.accept("|")) return true;
  PairOperand pair;
  Operand second;
  if (!parse_scalar(second, opcode)) return false;
  if (!std::holds_alternative<RegisterOperand>(second.value) &&
      !std::holds_alternative<SinkOperand>(second.value)) {
    return cursor_.fail("the second of a pair must be a register");
  }
  pair.elements.push_back(std::move(operand));
  pair.elements.push_back(std::move(second));
  operand = Operand{std::move(pair)};
  return true;
}

bool OperandParser::parse_vector(Operand& operand) {
  VectorOperand vector;
  cursor_.take();
  do {
    Operand element;
    if (!parse_scalar(element, {})) return false;
    vector.elements.push_back(std::move(element));
  } while (cursor_.accept(","));
  operand.value = std::move(vector);
  return cursor_.expect("}");
}

bool OperandParser::parse_scalar(Operand& operand, std::string_view opcode) {
  const Token& token = cursor_.peek();
  if (token.kind == TokenKind::kIdentifier) return parse_named(operand, opcode);
  const bool negates = token.is("!") || (token.is("-") && opcode == "vmad");
  if (negates && cursor_.second().kind == TokenKind::kIdentifier) {
    cursor_.take();
    if (!parse_named(operand, opcode)) return false;
    auto* reg = std::get_if<RegisterOperand>(&operand.value);
    if (reg == nullptr) return cursor_.fail("only a register can be negated");
    reg->negated = true;
    return true;
  }
  Constant constant;
  if (!parse_constant(cursor_, constant)) return false;
  if (constant.is_float) {
    operand.value = FloatOperand{constant.value, constant.is_double};
  } else {
    operand.value = IntegerOperand{constant.value, constant.negative()};
  }
  return true;
}

bool OperandParser::parse_named(Operand& operand, std::string_view opcode) {
  if (cursor_.peek().text == "_") {
    cursor_.take();
    operand.value = SinkOperand{};
    return true;
  }
  if (const std::optional<Name> name = scopes_.find(cursor_.peek().text)) {
    const Token token = cursor_.take();
    if (name->kind == Name::Kind::kRegister) return parse_register(*name, operand, opcode);
    return parse_symbol(token, name->symbol, operand, opcode);
  }
  if (is_special(cursor_.peek().text)) return parse_special(cursor_.take(), operand);
  Symbol symbol;
  if (!find_symbol(cursor_.peek(), symbol)) return false;
  const Token token = cursor_.take();
  return parse_symbol(token, symbol, operand, opcode);
}

// A register; of a vector register all of them or, with .x and its like, one.
bool OperandParser::parse_register(const Name& name, Operand& operand, std::string_view opcode) {
  if (name.width == 1) {
    RegisterOperand whole{name.first};
    if (has_parts(opcode) && cursor_.peek().kind == TokenKind::kDotWord) {
      whole.part = cursor_.take().text.substr(1);
    }
    operand.value = whole;
    return true;
  }
  if (cursor_.peek().kind == TokenKind::kDotWord) {
    const uint32_t number = component(cursor_.peek().text);
    if (number >= name.width) return cursor_.fail("the vector register has no such component");
    cursor_.take();
    operand.value = RegisterOperand{name.first + number, false};
    return true;
  }
  VectorOperand vector;
  for (uint32_t i = 0; i < name.width; ++i) {
    vector.elements.push_back({RegisterOperand{name.first + i, false}});
  }
  operand.value = std::move(vector);
  return true;
}

bool OperandParser::parse_special(const Token& name, Operand& operand) {
  std::string_view text = name.text;
  const Token& next = cursor_.peek();
  if (next.kind == TokenKind::kDotWord && next.text.data() == text.data() + text.size()) {
    if (component(next.text) == 4) return cursor_.fail("no such component");
    text = {text.data(), text.size() + next.text.size()};
    cursor_.take();
  }
  operand.value = SpecialOperand{text};
  return true;
}

bool OperandParser::parse_symbol(const Token& name, Symbol symbol, Operand& operand,
                                 std::string_view opcode) {
  int64_t offset = 0;
  const bool element = cursor_.peek().is("[");
  if (element && !parse_subscript(symbol, offset)) return false;
  if (!parse_offset(offset)) return false;
  if (offset != 0 && symbol.scope == SymbolScope::kFunction) {
    return cursor_.fail_at(name.line, name.text, "an offset from a function");
  }
  if (element && !wants_address_value(opcode)) {
    operand.value = AddressOperand{symbol, offset, {}};
  } else {
    operand.value = SymbolOperand{symbol, offset};
  }
  return true;
}

// name[3]: the element's byte offset.
bool OperandParser::parse_subscript(Symbol symbol, int64_t& offset) {
  const Variable* array = variable_of(symbol);
  if (array == nullptr) return cursor_.fail("only a variable has elements");
  int64_t number = 0;
  cursor_.take();
  if (!parse_integer(cursor_, number) || !cursor_.expect("]")) return false;
  const uint64_t element = uint64_t{size_of(array->type)} * array->vector;
  offset = static_cast<int64_t>(static_cast<uint64_t>(number) * element);
  return true;
}

// "+ 4", "-4", "+-4", or nothing; added to `offset`.
bool OperandParser::parse_offset(int64_t& offset) {
  if (!cursor_.peek().is("+") && !cursor_.peek().is("-")) return true;
  int64_t value = 0;
  if (!parse_integer(cursor_, value)) return false;
  offset = static_cast<int64_t>(static_cast<uint64_t>(offset) + static_cast<uint64_t>(value));
  return true;
}

bool OperandParser::parse_address(Operand& operand, std::string_view opcode) {
  AddressOperand address;
  cursor_.take();
  if (!parse_base(address)) return false;
  if (has_coordinates(opcode) && cursor_.accept(",")) {
    Operand coordinates;
    if (!cursor_.peek().is("{")) return cursor_.fail("expected '{'");
    if (!parse_vector(coordinates)) return false;
    address.coordinates = std::move(std::get<VectorOperand>(coordinates.value).elements);
  }
  operand.value = std::move(address);
  return cursor_.expect("]");
}

bool OperandParser::parse_base(AddressOperand& address) {
  if (cursor_.peek().kind != TokenKind::kIdentifier) {
    if (cursor_.peek().is("{")) return cursor_.fail("this form of address is not supported");
    return parse_integer(cursor_, address.offset);
  }
  Operand base;
  if (!parse_named(base, "mov")) return false;
  if (const auto* reg = std::get_if<RegisterOperand>(&base.value)) {
    address.base = *reg;
    return parse_offset(address.offset);
  }
  const auto* symbol = std::get_if<SymbolOperand>(&base.value);
  if (symbol == nullptr) return cursor_.fail("an address needs a register or a variable");
  address.base = symbol->symbol;
  address.offset = symbol->offset;
  return true;
}

bool OperandParser::parse_predicate(RegisterIndex& index) {
  std::string_view name;
  const uint32_t line = cursor_.peek().line;
  if (!cursor_.expect_identifier(name)) return false;
  const std::optional<Name> found = scopes_.find(name);
  if (!found || found->kind != Name::Kind::kRegister ||
      function_.registers[found->first].type != Type::kPred) {
    return cursor_.fail_at(line, name, "a guard must be a predicate register");
  }
  index = found->first;
  return true;
}

bool OperandParser::find_symbol(const Token& name, Symbol& symbol) {
  const auto found = builder_.symbols.find(name.text);
  if (found != builder_.symbols.end()) {
    symbol = found->second;
    return true;
  }
  return cursor_.fail(name.text.starts_with("%") ? "unknown register" : "unknown name");
}

const Variable* OperandParser::variable_of(Symbol symbol) const {
  switch (symbol.scope) {
    case SymbolScope::kModuleVariable:
      return &builder_.module.variables[symbol.index];
    case SymbolScope::kLocalVariable:
      return &function_.variables[symbol.index];
    case SymbolScope::kParameter:
      return &function_.parameters[symbol.index];
    case SymbolScope::kReturn:
      return &function_.returns[symbol.index];
    case SymbolScope::kFunction:
      break;
  }
  return nullptr;
}

}  // namespace gpusnap::ptx
