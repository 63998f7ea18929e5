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

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_allocator(const ptx::Module& module, const ptx::Symbol& symbol) {
  return symbol.scope == ptx::SymbolScope::kFunction && symbol.index < module.functions.size() &&
         is_one_of(kAllocators, module.functions[symbol.index].name);
}

// A call, or its address as a value.
bool refers_to_allocator(const ptx::Module& module, const Function& function) {
  for (const ptx::Instruction& instruction : function.instructions) {
    for (const ptx::Operand& operand : instruction.operands) {
      const auto* const symbol = std::get_if<ptx::SymbolOperand>(&operand.value);
      if (symbol != nullptr && is_allocator(module, symbol->symbol)) return true;
    }
  }
  return false;
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
                     [&](const Function& each) {
                       return !is_one_of(kUsersOfGcc, each.name) &&
                              refers_to_allocator(module, each);
                     }) ||
         std::any_of(module.variables.begin(), module.variables.end(), has_allocators_address);
}

}  // namespace gpusnap
