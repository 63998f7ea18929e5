// Calls that wait until a moment, exported: a program reckons it from what a clock has told it, and
// in a restored one that may be another time than the kernel's (clocks.h). Elsewhere nothing
// happens to them.

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>

#include <atomic>

#include "interpose/hook/libc_export.h"
#include "interpose/hook/next_function.h"
#include "interpose/nondeterminism/clocks.h"

asm(R"(
  gpusnap_export pthread_cond_timedwait, GLIBC_2.3.2
  gpusnap_export pthread_cond_clockwait, GLIBC_2.34
  gpusnap_export_old pthread_cond_clockwait, GLIBC_2.30
  gpusnap_export pthread_mutex_timedlock, GLIBC_2.34
  gpusnap_export_old pthread_mutex_timedlock, GLIBC_2.2.5
  gpusnap_export pthread_mutex_clocklock, GLIBC_2.34
  gpusnap_export_old pthread_mutex_clocklock, GLIBC_2.30
  gpusnap_export pthread_rwlock_timedrdlock, GLIBC_2.34
  gpusnap_export_old pthread_rwlock_timedrdlock, GLIBC_2.2.5
  gpusnap_export pthread_rwlock_timedwrlock, GLIBC_2.34
  gpusnap_export_old pthread_rwlock_timedwrlock, GLIBC_2.2.5
  gpusnap_export pthread_rwlock_clockrdlock, GLIBC_2.34
  gpusnap_export_old pthread_rwlock_clockrdlock, GLIBC_2.30
  gpusnap_export pthread_rwlock_clockwrlock, GLIBC_2.34
  gpusnap_export_old pthread_rwlock_clockwrlock, GLIBC_2.30
  gpusnap_export sem_timedwait, GLIBC_2.34
  gpusnap_export_old sem_timedwait, GLIBC_2.2.5
  gpusnap_export sem_clockwait, GLIBC_2.34
  gpusnap_export_old sem_clockwait, GLIBC_2.30
  gpusnap_export cnd_timedwait, GLIBC_2.34
  gpusnap_export_old cnd_timedwait, GLIBC_2.28
  gpusnap_export mtx_timedlock, GLIBC_2.34
  gpusnap_export_old mtx_timedlock, GLIBC_2.28
  gpusnap_export clock_nanosleep, GLIBC_2.17
  gpusnap_export_old clock_nanosleep, GLIBC_2.2.5
  gpusnap_export timerfd_settime, GLIBC_2.8
  gpusnap_export timer_settime, GLIBC_2.34
  gpusnap_export_old timer_settime, GLIBC_2.3.3
)");

// libstdc++ waits by syscall(SYS_futex, ...) for what is std::future's or a semaphore's. All other
// calls of the system go on as they came, with the program's return address: what they do to the
// stack is the program's affair.
asm(R"(
  .text
  .type gpusnap_syscall, @function
  .p2align 4
gpusnap_syscall:
  .cfi_startproc
  endbr64
  cmpq $202, %rdi
  je gpusnap_syscall_futex
  movq gpusnap_next_syscall(%rip), %rax
  testq %rax, %rax
  je gpusnap_syscall_first
  jmp *%rax
  .cfi_endproc
  .size gpusnap_syscall, . - gpusnap_syscall
  gpusnap_export syscall, GLIBC_2.2.5
)");
static_assert(SYS_futex == 202);  // as it has it

using Syscall = long (*)(long, long, long, long, long, long, long);
extern "C" {
[[gnu::visibility("hidden"), gnu::used]] constinit std::atomic<Syscall> gpusnap_next_syscall{
    nullptr};
static_assert(sizeof gpusnap_next_syscall == sizeof(void*));
}

namespace gpusnap::nondeterminism {
namespace {

// By which clock it is, where the call does not say: no machine has run for so long.
bool is_wall_time(const timespec* told) {
  constexpr time_t kThirtyYears = 900'000'000;
  return told != nullptr && told->tv_sec > kThirtyYears;
}

bool is_known(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

// The moment of a call that names its clock.
class Moment {
 public:
  Moment(clockid_t clock, const timespec* told)
      : real_(is_known(clock) ? real_moment(clock == CLOCK_REALTIME, told, room_) : told) {}
  explicit Moment(const timespec* told) : real_(real_moment(is_wall_time(told), told, room_)) {}
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  const timespec* real() const { return real_; }

 private:
  timespec room_ = {};
  const timespec* real_;
};

// At a moment, by whichever clock the timer has.
class TimerMoment {
 public:
  TimerMoment(bool is_moment, const itimerspec* told) : real_(told) {
    if (!is_moment || told == nullptr) return;
    if (told->it_value.tv_sec == 0 && told->it_value.tv_nsec == 0) return;  // it is switched off
    room_ = {told->it_interval, *Moment(&told->it_value).real()};
    real_ = &room_;
  }
  TimerMoment(const TimerMoment&) = delete;
  TimerMoment& operator=(const TimerMoment&) = delete;
  const itimerspec* real() const { return real_; }

 private:
  itimerspec room_ = {};
  const itimerspec* real_;
};

// A function with parameters of just the types that it is called with.
class Next {
 public:
  explicit Next(void* function) : function_(function) {}
  template <class... A>
  int operator()(A... arguments) const {
    return reinterpret_cast<int (*)(A...)>(function_)(arguments...);
  }

 private:
  void* function_;
};

[[gnu::constructor]] void find_next() {
  (void)next_function("syscall", gpusnap_next_syscall);
}

}  // namespace
}  // namespace gpusnap::nondeterminism

// The function behind ours of that name.
#define GPUSNAP_NEXT(name)                             \
  static constinit std::atomic<void*> cached{nullptr}; \
  const gpusnap::nondeterminism::Next next(gpusnap::next_function(#name, cached))

// Not noexcept, as most of these are places where a thread may be cancelled.
extern "C" {

GPUSNAP_EXPORTED int gpusnap_pthread_cond_timedwait(pthread_cond_t* condition,
                                                    pthread_mutex_t* mutex, const timespec* until) {
  GPUSNAP_NEXT(pthread_cond_timedwait);
  return next(condition, mutex, gpusnap::nondeterminism::Moment(until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_cond_clockwait(pthread_cond_t* condition,
                                                    pthread_mutex_t* mutex, clockid_t clock,
                                                    const timespec* until) {
  GPUSNAP_NEXT(pthread_cond_clockwait);
  return next(condition, mutex, clock, gpusnap::nondeterminism::Moment(clock, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_mutex_timedlock(pthread_mutex_t* mutex,
                                                     const timespec* until) {
  GPUSNAP_NEXT(pthread_mutex_timedlock);
  return next(mutex, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                                     const timespec* until) {
  GPUSNAP_NEXT(pthread_mutex_clocklock);
  return next(mutex, clock, gpusnap::nondeterminism::Moment(clock, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                                        const timespec* until) {
  GPUSNAP_NEXT(pthread_rwlock_timedrdlock);
  return next(lock, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                                        const timespec* until) {
  GPUSNAP_NEXT(pthread_rwlock_timedwrlock);
  return next(lock, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                                        const timespec* until) {
  GPUSNAP_NEXT(pthread_rwlock_clockrdlock);
  return next(lock, clock, gpusnap::nondeterminism::Moment(clock, until).real());
}

GPUSNAP_EXPORTED int gpusnap_pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                                        const timespec* until) {
  GPUSNAP_NEXT(pthread_rwlock_clockwrlock);
  return next(lock, clock, gpusnap::nondeterminism::Moment(clock, until).real());
}

GPUSNAP_EXPORTED int gpusnap_sem_timedwait(sem_t* semaphore, const timespec* until) {
  GPUSNAP_NEXT(sem_timedwait);
  return next(semaphore, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_sem_clockwait(sem_t* semaphore, clockid_t clock,
                                           const timespec* until) {
  GPUSNAP_NEXT(sem_clockwait);
  return next(semaphore, clock, gpusnap::nondeterminism::Moment(clock, until).real());
}

GPUSNAP_EXPORTED int gpusnap_cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* until) {
  GPUSNAP_NEXT(cnd_timedwait);
  return next(condition, mutex, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_mtx_timedlock(mtx_t* mutex, const timespec* until) {
  GPUSNAP_NEXT(mtx_timedlock);
  return next(mutex, gpusnap::nondeterminism::Moment(CLOCK_REALTIME, until).real());
}

GPUSNAP_EXPORTED int gpusnap_clock_nanosleep(clockid_t clock, int flags, const timespec* until,
                                             timespec* left) {
  GPUSNAP_NEXT(clock_nanosleep);
  if ((flags & TIMER_ABSTIME) == 0) return next(clock, flags, until, left);
  return next(clock, flags, gpusnap::nondeterminism::Moment(clock, until).real(), left);
}

GPUSNAP_EXPORTED int gpusnap_timerfd_settime(int timer, int flags, const itimerspec* to,
                                             itimerspec* before) {
  GPUSNAP_NEXT(timerfd_settime);
  const gpusnap::nondeterminism::TimerMoment moment((flags & TFD_TIMER_ABSTIME) != 0, to);
  return next(timer, flags, moment.real(), before);
}

GPUSNAP_EXPORTED int gpusnap_timer_settime(timer_t timer, int flags, const itimerspec* to,
                                           itimerspec* before) {
  GPUSNAP_NEXT(timer_settime);
  const gpusnap::nondeterminism::TimerMoment moment((flags & TIMER_ABSTIME) != 0, to);
  return next(timer, flags, moment.real(), before);
}

// Where it has not been looked up yet.
GPUSNAP_EXPORTED long gpusnap_syscall_first(long number, long a, long b, long c, long d, long e,
                                            long f) {
  const auto next = gpusnap::next_function("syscall", gpusnap_next_syscall);
  return next(number, a, b, c, d, e, f);
}

GPUSNAP_EXPORTED long gpusnap_syscall_futex(long number, long word, long operation, long value,
                                            const timespec* until, long other, long mask) {
  const auto next = gpusnap::next_function("syscall", gpusnap_next_syscall);
  // Only some calls with such a parameter name a moment; the others say how long.
  const bool is_moment = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
  const bool wall = (operation & FUTEX_CLOCK_REALTIME) != 0;
  timespec room = {};
  if (is_moment) until = gpusnap::nondeterminism::real_moment(wall, until, room);
  return next(number, word, operation, value, reinterpret_cast<intptr_t>(until), other, mask);
}
}
