#include "interpose/services/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gpusnap {

namespace log_internal {
constinit std::atomic<LogLevel> level{LogLevel::kWarn};
}

namespace {
// Kept free at the end of a line for "..." and the line break.
constexpr size_t kTail = 4;

constinit std::atomic<int64_t> own_rank{-1};  // less than 0: there is only one
}  // namespace

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kTrace:
      return "trace";
  }
  return "log";
}

void set_log_rank(uint32_t rank) {
  own_rank.store(rank, std::memory_order_relaxed);
}

void set_log_level(LogLevel level) {
  log_internal::level.store(level, std::memory_order_relaxed);
}

LogLine::LogLine(LogLevel level) {
  add("gpusnap: ");
  add(name_of(level));
  add(": ");
  const int64_t rank = own_rank.load(std::memory_order_relaxed);
  if (rank < 0) return;
  add("rank ");
  add(rank);
  add(": ");
}

void LogLine::add(std::string_view text) {
  for (const char character : text) {
    if (used_ + kTail >= sizeof text_) {
      cut_ = true;
      return;
    }
    const auto byte = static_cast<unsigned char>(character);
    text_[used_++] = byte < 0x20 || byte == 0x7f ? ' ' : character;
  }
}

void LogLine::add(Hex value) {
  char digits[18];
  size_t first = sizeof digits;
  uint64_t rest = value.value;
  do {
    digits[--first] = "0123456789abcdef"[rest & 15];
    rest >>= 4;
  } while (rest != 0);
  add("0x");
  add(std::string_view(digits + first, sizeof digits - first));
}

void LogLine::add_decimal(uint64_t magnitude, bool negative) {
  char digits[21];
  size_t first = sizeof digits;
  do {
    digits[--first] = static_cast<char>('0' + magnitude % 10);
    magnitude /= 10;
  } while (magnitude != 0);
  if (negative) digits[--first] = '-';
  add(std::string_view(digits + first, sizeof digits - first));
}

void LogLine::write() {
  if (cut_) {
    std::memcpy(text_ + used_, "...", 3);
    used_ += 3;
  }
  text_[used_++] = '\n';
  const int saved = errno;
  // Not write(): that is a cancellation point, and a program may have put its own in its place. A
  // line that cannot be written has nowhere to be complained about.
  while (syscall(SYS_write, STDERR_FILENO, text_, used_) < 0 && errno == EINTR) {
  }
  errno = saved;
}

}  // namespace gpusnap
