#include "tools/simcuda/machine/layout.h"

#include <algorithm>

namespace simcuda {
namespace {

namespace ptx = gpusnap::ptx;

uint64_t aligned(uint64_t value, uint64_t align) {
  return align < 2 ? value : (value + align - 1) / align * align;
}

bool in_frame(const ptx::Variable& v) {
  return v.space == ptx::Space::kLocal || v.space == ptx::Space::kParam;
}

bool in_global(const ptx::Variable& v) {
  return v.space == ptx::Space::kGlobal || v.space == ptx::Space::kConst;
}

// Calls `visit` with every symbol in an operand.
template <class Visit>
void for_each_symbol(const ptx::Operand& operand, const Visit& visit) {
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&operand.value)) visit(symbol->symbol);
  if (const auto* address = std::get_if<ptx::AddressOperand>(&operand.value)) {
    if (const auto* base = std::get_if<ptx::Symbol>(&address->base)) visit(*base);
  }
  if (const auto* vector = std::get_if<ptx::VectorOperand>(&operand.value)) {
    for (const ptx::Operand& e : vector->elements) for_each_symbol(e, visit);
  }
}

}  // namespace

Layout::Layout(Code& code)
    : code_(code),
      module_(*code.module),
      functions_(module_.functions.size()),
      shared_uses_(module_.functions.size()),
      shared_(module_.variables.size(), 0),
      globals_(module_.variables.size(), UINT32_MAX),
      address_taken_(module_.functions.size(), false) {
  for (uint32_t i = 0; i < functions_.size(); ++i) {
    place_frame(i);
    find_references(i);
  }
  place_globals();
  place_shared();
}

void Layout::place_frame(uint32_t index) {
  const ptx::Function& f = module_.functions[index];
  FunctionLayout& layout = functions_[index];
  uint64_t top = 0;
  const auto place = [&top](const ptx::Variable& v) {
    const uint64_t at = aligned(top, v.align);
    top = at + v.size;
    return at;
  };
  for (const ptx::Variable& v : f.parameters) {
    layout.parameters.push_back(f.is_kernel ? v.offset : place(v));
  }
  for (const ptx::Variable& v : f.returns) layout.results.push_back(place(v));
  for (const ptx::Variable& v : f.variables) {
    layout.variables.push_back(in_frame(v) ? place(v) : 0);
  }
  layout.globals.assign(f.variables.size(), UINT32_MAX);
  layout.frame_bytes = aligned(top, 16);
}

void Layout::find_references(uint32_t index) {
  FunctionLayout& layout = functions_[index];
  for (const ptx::Instruction& in : module_.functions[index].instructions) {
    const bool is_call = in.opcode == "call";
    bool direct = false;
    for (const ptx::Operand& operand : in.operands) {
      for_each_symbol(operand, [&](ptx::Symbol symbol) {
        if (symbol.scope == ptx::SymbolScope::kFunction) {
          if (is_call) {
            layout.callees.push_back(symbol.index);
            direct = true;
          } else {
            address_taken_[symbol.index] = true;
          }
        } else if (symbol.scope == ptx::SymbolScope::kModuleVariable &&
                   module_.variables[symbol.index].space == ptx::Space::kShared) {
          shared_uses_[index].push_back(symbol.index);
        }
      });
    }
    if (is_call && !direct) layout.calls_indirectly = true;
  }
}

void Layout::place_globals() {
  const auto add = [this](const ptx::Variable& v) {
    code_.globals.push_back({v.name, &v, 0});
    // A function whose address lies in a variable can be called from anywhere.
    for (const ptx::Relocation& relocation : v.relocations) {
      for (uint32_t i = 0; i < module_.functions.size(); ++i) {
        if (module_.functions[i].name == relocation.symbol) address_taken_[i] = true;
      }
    }
    return static_cast<uint32_t>(code_.globals.size() - 1);
  };
  for (uint32_t i = 0; i < module_.variables.size(); ++i) {
    if (in_global(module_.variables[i])) globals_[i] = add(module_.variables[i]);
  }
  for (uint32_t f = 0; f < functions_.size(); ++f) {
    const auto& variables = module_.functions[f].variables;
    for (uint32_t i = 0; i < variables.size(); ++i) {
      if (in_global(variables[i])) functions_[f].globals[i] = add(variables[i]);
    }
  }
}

std::vector<bool> Layout::reachable(uint32_t function) const {
  std::vector<bool> seen(functions_.size(), false);
  std::vector<uint32_t> open{function};
  seen[function] = true;
  const auto visit = [&](uint32_t f) {
    if (!seen[f]) {
      seen[f] = true;
      open.push_back(f);
    }
  };
  while (!open.empty()) {
    const uint32_t f = open.back();
    open.pop_back();
    for (const uint32_t callee : functions_[f].callees) visit(callee);
    if (!functions_[f].calls_indirectly) continue;
    for (uint32_t i = 0; i < functions_.size(); ++i) {
      if (address_taken_[i]) visit(i);
    }
  }
  return seen;
}

// A variable is at one address in every kernel, above all that any of its kernels has placed, so
// that kernels which share nothing overlap.
void Layout::place_shared() {
  std::vector<std::vector<bool>> reach;
  std::vector<uint32_t> kernels;
  std::vector<uint64_t> top;
  for (uint32_t f = 0; f < functions_.size(); ++f) {
    if (!module_.functions[f].is_kernel) continue;
    kernels.push_back(f);
    reach.push_back(reachable(f));
    top.push_back(0);
  }
  const auto place = [&](const ptx::Variable& v, const auto& used_by) {
    uint64_t at = 0;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (used_by(k)) at = std::max(at, aligned(top[k], v.align));
    }
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (used_by(k)) top[k] = at + v.size;
    }
    return at;
  };
  std::vector<std::pair<uint32_t, uint32_t>> dynamic;  // function or none, variable
  for (uint32_t i = 0; i < module_.variables.size(); ++i) {
    const ptx::Variable& v = module_.variables[i];
    if (v.space != ptx::Space::kShared) continue;
    if (v.size == 0) {
      dynamic.emplace_back(UINT32_MAX, i);
      continue;
    }
    shared_[i] = place(v, [&](size_t k) {
      for (uint32_t f = 0; f < functions_.size(); ++f) {
        if (reach[k][f] &&
            std::find(shared_uses_[f].begin(), shared_uses_[f].end(), i) != shared_uses_[f].end()) {
          return true;
        }
      }
      return false;
    });
  }
  for (uint32_t f = 0; f < functions_.size(); ++f) {
    const auto& variables = module_.functions[f].variables;
    for (uint32_t i = 0; i < variables.size(); ++i) {
      if (variables[i].space != ptx::Space::kShared) continue;
      if (variables[i].size == 0) {
        dynamic.emplace_back(f, i);
      } else {
        functions_[f].variables[i] = place(variables[i], [&](size_t k) { return reach[k][f]; });
      }
    }
  }
  uint64_t base = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    code_.functions[kernels[k]].shared_bytes = top[k];
    base = std::max(base, top[k]);
  }
  base = aligned(base, 16);
  for (const auto& [f, i] : dynamic) {
    base = aligned(base, f == UINT32_MAX ? module_.variables[i].align
                                         : module_.functions[f].variables[i].align);
  }
  code_.dynamic_shared_base = base;
  for (const auto& [f, i] : dynamic) {
    (f == UINT32_MAX ? shared_[i] : functions_[f].variables[i]) = base;
  }
}

uint64_t Layout::deepest(uint32_t function, uint32_t depth, std::vector<int64_t>& known) const {
  constexpr int64_t kOpen = -2;
  constexpr uint32_t kDeepest = 1000;
  if (known[function] >= 0) return static_cast<uint64_t>(known[function]);
  if (known[function] == kOpen || depth > kDeepest) return kRecursionReserve;
  known[function] = kOpen;
  uint64_t below = functions_[function].calls_indirectly ? kRecursionReserve : 0;
  for (const uint32_t callee : functions_[function].callees) {
    below = std::max(below, deepest(callee, depth + 1, known));
  }
  const uint64_t bytes = functions_[function].frame_bytes + below;
  known[function] = static_cast<int64_t>(bytes);
  return bytes;
}

uint64_t Layout::stack_bytes(uint32_t function) const {
  std::vector<int64_t> known(functions_.size(), -1);
  return deepest(function, 0, known);
}

}  // namespace simcuda
