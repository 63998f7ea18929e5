// SPDX-License-Identifier: Apache-2.0

#include "interpose/hook/first_call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>

#include "interpose/hook/activation.h"

// A thunk keeps all registers that arguments may be in, whatever they are, and jumps on.
asm(R"(
  .text
  .p2align 4
  .type gpusnap_thunks, @function
gpusnap_thunks:
  .set gpusnap_thunk, 0
  .rept 256
  .p2align 4
  endbr64
  pushq $gpusnap_thunk
  jmp gpusnap_first_call_of_thunk
  .set gpusnap_thunk, gpusnap_thunk + 1
  .endr
  .size gpusnap_thunks, . - gpusnap_thunks

  .p2align 4
  .type gpusnap_first_call_of_thunk, @function
gpusnap_first_call_of_thunk:
  .cfi_startproc
  .cfi_adjust_cfa_offset 8
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %r9
  .cfi_adjust_cfa_offset 8
  pushq %rax
  .cfi_adjust_cfa_offset 8
  subq $136, %rsp
  .cfi_adjust_cfa_offset 136
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movq 192(%rsp), %rdi
  call gpusnap_note_call
  movq %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  .cfi_adjust_cfa_offset -136
  popq %rax
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
  .size gpusnap_first_call_of_thunk, . - gpusnap_first_call_of_thunk
)");

extern "C" [[gnu::visibility("hidden")]] const char gpusnap_thunks[];

namespace gpusnap {
namespace {

constexpr size_t kThunks = 256, kThunkBytes = 16, kNameBytes = 96;

struct Unknown {
  char name[kNameBytes];
  void* real;
  std::atomic<bool> is_told;
};

// Filled in before its thunk is handed out.
constinit Unknown unknown[kThunks] = {};
constinit size_t unknown_count = 0;
constinit std::mutex mutex;

constexpr const char* kPassedThrough[] = {
#include "interpose/cuda/passed_through.inc"
};

void* thunk(size_t number) {
  return const_cast<char*>(gpusnap_thunks + number * kThunkBytes);
}

// "cuStreamGetFlags" of "cuStreamGetFlags_ptsz", "cuDeviceGetUuid" of "cuDeviceGetUuid_v2".
std::string_view plain(std::string_view symbol) {
  for (const std::string_view form : {"_ptsz", "_ptds"}) {
    if (symbol.ends_with(form)) symbol.remove_suffix(form.size());
  }
  if (symbol.size() > 3 && symbol.substr(symbol.size() - 3, 2) == "_v") symbol.remove_suffix(3);
  return symbol;
}

}  // namespace

bool is_passed_through(std::string_view name) {
  return std::binary_search(std::begin(kPassedThrough), std::end(kPassedThrough), plain(name));
}

void* thunk_of(const char* name, void* real) {
  const std::string_view text(name);
  {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < unknown_count; ++i) {
      if (unknown[i].real == real && text == unknown[i].name) return thunk(i);
    }
    if (unknown_count < kThunks && text.size() < kNameBytes) {
      Unknown& next = unknown[unknown_count];
      std::copy(text.begin(), text.end(), next.name);
      next.real = real;
      return thunk(unknown_count++);
    }
  }
  session_lost_sight("a function of the driver that is not known");
  return real;
}

}  // namespace gpusnap

// Called by the thunks alone: where the call is to go on.
extern "C" [[gnu::visibility("hidden"), gnu::used]] void* gpusnap_note_call(uint64_t number) {
  using namespace gpusnap;
  Unknown& called = unknown[number];
  // Before the process is followed there is nothing that the call could change unseen, and within a
  // hooked call it is the driver's own.
  const bool counts = process_active.load(std::memory_order_relaxed) && !Guard::held();
  if (counts && !called.is_told.exchange(true)) session_lost_sight(called.name);
  return called.real;
}
