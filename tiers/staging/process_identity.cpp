#include "tiers/staging/process_identity.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpusnap {

namespace {

// Of /proc/<pid>/stat. What stands between parentheses is the program's name, which may hold
// anything, parentheses too.
struct Stat {
  bool there = false;
  char state = '?';
  uint64_t started = 0;
};

constexpr int kFieldsFromStateToStart = 19;

Stat parse(std::string_view text) {
  Stat stat;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return stat;
  text.remove_prefix(name_end + 2);
  stat.state = text.front();
  for (int field = 0; field < kFieldsFromStateToStart; ++field) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return stat;
    text.remove_prefix(space + 1);
  }
  const char* end = text.data() + text.size();
  stat.there = std::from_chars(text.data(), end, stat.started).ec == std::errc();
  return stat;
}

Stat read_stat(const std::string& process) {
  const int file = ::open(("/proc/" + process + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[1024];
  ssize_t got = 0;
  do got = ::read(file, text, sizeof text);
  while (got < 0 && errno == EINTR);
  ::close(file);
  return got > 0 ? parse({text, static_cast<size_t>(got)}) : Stat();
}

}  // namespace

ProcessIdentity own_identity() {
  return {static_cast<uint32_t>(::getpid()), read_stat("self").started};
}

bool is_running(const ProcessIdentity& process) {
  if (process.pid == 0) return false;
  if (::kill(static_cast<pid_t>(process.pid), 0) < 0 && errno == ESRCH) return false;
  const Stat stat = read_stat(std::to_string(process.pid));
  // It may have gone since it was asked; where /proc is not there at all, it runs.
  if (!stat.there) return ::kill(static_cast<pid_t>(process.pid), 0) == 0 || errno != ESRCH;
  if (stat.state == 'Z' || stat.state == 'X') return false;
  return process.started == 0 || stat.started == process.started;
}

uint64_t pid_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

}  // namespace gpusnap
