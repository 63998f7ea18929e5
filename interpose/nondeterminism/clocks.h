// The times that clocks tell a program: the real ones, which are noted, and in a restored program
// the recorded ones (value_log.h).
#pragma once

#include <time.h>

#include <cstdint>

#include "interpose/nondeterminism/value_log.h"

namespace gpusnap::nondeterminism {

inline constexpr int64_t kSecond = 1'000'000'000;  // ns
inline int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}
inline timespec timespec_of(int64_t ns) {
  return {ns / kSecond, ns % kSecond};
}

// For a restored process. `now(with)`: the real number.
int64_t tell_again(Source source, int64_t (*now)(const void*), const void* with);
// The number that a source tells the caller. `now()`: the real number. No ValueLog is held during
// now(): it takes the longest, and a signal's handler that interrupts it may never return to it.
template <class Now>
int64_t tell(Source source, const Now& now) {
  if (restored()) [[unlikely]] {
    const auto call = [](const void* with) {
      return static_cast<int64_t>((*static_cast<const Now*>(with))());
    };
    return tell_again(source, call, &now);
  }
  const int64_t number = now();
  if (const Own own(source); own) own->add(number);
  return number;
}

// The checkpoint has this as the last number of a series of that source: the clocks of this process
// do not go back behind it. Before begin().
void clock_was_at(Source source, int64_t number);

// A moment until which the program wants to wait, which it has from a clock that may have told it
// recorded numbers: the real one. By the clock of the wall, or the one that counts from the start
// of the machine. `room`: for the result.
//
// Reckoned from what the calling thread was told last, or where it has never asked, any other; but
// what is later than the first time that any thread was told after those recorded comes from such
// a one, whatever the calling thread has been told.
const timespec* real_moment(bool wall, const timespec* told, timespec& room);

}  // namespace gpusnap::nondeterminism
