// A clock that has said all that was recorded is a real one from then on, which does not go back:
// where the real one is behind (another machine, or one that was started again) the difference is
// added, for good.

#include "interpose/nondeterminism/clocks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace gpusnap::nondeterminism {
namespace {

// Clocks that say the same, in their way.
enum Family : uint8_t { kWall, kMonotonic, kRaw, kBoot, kProcessor };
constexpr size_t kFamilies = kProcessor;  // those that are common to all processes

Family family_of(Source source) {
  if (source == Source::kTime || source == Source::kTimeOfDay) return kWall;
  if (source < Source::kClock) return kProcessor;
  switch (static_cast<clockid_t>(source) - static_cast<clockid_t>(Source::kClock)) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
      return kWall;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
      return kMonotonic;
    case CLOCK_MONOTONIC_RAW:
      return kRaw;
    case CLOCK_BOOTTIME:
      return kBoot;
    default:
      return kProcessor;
  }
}

// Nanoseconds of what its numbers count.
int64_t unit_of(Source source) {
  switch (source) {
    case Source::kTime:
      return kSecond;
    case Source::kTimeOfDay:
    case Source::kProcessorTime:
      return 1000;
    default:
      return 1;
  }
}

// The offsets that are added to the real clocks.
constinit std::atomic<int64_t> offsets[kFamilies] = {};

// How much the real clock is ahead of what a thread was told last; and any thread.
struct Ahead {
  int64_t by = 0;
  bool known = false;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Ahead own_ahead[kFamilies];
constinit std::atomic<int64_t> any_ahead[kFamilies] = {};
// The first time that any thread was told and that was not recorded, in nanoseconds.
constinit std::atomic<int64_t> first_real[kFamilies] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};

void note_ahead(Family family, int64_t by) {
  if (family == kProcessor) return;
  own_ahead[family] = {by, true};
  any_ahead[family].store(by, std::memory_order_relaxed);
}

// How much the real clock is ahead of the one that has told that.
int64_t ahead_of(Family family, int64_t told) {
  if (told >= first_real[family].load(std::memory_order_relaxed)) {
    return -offsets[family].load(std::memory_order_relaxed);
  }
  const Ahead& own = own_ahead[family];
  return own.known ? own.by : any_ahead[family].load(std::memory_order_relaxed);
}

// In units of the source, upwards. `own`: of a processor's time.
int64_t offset_of(const Own& own, Source source, int64_t real) {
  const Family family = family_of(source);
  if (family != kProcessor) {
    const int64_t unit = unit_of(source);
    return (offsets[family].load(std::memory_order_relaxed) + unit - 1) / unit;
  }
  if (!own) return 0;
  if (!own->has_offset) {
    own->offset = std::max<int64_t>(own->previous() - real, 0);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler may jump from here
    own->has_offset = true;
  }
  return own->offset;
}

// It is later than all that was recorded.
int64_t go_on(Source source, int64_t real) {
  const Own own(source);
  const int64_t number = real + offset_of(own, source, real);
  if (own) own->add(number);
  if (const Family family = family_of(source); family != kProcessor) {
    int64_t none = INT64_MAX;
    first_real[family].compare_exchange_strong(none, number * unit_of(source));
  }
  return number;
}

bool take(Source source, int64_t& number) {
  const Own own(source);
  return own && own->take(number);
}

// Past what we export.
int64_t real_now(clockid_t clock) {
  timespec now = {};
  (void)syscall(SYS_clock_gettime, clock, &now);
  return nanoseconds(now);
}

}  // namespace

int64_t tell_again(Source source, int64_t (*now)(const void*), const void* with) {
  if (!is_the_program()) return now(with);
  int64_t number = 0;
  const bool recorded = take(source, number);
  const int64_t real = now(with);
  if (!recorded) number = go_on(source, real);
  note_ahead(family_of(source), (real - number) * unit_of(source));
  return number;
}

void clock_was_at(Source source, int64_t number) {
  const Family family = family_of(source);
  if (family == kProcessor || source == Source::kRandom) return;
  constexpr clockid_t kClockOf[kFamilies] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                             CLOCK_BOOTTIME};
  int64_t was = 0;
  if (__builtin_mul_overflow(number, unit_of(source), &was)) return;
  int64_t behind = 0;
  if (__builtin_sub_overflow(was, real_now(kClockOf[family]), &behind)) return;
  if (behind > offsets[family].load()) offsets[family].store(behind);
}

const timespec* real_moment(bool wall, const timespec* told, timespec& room) {
  // An invalid time is passed on as it is: the real call says that it is none.
  if (!restored() || told == nullptr || told->tv_nsec < 0 || told->tv_nsec >= kSecond) return told;
  if (told->tv_sec < 0 || told->tv_sec > INT64_MAX / kSecond - 1 || !is_the_program()) return told;
  const int64_t by = ahead_of(wall ? kWall : kMonotonic, nanoseconds(*told));
  int64_t moment = 0;
  if (by == 0 || __builtin_add_overflow(nanoseconds(*told), by, &moment)) return told;
  room = timespec_of(std::max<int64_t>(moment, 0));
  return &room;
}

}  // namespace gpusnap::nondeterminism
