#include "interpose/hook/resolve.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "interpose/hook/first_call.h"
#include "interpose/hook/hook_table.h"
#include "interpose/hook/libc_symbol.h"
#include "interpose/hook/real_function.h"

#ifndef __x86_64__
#error "the trampolines below are for x86-64"
#endif

// dlsym and dlvsym must reach the C library with the caller's own return address: RTLD_NEXT means
// 'behind the caller'. So the exported functions only choose, and jump. They carry the C library's
// versions, so that other interposing libraries, which ask for 'dlsym' by version, find them too.
// dlopen looks where its caller's library says, so it is likewise jumped to, without RTLD_DEEPBIND
// (8).
asm(R"(
  .text
  .type gpusnap_dlsym, @function
  .p2align 4
gpusnap_dlsym:
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
  .size gpusnap_dlsym, . - gpusnap_dlsym

  .type gpusnap_dlvsym, @function
  .p2align 4
gpusnap_dlvsym:
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
  .size gpusnap_dlvsym, . - gpusnap_dlvsym

  .type gpusnap_dlopen, @function
  .p2align 4
gpusnap_dlopen:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call gpusnap_choose_dlopen
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  andl $~8, %esi
  jmp *%rax
  .cfi_endproc
  .size gpusnap_dlopen, . - gpusnap_dlopen

  .globl gpusnap_dlsym_new, gpusnap_dlsym_old, gpusnap_dlvsym_new, gpusnap_dlvsym_old
  .globl gpusnap_dlopen_new, gpusnap_dlopen_old
  .set gpusnap_dlsym_new, gpusnap_dlsym
  .set gpusnap_dlsym_old, gpusnap_dlsym
  .set gpusnap_dlvsym_new, gpusnap_dlvsym
  .set gpusnap_dlvsym_old, gpusnap_dlvsym
  .set gpusnap_dlopen_new, gpusnap_dlopen
  .set gpusnap_dlopen_old, gpusnap_dlopen
  .symver gpusnap_dlsym_new, dlsym@@GLIBC_2.34, remove
  .symver gpusnap_dlsym_old, dlsym@GLIBC_2.2.5, remove
  .symver gpusnap_dlvsym_new, dlvsym@@GLIBC_2.34, remove
  .symver gpusnap_dlvsym_old, dlvsym@GLIBC_2.2.5, remove
  .symver gpusnap_dlopen_new, dlopen@@GLIBC_2.34, remove
  .symver gpusnap_dlopen_old, dlopen@GLIBC_2.2.5, remove
)");

namespace gpusnap {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);
using Dlopen = void* (*)(const char*, int);
static_assert(RTLD_DEEPBIND == 8);  // as the trampoline has it

// A call made as the last act of a function is a jump, and the C library would take our caller for
// its own.
void* not_a_tail_call(void* result) {
  asm volatile("" : "+r"(result));
  return result;
}

// The C library's own; calling it by name would end in ours. glibc 2.34 gave it a new version.
Dlsym libc_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    if (void* found = find_libc_symbol("dlsym", version)) return reinterpret_cast<Dlsym>(found);
  }
  return nullptr;
}

// The resolver that stands behind us: the C library's, or that of another interposing library.
template <class F>
F next_resolver(const char* name, std::atomic<F>& cached) {
  F found = cached.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  const Dlsym lookup = libc_dlsym();
  if (lookup == nullptr) return nullptr;
  found = reinterpret_cast<F>(not_a_tail_call(lookup(RTLD_NEXT, name)));
  cached.store(found, std::memory_order_release);
  return found;
}

Dlsym next_dlsym() {
  static constinit std::atomic<Dlsym> cached{nullptr};
  return next_resolver("dlsym", cached);
}

Dlvsym next_dlvsym() {
  static constinit std::atomic<Dlvsym> cached{nullptr};
  return next_resolver("dlvsym", cached);
}

Dlopen next_dlopen() {
  static constinit std::atomic<Dlopen> cached{nullptr};
  return next_resolver("dlopen", cached);
}

// The symbol among the libraries that the library of this code was opened with.
void* find_beside(void* code, const char* symbol) {
  Dl_info info;
  void* map = nullptr;
  if (dladdr1(code, &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) return nullptr;
  return real_dlsym(map, symbol);
}

// The symbol of that name that this library itself exports, or null.
void* own_symbol(const char* symbol) {
  static const char marker = 0;
  Dl_info own, info;
  if (dladdr(&marker, &own) == 0) return nullptr;
  // A library that was there from the start can be searched only once it has been opened.
  static void* const opened = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (opened == nullptr) return nullptr;
  void* const found = real_dlsym(opened, symbol);
  // The libraries that we need are searched, too.
  const bool is_own =
      found != nullptr && dladdr(found, &info) != 0 && info.dli_fbase == own.dli_fbase;
  return is_own ? found : nullptr;
}

// The address that the program gets for `entry`; the real resolver `found` one for `caller`'s code.
void* substitute(const HookEntry& entry, void* found, void* handle, void* caller) {
  if (found == nullptr) return nullptr;
  if (found == entry.wrapper) {
    // Found by way of the global scope, where we come first: true only if there is a driver behind.
    found = handle == RTLD_DEFAULT ? find_beside(caller, entry.symbol) : nullptr;
    if (found == nullptr || found == entry.wrapper) {
      found = real_dlsym(RTLD_NEXT, entry.symbol);  // leaves its error for dlerror
    }
    if (found == nullptr) return nullptr;
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

// Names of MPI's: there is one function of a name, so an export of ours stands in for it. Without
// an MPI behind us there is none, as without us.
void* substitute_mpi(void* found, const char* symbol) {
  if (found == nullptr) return nullptr;
  void* const own = own_symbol(symbol);
  if (own == nullptr || found != own) return own == nullptr ? found : own;
  if (mpi_symbol(symbol) != nullptr) return own;
  return real_dlsym(RTLD_NEXT, symbol);  // leaves its error for dlerror
}

void* answer_mpi_dlsym(void* handle, const char* symbol) {
  return substitute_mpi(not_a_tail_call(next_dlsym()(handle, symbol)), symbol);
}

void* answer_mpi_dlvsym(void* handle, const char* symbol, const char* version) {
  return substitute_mpi(not_a_tail_call(next_dlvsym()(handle, symbol, version)), symbol);
}

bool is_of_mpi(void* handle, const char* symbol) {
  if (handle == RTLD_NEXT || symbol == nullptr) return false;
  return std::strncmp(symbol, "MPI", 3) == 0 || std::strncmp(symbol, "mpi", 3) == 0;
}

// Looks like a function of the driver that no table has.
bool may_be_unknown(void* handle, const char* symbol) {
  if (handle == RTLD_NEXT || symbol == nullptr) return false;
  const bool of_driver =
      symbol[0] == 'c' && symbol[1] == 'u' && symbol[2] >= 'A' && symbol[2] <= 'Z';
  return of_driver && find_symbol(symbol) == nullptr && !is_passed_through(symbol);
}

void* substitute_unknown(void* found, const char* symbol) {
  Dl_info info;
  if (found == nullptr || dladdr(found, &info) == 0 || info.dli_fname == nullptr) return found;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const file = slash == nullptr ? info.dli_fname : slash + 1;
  return std::strncmp(file, "libcuda.so", 10) == 0 ? thunk_of(symbol, found) : found;
}

void* answer_unknown_dlsym(void* handle, const char* symbol) {
  return substitute_unknown(not_a_tail_call(next_dlsym()(handle, symbol)), symbol);
}

void* answer_unknown_dlvsym(void* handle, const char* symbol, const char* version) {
  return substitute_unknown(not_a_tail_call(next_dlvsym()(handle, symbol, version)), symbol);
}

bool ours_to_answer(void* handle, const char* symbol) {
  return handle != RTLD_NEXT && symbol != nullptr && find_symbol(symbol) != nullptr;
}

// The hook of the very form that the driver answered with for `name`, or null where the address is
// no form that we know. A driver that is older than the version it is asked for answers with the
// latest form it has, whose signature may be another.
const HookEntry* answered_form(const char* name, void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_saddr != function) return nullptr;
  const HookEntry* entry = find_symbol(info.dli_sname);
  return entry != nullptr && std::strcmp(entry->name, name) == 0 ? entry : nullptr;
}

// Replaces *function, which the driver answered for `name`. `ask_again(version)` asks it once more.
template <class AskAgain>
void substitute_entry_point(const char* name, void** function, int version, bool per_thread_stream,
                            AskAgain ask_again) {
  if (name == nullptr || *name == 0 || function == nullptr || *function == nullptr) return;
  const HookEntry* entry = answered_form(name, *function);
  if (entry == nullptr) {
    entry = find_name(name, version, per_thread_stream);
    // The same name with another signature, made after our declarations.
    const bool is_newer = entry != nullptr && version > GPUSNAP_CUDA_VERSION &&
                          ask_again(GPUSNAP_CUDA_VERSION) != *function;
    if (is_newer || (entry == nullptr && !is_passed_through(name))) {
      *function = thunk_of(name, *function);
      return;
    }
    if (entry == nullptr) return;
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

void* mpi_symbol(const char* symbol) {
  if (void* found = real_dlsym(RTLD_NEXT, symbol)) return found;
  // Where a program opened MPI for itself alone (mpi4py does), it is not among what is behind us.
  for (const char* library : {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"}) {
    void* const opened = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (opened == nullptr) continue;
    // The handle is kept: what is found is used from now on.
    if (void* found = real_dlsym(opened, symbol)) return found;
    dlclose(opened);
  }
  return nullptr;
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
  if (is_of_mpi(handle, symbol)) return reinterpret_cast<void*>(answer_mpi_dlsym);
  if (may_be_unknown(handle, symbol)) return reinterpret_cast<void*>(answer_unknown_dlsym);
  return reinterpret_cast<void*>(ours_to_answer(handle, symbol) ? answer_dlsym : next);
}

[[gnu::visibility("hidden"), gnu::used]] void* gpusnap_choose_dlvsym(void* handle,
                                                                     const char* symbol) {
  using namespace gpusnap;
  const Dlvsym next = next_dlvsym();
  if (next == nullptr) return reinterpret_cast<void*>(answer_nothing);
  if (is_of_mpi(handle, symbol)) return reinterpret_cast<void*>(answer_mpi_dlvsym);
  if (may_be_unknown(handle, symbol)) return reinterpret_cast<void*>(answer_unknown_dlvsym);
  return reinterpret_cast<void*>(ours_to_answer(handle, symbol) ? answer_dlvsym : next);
}

// A library opened with RTLD_DEEPBIND would find the C library's dlsym and the driver's own calls
// before ours, and nothing that it does could be followed.
[[gnu::visibility("hidden"), gnu::used]] void* gpusnap_choose_dlopen(const char*, int) {
  using namespace gpusnap;
  const Dlopen next = next_dlopen();
  return next == nullptr ? reinterpret_cast<void*>(answer_nothing) : reinterpret_cast<void*>(next);
}
}
