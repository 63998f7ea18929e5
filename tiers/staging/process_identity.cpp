// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/process_identity.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpusnap {

namespace {

// Fields of /proc/<pid>/stat. The program's name is in parentheses and may hold any characters,
// including parentheses.
struct Stat {
  bool there = false;
  char state = '?';
  uint64_t flags = 0;  // of the main thread, like the next field
  uint64_t pending = 0;
  uint64_t threads = 0;
  uint64_t started = 0;
};

// Indices of the fields, from the state on; see proc(5).
enum Field { kFlags = 6, kThreads = 17, kStarted = 19, kPending = 28, kFields };

constexpr uint64_t kExiting = 4;  // PF_EXITING

Stat parse(std::string_view text) {
  Stat stat;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return stat;
  text.remove_prefix(name_end + 2);
  stat.state = text.front();
  std::array<uint64_t, kFields> fields{};
  for (int field = 1; field < kFields; ++field) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return stat;
    text.remove_prefix(space + 1);
    // Fields with a sign are not needed.
    (void)std::from_chars(text.data(), text.data() + text.size(), fields[field]);
  }
  stat.flags = fields[kFlags];
  stat.threads = fields[kThreads];
  stat.started = fields[kStarted];
  stat.pending = fields[kPending];
  stat.there = stat.started != 0;
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

enum class Life { kRunning, kEnding, kOver };

Life life_of(const ProcessIdentity& process) {
  const auto pid = static_cast<pid_t>(process.pid);
  if (pid == 0 || (::kill(pid, 0) < 0 && errno == ESRCH)) return Life::kOver;
  const Stat stat = read_stat(std::to_string(process.pid));
  // It may have ended meanwhile. Without /proc it counts as running.
  if (!stat.there) return ::kill(pid, 0) < 0 && errno == ESRCH ? Life::kOver : Life::kRunning;
  if (process.started != 0 && stat.started != process.started) return Life::kOver;
  // A main thread that has ended may have left others behind.
  const bool main_has_ended = stat.state == 'Z' || stat.state == 'X';
  if (main_has_ended) return stat.threads > 1 ? Life::kEnding : Life::kOver;
  const bool is_killed = (stat.pending >> (SIGKILL - 1) & 1) != 0;
  return is_killed || (stat.flags & kExiting) != 0 ? Life::kEnding : Life::kRunning;
}

}  // namespace

ProcessIdentity own_identity() {
  return {static_cast<uint32_t>(::getpid()), read_stat("self").started};
}

bool is_running(const ProcessIdentity& process) {
  return life_of(process) != Life::kOver;
}

bool is_ending(const ProcessIdentity& process) {
  return life_of(process) != Life::kRunning;
}

uint32_t threads_waiting_for_devices(uint32_t pid, size_t most) {
  constexpr char kDiskSleep = 'D';
  const std::string tasks = std::to_string(pid) + "/task";
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/" + tasks, error);
  uint32_t waiting = 0;
  for (size_t i = 0; i < most && !error && task != std::filesystem::directory_iterator(); ++i) {
    const Stat stat = read_stat(tasks + "/" + task->path().filename().string());
    waiting += stat.there && stat.state == kDiskSleep ? 1 : 0;
    task.increment(error);
  }
  return waiting;
}

uint64_t pid_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

}  // namespace gpusnap
