// longjmp and its like, exported: who jumps out of a signal's handler may have come there from
// within a series (value_log.h), to which it does not return. Nothing else happens to them.

#include <setjmp.h>

#include <atomic>

#include "interpose/hook/libc_export.h"
#include "interpose/hook/next_function.h"
#include "interpose/nondeterminism/value_log.h"

asm(R"(
  gpusnap_export longjmp, GLIBC_2.2.5
  gpusnap_export _longjmp, GLIBC_2.2.5
  gpusnap_export siglongjmp, GLIBC_2.2.5
  gpusnap_export __longjmp_chk, GLIBC_2.11
)");

namespace gpusnap::nondeterminism {
namespace {

using Jump = void (*)(__jmp_buf_tag*, int);
constinit std::atomic<Jump> next_longjmp{nullptr}, next__longjmp{nullptr};
constinit std::atomic<Jump> next_siglongjmp{nullptr}, next_longjmp_chk{nullptr};

// Looked up at once: a signal's handler may be the first to jump.
[[gnu::constructor]] void find_next() {
  (void)next_function("longjmp", next_longjmp);
  (void)next_function("_longjmp", next__longjmp);
  (void)next_function("siglongjmp", next_siglongjmp);
  (void)next_function("__longjmp_chk", next_longjmp_chk);
}

[[noreturn]] void jump(const char* name, std::atomic<Jump>& next, __jmp_buf_tag* to, int value) {
  const Jump real = next_function(name, next);
  leave_series();
  real(to, value);
  __builtin_unreachable();
}

}  // namespace
}  // namespace gpusnap::nondeterminism

extern "C" {

[[noreturn]] GPUSNAP_EXPORTED void gpusnap_longjmp(__jmp_buf_tag* to, int value) {
  gpusnap::nondeterminism::jump("longjmp", gpusnap::nondeterminism::next_longjmp, to, value);
}
[[noreturn]] GPUSNAP_EXPORTED void gpusnap__longjmp(__jmp_buf_tag* to, int value) {
  gpusnap::nondeterminism::jump("_longjmp", gpusnap::nondeterminism::next__longjmp, to, value);
}
[[noreturn]] GPUSNAP_EXPORTED void gpusnap_siglongjmp(__jmp_buf_tag* to, int value) {
  gpusnap::nondeterminism::jump("siglongjmp", gpusnap::nondeterminism::next_siglongjmp, to, value);
}
[[noreturn]] GPUSNAP_EXPORTED void gpusnap___longjmp_chk(__jmp_buf_tag* to, int value) {
  gpusnap::nondeterminism::jump("__longjmp_chk", gpusnap::nondeterminism::next_longjmp_chk, to,
                                value);
}
}
