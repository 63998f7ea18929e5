#include "interpose/services/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

namespace gpusnap {
namespace {

// Standard error goes into a pipe while one of these lives.
class Captured {
 public:
  Captured() : saved_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe(pipe_), 0);
    dup2(pipe_[1], STDERR_FILENO);
    close(pipe_[1]);
  }
  ~Captured() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(pipe_[0]);
    set_log_level(LogLevel::kWarn);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  // One read gives what one write gave, as long as nothing else was written.
  std::string text() {
    char buffer[4 * kLogLineBytes];
    const ssize_t got = read(pipe_[0], buffer, sizeof buffer);
    return {buffer, got > 0 ? static_cast<size_t>(got) : 0};
  }

 private:
  int saved_;
  int pipe_[2] = {};
};

TEST(Log, WritesALineOfAllKindsOfParts) {
  Captured captured;
  const std::string path = "/a b";
  log(LogLevel::kWarn, "cannot write ", path, ": ", -5, ' ', 7U, ' ', true, ' ', hex(255), ' ',
      hex(0), ' ', static_cast<const char*>(nullptr));
  EXPECT_EQ(captured.text(), "gpusnap: warning: cannot write /a b: -5 7 true 0xff 0x0 (null)\n");
}

TEST(Log, WritesTheLimitsOfIntegers) {
  Captured captured;
  log(LogLevel::kError, std::numeric_limits<int64_t>::min(), " ",
      std::numeric_limits<uint64_t>::max(), " ", std::numeric_limits<int8_t>::min(), " ",
      hex(std::numeric_limits<uint64_t>::max()), " ", 0);
  EXPECT_EQ(captured.text(),
            "gpusnap: error: -9223372036854775808 18446744073709551615 -128 0xffffffffffffffff "
            "0\n");
}

TEST(Log, LeavesOutWhatIsBelowTheLevel) {
  Captured captured;
  log(LogLevel::kInfo, "not this");
  set_log_level(LogLevel::kTrace);
  log(LogLevel::kTrace, "this");
  set_log_level(LogLevel::kError);
  log(LogLevel::kWarn, "not this either");
  EXPECT_FALSE(log_enabled(LogLevel::kWarn));
  log(LogLevel::kError, "and this");
  EXPECT_EQ(captured.text(), "gpusnap: trace: this\ngpusnap: error: and this\n");
}

TEST(Log, MakesOneLineOfAnyMessage) {
  Captured captured;
  log(LogLevel::kWarn, "two\nlines\tand \x1b[31m");
  EXPECT_EQ(captured.text(), "gpusnap: warning: two lines and  [31m\n");
}

TEST(Log, CutsLongLines) {
  Captured captured;
  log(LogLevel::kWarn, std::string(5000, 'x'), "end");
  const std::string text = captured.text();
  EXPECT_EQ(text.size(), kLogLineBytes);
  EXPECT_EQ(text.substr(text.size() - 5), "x...\n");
}

TEST(Log, KeepsErrno) {
  const int saved = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  errno = ENOENT;
  log(LogLevel::kError, "goes nowhere");
  const int after = errno;
  dup2(saved, STDERR_FILENO);
  close(saved);
  EXPECT_EQ(after, ENOENT);
}

}  // namespace
}  // namespace gpusnap
