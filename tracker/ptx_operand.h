// Operands of instructions.
#pragma once

#include <string_view>
#include <vector>

#include "tracker/ptx_scope.h"
#include "tracker/ptx_symbols.h"

namespace gpusnap::ptx {

// An operand that names a label which may stand further down: set when the body is complete.
struct LabelUse {
  Labels::Kind kind = Labels::Kind::kInstruction;
  uint32_t instruction = kNoIndex;
  uint32_t operand = 0;
  std::string_view name;
  uint32_t scope = 0;
  uint32_t line = 0;
};

class OperandParser {
 public:
  OperandParser(ModuleBuilder& builder, Function& function, Scopes& scopes)
      : cursor_(builder.cursor), builder_(builder), function_(function), scopes_(scopes) {}

  // Parses all operands up to the semicolon. `index` is the number of the instruction.
  bool parse(Instruction& instruction, uint32_t index);
  // A register that holds a predicate.
  bool parse_predicate(RegisterIndex& index);

  // Labels used so far.
  const std::vector<LabelUse>& label_uses() const { return label_uses_; }

 private:
  bool parse_branch(Instruction& instruction, uint32_t index);
  bool parse_call(Instruction& instruction, uint32_t index);
  bool parse_general(Instruction& instruction);
  bool parse_label(Instruction& instruction, uint32_t index, Labels::Kind kind);
  bool parse_list(Instruction& instruction);
  bool parse_operand(Operand& operand, std::string_view opcode);
  bool parse_scalar(Operand& operand, std::string_view opcode);
  bool parse_vector(Operand& operand);
  bool parse_pair(Operand& operand, std::string_view opcode);
  bool parse_address(Operand& operand, std::string_view opcode);
  bool parse_base(AddressOperand& address);
  bool parse_named(Operand& operand, std::string_view opcode);
  bool parse_register(const Name& name, Operand& operand, std::string_view opcode);
  bool parse_special(const Token& name, Operand& operand);
  bool parse_symbol(const Token& name, Symbol symbol, Operand& operand, std::string_view opcode);
  bool parse_subscript(Symbol symbol, int64_t& offset);
  bool parse_offset(int64_t& offset);
  bool find_symbol(const Token& name, Symbol& symbol);
  const Variable* variable_of(Symbol symbol) const;

  Cursor& cursor_;
  const ModuleBuilder& builder_;
  const Function& function_;
  Scopes& scopes_;
  std::vector<LabelUse> label_uses_;
};

}  // namespace gpusnap::ptx
