// PTX text: the parser keeps its promise that every name is resolved.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "tracker/ptx.h"

namespace {

using namespace gpusnap::ptx;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

class Checker {
 public:
  Checker(const Module& module, const Function& function) : module_(module), function_(function) {}

  void check(const Instruction& instruction) const {
    const char* text = module_.text.data();
    require(instruction.opcode.data() >= text);
    require(instruction.text.data() + instruction.text.size() <= text + module_.text.size());
    require(instruction.guard == kNoIndex || instruction.guard < function_.registers.size());
    for (const Operand& operand : instruction.operands) {
      std::visit([this](const auto& value) { check_operand(value); }, operand.value);
    }
  }
  void check_target(uint32_t target) const { require(target <= function_.instructions.size()); }

 private:
  void check_operand(const RegisterOperand& value) const {
    require(value.index < function_.registers.size());
  }
  void check_operand(const SymbolOperand& value) const { check_symbol(value.symbol); }
  void check_operand(const LabelOperand& value) const { check_target(value.target); }
  void check_operand(const LabelListOperand& value) const {
    require(value.index < function_.branch_targets.size());
  }
  void check_operand(const PrototypeOperand& value) const {
    require(value.index < function_.prototypes.size());
  }
  void check_operand(const AddressOperand& value) const {
    if (const auto* reg = std::get_if<RegisterOperand>(&value.base)) check_operand(*reg);
    if (const auto* symbol = std::get_if<Symbol>(&value.base)) check_symbol(*symbol);
  }
  void check_operand(const VectorOperand& value) const { check_elements(value.elements); }
  void check_operand(const PairOperand& value) const { check_elements(value.elements); }
  void check_operand(const ListOperand& value) const { check_elements(value.elements); }
  void check_operand(const SinkOperand&) const {}
  void check_operand(const SpecialOperand& value) const { require(!value.name.empty()); }
  void check_operand(const IntegerOperand&) const {}
  void check_operand(const FloatOperand&) const {}

  void check_elements(const std::vector<Operand>& elements) const {
    for (const Operand& element : elements) {
      std::visit([this](const auto& value) { check_operand(value); }, element.value);
    }
  }
  void check_symbol(Symbol symbol) const {
    switch (symbol.scope) {
      case SymbolScope::kModuleVariable:
        return require(symbol.index < module_.variables.size());
      case SymbolScope::kLocalVariable:
        return require(symbol.index < function_.variables.size());
      case SymbolScope::kParameter:
        return require(symbol.index < function_.parameters.size());
      case SymbolScope::kReturn:
        return require(symbol.index < function_.returns.size());
      case SymbolScope::kFunction:
        return require(symbol.index < module_.functions.size());
    }
  }

  const Module& module_;
  const Function& function_;
};

void check_variable(const Variable& variable) {
  require(variable.initial.empty() || variable.initial.size() == variable.size);
  require(variable.align != 0 && (variable.align & (variable.align - 1)) == 0);
  for (const Relocation& relocation : variable.relocations) {
    require(relocation.bytes >= 1 && relocation.bytes <= 8);
    require(relocation.offset + relocation.bytes <= variable.size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ParseResult result = parse({reinterpret_cast<const char*>(data), size});
  require(result.module != nullptr || !result.error.reason.empty());
  if (result.module == nullptr) return 0;
  for (const Variable& variable : result.module->variables) check_variable(variable);
  for (const Function& function : result.module->functions) {
    const Checker checker(*result.module, function);
    for (const Variable& variable : function.variables) check_variable(variable);
    for (const Instruction& instruction : function.instructions) checker.check(instruction);
    for (const auto& list : function.branch_targets) {
      for (const uint32_t target : list) checker.check_target(target);
    }
  }
  return 0;
}
