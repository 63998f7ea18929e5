// State that all parsing of one module shares: the module under construction and its symbols.
#pragma once

#include <string_view>
#include <unordered_map>

#include "tracker/ptx_cursor.h"
#include "tracker/ptx_declaration.h"

namespace gpusnap::ptx {

struct ModuleBuilder {
  explicit ModuleBuilder(Module& target)
      : module(target), cursor(target.text), budget(target.text.size()) {}

  Module& module;
  Cursor cursor;
  InitialBudget budget;
  // Module variables and functions. The keys are views into the module's text.
  std::unordered_map<std::string_view, Symbol> symbols;
};

}  // namespace gpusnap::ptx
