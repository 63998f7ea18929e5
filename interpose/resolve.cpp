#include "interpose/resolve.h"

#include <dlfcn.h>

#include <atomic>

#include "interpose/activation.h"
#include "interpose/dispatch.h"
#include "interpose/hook_table.h"
#include "interpose/loaded_symbol.h"

#ifndef __x86_64__
#error "the trampolines below are for x86-64"
#endif

// dlsym and dlvsym must reach the C library with the caller's own return address: RTLD_NEXT means
// 'behind the caller'. So the exported functions only choose, and jump.
// NOLINTNEXTLINE(misc-definitions-in-headers)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
  .p2align 4
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call gpusnap_choose_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size dlsym, . - dlsym

  .globl dlvsym
  .type dlvsym, @function
  .p2align 4
dlvsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  call gpusnap_choose_dlvsym
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size dlvsym, . - dlvsym
)");

namespace gpusnap {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// glibc 2.34 moved them from libdl into libc, under a new version.
constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};

// A call made as the last act of a function is a jump, and the C library would take our caller for
// its own.
void* not_a_tail_call(void* result) {
  asm volatile("" : "+r"(result));
  return result;
}

// Calling dlvsym by name would end in our own.
Dlvsym libc_dlvsym() {
  static constinit std::atomic<Dlvsym> cached{nullptr};
  Dlvsym found = cached.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  for (const char* version : kVersions) {
    found = reinterpret_cast<Dlvsym>(find_loaded_symbol("dlvsym", version));
    if (found != nullptr) break;
  }
  cached.store(found, std::memory_order_release);
  return found;
}

// What stands behind us: that of another interposing library, if there is one.
void* next_resolver(const char* name) {
  const Dlvsym lookup = libc_dlvsym();
  if (lookup == nullptr) return nullptr;
  for (const char* version : kVersions) {
    if (void* found = not_a_tail_call(lookup(RTLD_NEXT, name, version))) return found;
  }
  return nullptr;
}

Dlsym next_dlsym() {
  static constinit std::atomic<Dlsym> cached{nullptr};
  Dlsym found = cached.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  found = reinterpret_cast<Dlsym>(next_resolver("dlsym"));
  cached.store(found, std::memory_order_release);
  return found;
}

Dlvsym next_dlvsym() {
  static constinit std::atomic<Dlvsym> cached{nullptr};
  Dlvsym found = cached.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  found = reinterpret_cast<Dlvsym>(next_resolver("dlvsym"));
  cached.store(found, std::memory_order_release);
  return found;
}

// The symbol among the libraries that the library of this code was opened with.
void* find_beside(void* code, const char* symbol) {
  Dl_info info;
  void* map = nullptr;
  if (dladdr1(code, &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) return nullptr;
  return real_dlsym(map, symbol);
}

// What the program gets for `entry`, given what the real resolver found for code at `caller`.
void* substitute(const HookEntry& entry, void* found, void* handle, void* caller) {
  if (found == nullptr) return nullptr;
  if (found == entry.wrapper) {
    // Found by way of the global scope, where we come first: true only if there is a driver behind.
    found = real_dlsym(RTLD_NEXT, entry.symbol);
    if (found == nullptr && handle == RTLD_DEFAULT) found = find_beside(caller, entry.symbol);
    if (found == nullptr || found == entry.wrapper) return nullptr;
  }
  entry.set_real(found);
  return entry.wrapper;
}

void* answer_dlsym(void* handle, const char* symbol) {
  return substitute(*find_symbol(symbol), next_dlsym()(handle, symbol), handle,
                    __builtin_return_address(0));
}

void* answer_dlvsym(void* handle, const char* symbol, const char* version) {
  return substitute(*find_symbol(symbol), next_dlvsym()(handle, symbol, version), handle,
                    __builtin_return_address(0));
}

// Where lookups go should the C library's own not be found.
void* answer_nothing() {
  return nullptr;
}

bool ours_to_answer(void* handle, const char* symbol) {
  return handle != RTLD_NEXT && symbol != nullptr && find_symbol(symbol) != nullptr;
}

// Replaces *function, which the driver answered for `name`. `ask_again(version)` asks it once more.
template <class AskAgain>
void substitute_entry_point(const char* name, void** function, int version, bool per_thread_stream,
                            AskAgain ask_again) {
  if (name == nullptr || function == nullptr || *function == nullptr) return;
  const HookEntry* entry = find_name(name, version, per_thread_stream);
  if (entry == nullptr) return;
  if (version > GPUSNAP_CUDA_VERSION && ask_again(GPUSNAP_CUDA_VERSION) != *function) {
    // The same name with another signature, made after our declarations.
    session_lost_sight(name);
    return;
  }
  if (*function != entry->wrapper) entry->set_real(*function);
  *function = entry->wrapper;
}

bool wants_per_thread_stream(bool per_thread_by_default, cuuint64_t flags) {
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return true;
  return per_thread_by_default && !(flags & CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}

}  // namespace

void* real_dlsym(void* handle, const char* symbol) {
  const Dlsym next = next_dlsym();
  return next == nullptr ? nullptr : not_a_tail_call(next(handle, symbol));
}

void* driver_symbol(const char* symbol) {
  if (void* found = real_dlsym(RTLD_NEXT, symbol)) return found;
  // A library opened with RTLD_LOCAL may be linked to the driver, and is bound to our exports
  // first.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  return real_dlsym(driver, symbol);  // the handle is kept: hooks point into the driver from now on
}

CUresult get_proc_address(Hook<decltype(::cuGetProcAddress)>& hook, const char* name,
                          void** function, int version, cuuint64_t flags) noexcept {
  const auto real = real_of(hook);
  if (real == nullptr) return kNoDriver;
  const CUresult result = real(name, function, version, flags);
  if (result != CUDA_SUCCESS) return result;
  substitute_entry_point(name, function, version, wants_per_thread_stream(false, flags),
                         [&](int known) {
                           void* address = nullptr;
                           const CUresult again = real(name, &address, known, flags);
                           return again == CUDA_SUCCESS ? address : nullptr;
                         });
  return result;
}

CUresult get_proc_address(Hook<decltype(::cuGetProcAddress_v2)>& hook, const char* name,
                          void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) noexcept {
  const auto real = real_of(hook);
  if (real == nullptr) return kNoDriver;
  const CUresult result = real(name, function, version, flags, status);
  if (result != CUDA_SUCCESS) return result;
  if (status != nullptr && *status != CU_GET_PROC_ADDRESS_SUCCESS) return result;
  substitute_entry_point(name, function, version,
                         wants_per_thread_stream(hook.per_thread_stream, flags), [&](int known) {
                           void* address = nullptr;
                           CUdriverProcAddressQueryResult ignored;
                           const CUresult again = real(name, &address, known, flags, &ignored);
                           return again == CUDA_SUCCESS ? address : nullptr;
                         });
  return result;
}

}  // namespace gpusnap

extern "C" {

// Called by the trampolines alone: where the lookup is to go on.
[[gnu::visibility("hidden"), gnu::used]] void* gpusnap_choose_dlsym(void* handle,
                                                                    const char* symbol) {
  using namespace gpusnap;
  const Dlsym next = next_dlsym();
  if (next == nullptr) return reinterpret_cast<void*>(answer_nothing);
  return reinterpret_cast<void*>(ours_to_answer(handle, symbol) ? answer_dlsym : next);
}

[[gnu::visibility("hidden"), gnu::used]] void* gpusnap_choose_dlvsym(void* handle,
                                                                     const char* symbol) {
  using namespace gpusnap;
  const Dlvsym next = next_dlvsym();
  if (next == nullptr) return reinterpret_cast<void*>(answer_nothing);
  return reinterpret_cast<void*>(ours_to_answer(handle, symbol) ? answer_dlvsym : next);
}
}
