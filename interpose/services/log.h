// Lines for the user on standard error: "gpusnap: warning: cannot write ./gpusnap: no space".
//
// Safe anywhere: in signal handlers, in a hook that runs before constructors, after fork. Nothing
// is allocated, no lock is taken, errno is kept; a line is one write(2) and at most kLogLineBytes
// long (longer ones end in "..."). Line breaks and control characters inside a message become
// spaces, so that one message is one line whatever a file name contains.
//
//   log(LogLevel::kWarn, "cannot write ", path, ": ", reason);
//   log(LogLevel::kDebug, "placed at ", hex(address));
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpusnap {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug, kTrace };
const char* name_of(LogLevel level);  // "error", "warning", "info", "debug", "trace"

inline constexpr size_t kLogLineBytes = 1024;

namespace log_internal {
extern std::atomic<LogLevel> level;
}

// From now on every line says which rank of a job it is from. Thread-safe.
void set_log_rank(uint32_t rank);

// The least urgent level that is still written; kWarn at first. Thread-safe.
void set_log_level(LogLevel level);
inline bool log_enabled(LogLevel level) {
  return level <= log_internal::level.load(std::memory_order_relaxed);
}

// Prints an integer as 0x...
struct Hex {
  uint64_t value;
};
inline Hex hex(std::integral auto value) {
  return {static_cast<uint64_t>(value)};
}
inline Hex hex(const void* pointer) {
  return {reinterpret_cast<uintptr_t>(pointer)};
}

// One line being put together on the stack.
class LogLine {
 public:
  explicit LogLine(LogLevel level);
  void add(std::string_view text);
  void add(const char* text) { add(std::string_view(text != nullptr ? text : "(null)")); }
  void add(char character) { add(std::string_view(&character, 1)); }
  void add(bool value) { add(std::string_view(value ? "true" : "false")); }
  void add(Hex value);
  template <std::integral T>
  void add(T value) {
    if (std::signed_integral<T> && value < 0) {
      add_decimal(0 - static_cast<uint64_t>(value), true);
    } else {
      add_decimal(static_cast<uint64_t>(value), false);
    }
  }
  void write();

 private:
  void add_decimal(uint64_t magnitude, bool negative);

  size_t used_ = 0;
  bool cut_ = false;
  char text_[kLogLineBytes];
};

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (!log_enabled(level)) return;
  LogLine line(level);
  (line.add(parts), ...);
  line.write();
}

}  // namespace gpusnap
