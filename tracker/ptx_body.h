// Bodies of functions: scopes, declarations, labels and instructions.
#pragma once

#include <deque>
#include <string>

#include "tracker/ptx_operand.h"
#include "tracker/ptx_scope.h"
#include "tracker/ptx_symbols.h"

namespace gpusnap::ptx {

class BodyParser {
 public:
  // `function` has its signature; the names of its parameters are views into the text.
  BodyParser(ModuleBuilder& builder, Function& function)
      : cursor_(builder.cursor),
        builder_(builder),
        function_(function),
        scopes_(function),
        operands_(builder, function, scopes_) {
    scopes_.push();
  }

  bool declare_signature(const std::vector<std::string_view>& returns,
                         const std::vector<std::string_view>& parameters);
  // From the opening brace to the closing one.
  bool parse();

 private:
  bool declare(const std::vector<std::string_view>& names, const std::vector<Variable>& variables,
               SymbolScope scope);
  bool parse_statement();
  bool parse_directive();
  bool parse_registers();
  bool parse_variables();
  bool parse_numbered(const Variable& declaration);
  bool declare_variable(std::string_view name, Variable variable);
  bool parse_label();
  bool parse_targets(Labels::Label& label);
  bool parse_prototype(Labels::Label& label);
  bool parse_call_targets(Labels::Label& label);
  bool parse_instruction();
  bool resolve_labels();
  bool resolve(const LabelUse& use, uint32_t& index);

  Cursor& cursor_;
  ModuleBuilder& builder_;
  Function& function_;
  std::deque<std::string> names_;  // of numbered variables; scopes_ refers to them
  Scopes scopes_;
  Labels labels_;
  OperandParser operands_;
  std::vector<LabelUse> target_uses_;  // entries of .branchtargets: instruction = list
};

// Skips .loc, .file, .pragma and .section, which say nothing about what the code does. False with
// no error recorded when the word at the cursor is none of them.
bool skip_annotation(Cursor& cursor);

}  // namespace gpusnap::ptx
