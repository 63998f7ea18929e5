// SPDX-License-Identifier: Apache-2.0
#include "tracker/device_heap.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "tracker/cubin.h"

namespace gpusnap {
namespace {

using ptx::Function;

// newlib's allocators as gcc names them for devices. The first is the one that calls the device's.
constexpr std::string_view kAllocatorOfGcc = "__nvptx_malloc";
constexpr std::array<std::string_view, 6> kAllocators = {
    kDeviceMalloc, kAllocatorOfGcc, "__nvptx_calloc", "__nvptx_realloc", "calloc", "realloc"};
// Functions of newlib and libgomp that hand memory on to libgomp alone.
constexpr std::array<std::string_view, 9> kUsersOfGcc = {
    kAllocatorOfGcc,     "__nvptx_calloc", "__nvptx_realloc",     "calloc",
    "realloc",           "gomp_malloc",    "gomp_malloc_cleared", "gomp_realloc",
    "gomp_aligned_alloc"};

// Memory of these that OpenMP's own interface hands to the program stays, as
// omp_init_allocator()'s.
constexpr std::array<std::string_view, 4> kHandOn = {"gomp_malloc", "gomp_malloc_cleared",
                                                     "gomp_realloc", "gomp_aligned_alloc"};
constexpr std::string_view kInterface = "omp_";

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// By a call, or by the address as a value.
template <class Names>
bool refers_to(const ptx::Module& module, const Function& function, const Names& names) {
  const auto is_named = [&](const ptx::Symbol& symbol) {
    return symbol.scope == ptx::SymbolScope::kFunction && symbol.index < module.functions.size() &&
           is_one_of(names, module.functions[symbol.index].name);
  };
  for (const ptx::Instruction& instruction : function.instructions) {
    for (const ptx::Operand& operand : instruction.operands) {
      const auto* const symbol = std::get_if<ptx::SymbolOperand>(&operand.value);
      if (symbol != nullptr && is_named(symbol->symbol)) return true;
    }
  }
  return false;
}

// Whether it may give memory of the heap to the program.
bool may_give(const ptx::Module& module, const Function& function) {
  if (is_one_of(kUsersOfGcc, function.name)) return false;
  return refers_to(module, function, kAllocators) ||
         (std::string_view(function.name).starts_with(kInterface) &&
          refers_to(module, function, kHandOn));
}

bool has_allocators_address(const ptx::Variable& variable) {
  return std::any_of(
      variable.relocations.begin(), variable.relocations.end(),
      [](const ptx::Relocation& each) { return is_one_of(kAllocators, each.symbol); });
}

}  // namespace

bool may_keep_heap_memory(const ptx::Module& module) {
  bool asks_device = false;
  bool is_gccs = false;
  for (const Function& function : module.functions) {
    asks_device = asks_device || (function.name == kDeviceMalloc && !function.has_body);
    is_gccs = is_gccs || (function.name == kAllocatorOfGcc && function.has_body);
  }
  if (!asks_device || !is_gccs) return asks_device;
  return std::any_of(module.functions.begin(), module.functions.end(),
                     [&](const Function& each) { return may_give(module, each); }) ||
         std::any_of(module.variables.begin(), module.variables.end(), has_allocators_address);
}

}  // namespace gpusnap
