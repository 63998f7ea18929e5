#include "tests/unit/interpose/counting/counting.h"

#include <atomic>
#include <cstdio>

#include "interpose/handlers/handlers.h"
#include "interpose/hook/activation.h"
#include "interpose/hook/hook_table.h"
#include "interpose/nondeterminism/opened_files.h"
#include "interpose/threads/thread_path.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace gpusnap {
namespace {

std::atomic<int> handled[kHookCount];
std::atomic<const char*> last_kind{""};
std::atomic<const char*> lost_sight{""};
std::atomic<int> sessions{0};
std::atomic<bool> abandoned{false};

}  // namespace

void note_handled(HookId id, const char* kind) {
  handled[static_cast<uint16_t>(id)].fetch_add(1, std::memory_order_relaxed);
  last_kind = kind;
}

bool session_start(const Guard&) {
  sessions.fetch_add(1);
  return true;
}

void session_abandon_after_fork() {
  abandoned = true;
}

void session_lost_sight(const char* name) {
  lost_sight = name;
}

}  // namespace gpusnap

EXPORT int counting_handled(const char* symbol) {
  const gpusnap::HookEntry* entry = gpusnap::find_symbol(symbol);
  return entry == nullptr ? -1 : gpusnap::handled[entry - gpusnap::kHookEntries].load();
}
EXPORT const char* counting_last_kind() {
  return gpusnap::last_kind;
}
EXPORT int counting_sessions() {
  return gpusnap::sessions;
}
EXPORT bool counting_abandoned() {
  return gpusnap::abandoned;
}
EXPORT const char* counting_lost_sight() {
  return gpusnap::lost_sight;
}
EXPORT void* counting_wrapper(const char* symbol) {
  const gpusnap::HookEntry* entry = gpusnap::find_symbol(symbol);
  return entry == nullptr ? nullptr : entry->wrapper;
}
EXPORT void counting_thread_path(char* text, unsigned long size) {
  char path[gpusnap::kThreadPathText];
  (void)gpusnap::text_of(gpusnap::own_thread_path(), path);
  std::snprintf(text, size, "%s", path);
}
EXPORT const char* counting_opened_file(unsigned long number) {
  return number < gpusnap::opened_files() ? gpusnap::opened_file(number).path : nullptr;
}
EXPORT void counting_with_guard(void (*body)()) {
  const gpusnap::Guard guard;
  body();
}
