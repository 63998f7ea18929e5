#include "interpose/hook/hook_table.h"

#include <algorithm>

namespace gpusnap {
namespace {

// Per-thread forms came with this version; asked for one of an older version, a driver answers with
// nothing, or with the plain form.
constexpr int kPerThreadSince = 7000;

}  // namespace

const HookEntry* find_symbol(std::string_view symbol) {
  // Most lookups of a process are of other libraries' names.
  if (!symbol.starts_with("cu")) return nullptr;
  const HookId* end = kHooksBySymbol + kHookCount;
  const HookId* at = std::lower_bound(
      kHooksBySymbol, end, symbol,
      [](HookId id, std::string_view wanted) { return entry_of(id).symbol < wanted; });
  return at != end && entry_of(*at).symbol == symbol ? &entry_of(*at) : nullptr;
}

const HookEntry* find_name(std::string_view name, int version, bool per_thread_stream) {
  const NameEntry* end = kNameEntries + kNameEntryCount;
  const NameEntry* at = std::lower_bound(
      kNameEntries, end, name,
      [](const NameEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  const NameEntry* selected = nullptr;
  for (; at != end && at->name == name && at->since <= version; ++at) selected = at;
  if (selected == nullptr) return nullptr;
  const bool per_thread = per_thread_stream && version >= kPerThreadSince;
  return &entry_of(per_thread ? selected->per_thread : selected->plain);
}

}  // namespace gpusnap
