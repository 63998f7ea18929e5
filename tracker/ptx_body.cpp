#include "tracker/ptx_body.h"

#include "tracker/ptx_constant.h"
#include "tracker/ptx_declaration.h"

namespace gpusnap::ptx {
namespace {

// Compilers nest call sequences one deep; inline assembly adds a few.
constexpr size_t kMostScopes = 64;

constexpr uint64_t kMostRegisters = uint64_t{1} << 31;
constexpr uint64_t kMostNumbered = 1 << 16;  // variables of one declaration

// Debug sections: braces around data that has its own grammar.
void skip_section(Cursor& cursor) {
  while (!cursor.peek().is("{") && cursor.peek().kind != TokenKind::kEnd) cursor.take();
  size_t depth = 0;
  do {
    if (cursor.peek().is("{")) ++depth;
    if (cursor.peek().is("}")) --depth;
    cursor.take();
  } while (depth > 0 && cursor.peek().kind != TokenKind::kEnd);
}

}  // namespace

bool skip_annotation(Cursor& cursor) {
  const Token word = cursor.peek();
  if (word.is_word("loc") || word.is_word("file")) {
    cursor.take();
    cursor.skip_line(word.line);
    return true;
  }
  if (word.is_word("pragma")) {
    cursor.take();
    while (cursor.peek().kind == TokenKind::kString || cursor.peek().is(",")) cursor.take();
    return cursor.expect(";");
  }
  if (word.is_word("section")) {
    skip_section(cursor);
    return true;
  }
  return false;
}

bool BodyParser::declare(const std::vector<std::string_view>& names,
                         const std::vector<Variable>& variables, SymbolScope scope) {
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (names[i] == "_") continue;
    // A .reg parameter is a register of the body as well.
    const bool fresh = variables[i].space == Space::kReg
                           ? scopes_.declare_register(names[i], variables[i].type, 1)
                           : scopes_.declare_symbol(names[i], {scope, i});
    if (!fresh) return cursor_.fail_at(variables[i].line, names[i], "the name is taken");
  }
  return true;
}

bool BodyParser::declare_signature(const std::vector<std::string_view>& returns,
                                   const std::vector<std::string_view>& parameters) {
  return declare(returns, function_.returns, SymbolScope::kReturn) &&
         declare(parameters, function_.parameters, SymbolScope::kParameter);
}

bool BodyParser::parse() {
  // The scope of the signature is that of the outermost braces.
  if (!cursor_.expect("{")) return false;
  while (scopes_.depth() > 0) {
    if (!parse_statement()) return false;
  }
  return resolve_labels();
}

bool BodyParser::parse_statement() {
  const Token& token = cursor_.peek();
  if (token.is("{")) {
    if (scopes_.depth() >= kMostScopes) return cursor_.fail("scopes are nested too deeply");
    cursor_.take();
    scopes_.push();
    return true;
  }
  if (token.is("}")) {
    cursor_.take();
    scopes_.pop();
    return true;
  }
  if (cursor_.accept(";")) return true;
  if (token.kind == TokenKind::kDotWord) return parse_directive();
  if (token.kind == TokenKind::kIdentifier && cursor_.second().is(":")) return parse_label();
  if (token.kind == TokenKind::kIdentifier || token.is("@")) return parse_instruction();
  return cursor_.fail(token.kind == TokenKind::kEnd ? "the text ends inside a function"
                                                    : "expected an instruction");
}

bool BodyParser::parse_directive() {
  const Token& token = cursor_.peek();
  if (token.is_word("reg")) return parse_registers();
  for (const Space space :
       {Space::kLocal, Space::kShared, Space::kParam, Space::kGlobal, Space::kConst}) {
    if (token.is_word(name_of(space))) return parse_variables();
  }
  if (skip_annotation(cursor_)) return true;
  return cursor_.fail("a directive that may not stand in a function");
}

// .reg .b32 %a, %r<10>;
bool BodyParser::parse_registers() {
  Variable declaration;
  if (!parse_qualifiers(cursor_, declaration)) return false;
  do {
    const Token token = cursor_.peek();
    std::string_view name;
    if (!cursor_.expect_identifier(name)) return false;
    bool fresh = false;
    if (cursor_.accept("<")) {
      const Token count = cursor_.take();
      if (count.kind != TokenKind::kInteger || count.value > kMostRegisters) {
        return cursor_.fail_at(count.line, count.text, "bad count of registers");
      }
      if (!cursor_.expect(">")) return false;
      fresh = scopes_.declare_range(name, declaration.type, declaration.vector, count.value);
    } else {
      fresh = scopes_.declare_register(name, declaration.type, declaration.vector);
    }
    if (!fresh) return cursor_.fail_at(token.line, name, "the name is taken");
  } while (cursor_.accept(","));
  return cursor_.expect(";");
}

bool BodyParser::parse_variables() {
  Variable declaration;
  if (!parse_qualifiers(cursor_, declaration)) return false;
  const bool initial = declaration.space == Space::kGlobal || declaration.space == Space::kConst;
  do {
    Variable variable = declaration;
    std::string_view name;
    if (cursor_.second().is("<")) {
      if (!parse_numbered(declaration)) return false;
      continue;
    }
    if (!parse_declarator(cursor_, variable, name, initial ? &builder_.budget : nullptr)) {
      return false;
    }
    if (!declare_variable(name, std::move(variable))) return false;
  } while (cursor_.accept(","));
  return cursor_.expect(";");
}

// .param .b64 %P<2>; declares %P0 and %P1.
bool BodyParser::parse_numbered(const Variable& declaration) {
  const Token base = cursor_.take();
  cursor_.take();
  const Token count = cursor_.take();
  if (base.kind != TokenKind::kIdentifier || count.kind != TokenKind::kInteger ||
      count.value > kMostNumbered || declaration.type == Type::kNone) {
    return cursor_.fail_at(count.line, count.text, "bad count of variables");
  }
  for (uint64_t number = 0; number < count.value; ++number) {
    Variable variable = declaration;
    const std::string& name = names_.emplace_back(std::string(base.text) + std::to_string(number));
    variable.line = base.line;
    variable.name = name;
    variable.elements = 1;
    variable.size = uint64_t{size_of(variable.type)} * variable.vector;
    if (!declare_variable(name, std::move(variable))) return false;
  }
  return cursor_.expect(">");
}

bool BodyParser::declare_variable(std::string_view name, Variable variable) {
  const auto index = static_cast<uint32_t>(function_.variables.size());
  if (!scopes_.declare_symbol(name, {SymbolScope::kLocalVariable, index})) {
    return cursor_.fail_at(variable.line, name, "the name is taken");
  }
  function_.variables.push_back(std::move(variable));
  return true;
}

bool BodyParser::parse_label() {
  const Token name = cursor_.take();
  cursor_.take();
  Labels::Label label;
  label.index = static_cast<uint32_t>(function_.instructions.size());
  if (cursor_.accept_word("branchtargets")) {
    if (!parse_targets(label)) return false;
  } else if (cursor_.accept_word("callprototype")) {
    if (!parse_prototype(label)) return false;
  } else if (cursor_.accept_word("calltargets")) {
    if (!parse_call_targets(label)) return false;
  }
  return labels_.declare(scopes_.current(), name.text, label) ||
         cursor_.fail_at(name.line, name.text, "the label is there already");
}

bool BodyParser::parse_targets(Labels::Label& label) {
  label.kind = Labels::Kind::kTargets;
  label.index = static_cast<uint32_t>(function_.branch_targets.size());
  std::vector<uint32_t>& list = function_.branch_targets.emplace_back();
  do {
    LabelUse use;
    use.instruction = label.index;
    use.operand = static_cast<uint32_t>(list.size());
    use.scope = scopes_.current();
    use.line = cursor_.peek().line;
    if (!cursor_.expect_identifier(use.name)) return false;
    target_uses_.push_back(use);
    list.push_back(kNoIndex);
  } while (cursor_.accept(","));
  return cursor_.expect(";");
}

// .callprototype (.param .b32 _) _ (.param .b64 _);
bool BodyParser::parse_prototype(Labels::Label& label) {
  label.kind = Labels::Kind::kPrototype;
  label.index = static_cast<uint32_t>(function_.prototypes.size());
  Prototype prototype;
  std::vector<std::string_view> names;
  uint64_t bytes = 0;
  std::string_view placeholder;
  if (cursor_.peek().is("(") && !parse_parameters(cursor_, prototype.returns, names, bytes)) {
    return false;
  }
  if (!cursor_.expect_identifier(placeholder)) return false;
  if (cursor_.peek().is("(") && !parse_parameters(cursor_, prototype.parameters, names, bytes)) {
    return false;
  }
  while (cursor_.accept_word("noreturn") || cursor_.accept_word("abi_preserve") ||
         cursor_.accept_word("abi_preserve_control")) {
    if (cursor_.peek().kind == TokenKind::kInteger) cursor_.take();
  }
  function_.prototypes.push_back(std::move(prototype));
  return cursor_.expect(";");
}

// .calltargets f, g; the functions have one signature, and that is the prototype.
bool BodyParser::parse_call_targets(Labels::Label& label) {
  label.kind = Labels::Kind::kPrototype;
  label.index = static_cast<uint32_t>(function_.prototypes.size());
  Prototype prototype;
  do {
    const Token token = cursor_.peek();
    std::string_view name;
    if (!cursor_.expect_identifier(name)) return false;
    const auto found = builder_.symbols.find(name);
    if (found == builder_.symbols.end() || found->second.scope != SymbolScope::kFunction) {
      return cursor_.fail_at(token.line, name, "unknown function");
    }
    const Function& target = builder_.module.functions[found->second.index];
    prototype.returns = target.returns;
    prototype.parameters = target.parameters;
  } while (cursor_.accept(","));
  function_.prototypes.push_back(std::move(prototype));
  return cursor_.expect(";");
}

bool BodyParser::parse_instruction() {
  Instruction instruction;
  if (cursor_.accept("@")) {
    instruction.guard_negated = cursor_.accept("!");
    if (!operands_.parse_predicate(instruction.guard)) return false;
  }
  const Token opcode = cursor_.peek();
  instruction.line = opcode.line;
  if (!cursor_.expect_identifier(instruction.opcode)) return false;
  while (cursor_.peek().kind == TokenKind::kDotWord) {
    instruction.modifiers.push_back(cursor_.take().text.substr(1));
  }
  const auto index = static_cast<uint32_t>(function_.instructions.size());
  if (!operands_.parse(instruction, index)) return false;
  const char* start = opcode.text.data();
  const char* end = cursor_.peek().text.data();
  if (!cursor_.expect(";")) return false;
  while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n')) --end;
  instruction.text = {start, static_cast<size_t>(end - start)};
  function_.instructions.push_back(std::move(instruction));
  return true;
}

bool BodyParser::resolve(const LabelUse& use, uint32_t& index) {
  const Labels::Label* label = labels_.find(scopes_, use.scope, use.name);
  if (label == nullptr) return cursor_.fail_at(use.line, use.name, "unknown label");
  if (label->kind != use.kind) {
    return cursor_.fail_at(use.line, use.name, "the label names something else");
  }
  index = label->index;
  return true;
}

bool BodyParser::resolve_labels() {
  for (const LabelUse& use : target_uses_) {
    if (!resolve(use, function_.branch_targets[use.instruction][use.operand])) return false;
  }
  for (const LabelUse& use : operands_.label_uses()) {
    uint32_t index = kNoIndex;
    if (!resolve(use, index)) return false;
    Operand& operand = function_.instructions[use.instruction].operands[use.operand];
    switch (use.kind) {
      case Labels::Kind::kInstruction:
        operand.value = LabelOperand{index};
        break;
      case Labels::Kind::kTargets:
        operand.value = LabelListOperand{index};
        break;
      case Labels::Kind::kPrototype:
        operand.value = PrototypeOperand{index};
        break;
    }
  }
  return true;
}

}  // namespace gpusnap::ptx
