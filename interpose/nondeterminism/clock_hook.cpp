// time, clock_gettime and their like, exported: what they say is noted, and in a replay said again
// (clocks.h).

#include <errno.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>

#include "interpose/hook/libc_export.h"
#include "interpose/hook/next_function.h"
#include "interpose/nondeterminism/clocks.h"

asm(R"(
  gpusnap_export time, GLIBC_2.2.5
  gpusnap_export gettimeofday, GLIBC_2.2.5
  gpusnap_export clock, GLIBC_2.2.5
  gpusnap_export timespec_get, GLIBC_2.16
  gpusnap_export clock_gettime, GLIBC_2.17
  gpusnap_export_old clock_gettime, GLIBC_2.2.5
)");

namespace gpusnap::nondeterminism {
namespace {

using Time = time_t (*)(time_t*);
using GetTimeOfDay = int (*)(timeval*, void*);
using ProcessorTime = clock_t (*)();
using TimespecGet = int (*)(timespec*, int);
using ClockGetTime = int (*)(clockid_t, timespec*);

constinit std::atomic<Time> next_time{nullptr};
constinit std::atomic<GetTimeOfDay> next_gettimeofday{nullptr};
constinit std::atomic<ProcessorTime> next_clock{nullptr};
constinit std::atomic<TimespecGet> next_timespec_get{nullptr};
constinit std::atomic<ClockGetTime> next_clock_gettime{nullptr};

int64_t read_clock(ClockGetTime next, clockid_t clock) {
  timespec now = {};
  (void)next(clock, &now);
  return nanoseconds(now);
}

bool has_source(clockid_t clock) {
  return clock >= 0 && static_cast<unsigned>(clock) < kClocks;
}

// Looked up at once: a signal's handler may be the first to ask, or the child of a vfork.
[[gnu::constructor]] void find_next() {
  (void)next_function("time", next_time);
  (void)next_function("gettimeofday", next_gettimeofday);
  (void)next_function("clock", next_clock);
  (void)next_function("timespec_get", next_timespec_get);
  (void)next_function("clock_gettime", next_clock_gettime);
}

}  // namespace
}  // namespace gpusnap::nondeterminism

extern "C" {

GPUSNAP_EXPORTED time_t gpusnap_time(time_t* to) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("time", next_time);
  const auto now = static_cast<time_t>(tell(Source::kTime, [&] { return next(nullptr); }));
  if (to != nullptr) *to = now;
  return now;
}

GPUSNAP_EXPORTED int gpusnap_gettimeofday(timeval* to, void* zone) {
  using namespace gpusnap::nondeterminism;
  constexpr int64_t kMicroseconds = 1'000'000;
  const auto next = gpusnap::next_function("gettimeofday", next_gettimeofday);
  if (to == nullptr) return next(to, zone);
  const int64_t now = tell(Source::kTimeOfDay, [&] {
    (void)next(to, zone);
    return int64_t{to->tv_sec} * kMicroseconds + to->tv_usec;
  });
  *to = {now / kMicroseconds, now % kMicroseconds};
  return 0;
}

GPUSNAP_EXPORTED clock_t gpusnap_clock() {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("clock", next_clock);
  return static_cast<clock_t>(tell(Source::kProcessorTime, [&] { return next(); }));
}

GPUSNAP_EXPORTED int gpusnap_clock_gettime(clockid_t clock, timespec* to) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("clock_gettime", next_clock_gettime);
  if (!has_source(clock) || to == nullptr) return next(clock, to);
  const Source source = clock_source(static_cast<unsigned>(clock));
  *to = timespec_of(tell(source, [&] { return read_clock(next, clock); }));
  return 0;
}

GPUSNAP_EXPORTED int gpusnap_timespec_get(timespec* to, int base) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("timespec_get", next_timespec_get);
  if (base != TIME_UTC || to == nullptr) return next(to, base);
  const Source source = clock_source(CLOCK_REALTIME);
  *to = timespec_of(tell(source, [&] {
    (void)next(to, base);
    return nanoseconds(*to);
  }));
  return base;
}
}
