// The generated table of hooks, looked up by symbol or by what cuGetProcAddress is asked. Immutable
// but for the real functions in it; any thread may use it at any time, before constructors too.
#pragma once

#include <string_view>

#include "interpose/hook/hook.h"

namespace gpusnap {

// A hook with its types erased.
struct HookEntry {
  const char* symbol;  // "cuMemcpyHtoD_v2_ptds"
  const char* name;    // "cuMemcpyHtoD"
  const char* kind;    // "copy_in"
  void* wrapper;       // our function, never that of another library of the same name
  void (*set_real)(void* real);
  void* (*real)();
};

// The answer of cuGetProcAddress for `name` from CUDA version `since` on, until a later row.
struct NameEntry {
  const char* name;
  int since;
  HookId plain;
  HookId per_thread;  // for the per-thread null stream; the same as plain where there is no other
};

// Defined in the generated source. By HookId; by name and rising `since`; ids by symbol.
extern const HookEntry kHookEntries[kHookCount];
extern const NameEntry kNameEntries[];
extern const unsigned kNameEntryCount;
extern const HookId kHooksBySymbol[kHookCount];

inline const HookEntry& entry_of(HookId id) {
  return kHookEntries[static_cast<uint16_t>(id)];
}

// The hook of exactly this symbol, or null.
const HookEntry* find_symbol(std::string_view symbol);

// The hook that a driver answers with when asked for `name` at `version`, or null: not hooked.
const HookEntry* find_name(std::string_view name, int version, bool per_thread_stream);

}  // namespace gpusnap
