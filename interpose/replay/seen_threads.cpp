#include "interpose/replay/seen_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace gpusnap {

namespace {
// Nothing here may allocate from the program's heap, as opendir() and fopen() do.
std::string read_file(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> piece;
  for (ssize_t bytes; (bytes = read(file, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<size_t>(bytes));
  }
  close(file);
  return text;
}

std::vector<int> thread_numbers() {
  std::vector<int> all;
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return all;
  alignas(dirent64) std::array<char, 4096> names;
  for (ssize_t bytes; (bytes = getdents64(folder, names.data(), names.size())) > 0;) {
    for (ssize_t at = 0; at < bytes;) {
      const auto* each = reinterpret_cast<const dirent64*>(names.data() + at);
      if (each->d_name[0] != '.') all.push_back(std::atoi(each->d_name));
      at += each->d_reclen;
    }
  }
  close(folder);
  return all;
}

// The letter after the name, which may hold anything.
char state_of(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? 'X' : stat[name_end + 2];
}

bool is_futex(long call) {
#ifdef SYS_futex_waitv
  if (call == SYS_futex_waitv) return true;
#endif
  return call == SYS_futex;
}

// Whether other processes see that memory, too. Lines are "7f5c00000000-7f5c00021000 rw-s ...".
bool is_shared(uint64_t address) {
  const std::string mappings = read_file("/proc/self/maps");
  std::string_view rest = mappings;
  for (size_t size; (size = rest.find('\n')) != std::string_view::npos;
       rest.remove_prefix(size + 1)) {
    char* at = nullptr;
    const uint64_t begin = std::strtoull(rest.data(), &at, 16);
    const uint64_t end = std::strtoull(at + 1, &at, 16);
    if (begin <= address && address < end) return std::string_view(at).starts_with(" rw-s");
  }
  return false;
}

// Given "202 0x... 0x... 0x... 0x...": the call and its arguments.
Activity sleep_of(const std::string& call) {
  if (call.empty()) return Activity::kLock;
  if (call.starts_with("running")) return Activity::kRunning;
  char* at = nullptr;
  if (!is_futex(std::strtol(call.c_str(), &at, 10))) return Activity::kOutside;
  std::array<uint64_t, 4> arguments{};
  for (uint64_t& argument : arguments) argument = std::strtoull(at, &at, 16);
  const auto [where, operation, value, until] = arguments;
  const bool is_private = (operation & FUTEX_PRIVATE_FLAG) != 0;
  if (!is_private && is_shared(where)) return Activity::kOutside;  // waits for another process
  return until == 0 ? Activity::kLock : Activity::kTimedLock;
}

Activity activity_of(const std::string& folder, char state) {
  switch (state) {
    case 'R':
      return Activity::kRunning;
    case 'S':
      return sleep_of(read_file(folder + "/syscall"));
    case 'Z':
    case 'X':
    case 'x':
      return Activity::kEnded;
    default:  // waits for a disk, or is stopped by a debugger
      return Activity::kOutside;
  }
}

// The clock of a thread's processor time, as the kernel numbers it.
uint64_t cpu_ns_of(int thread) {
  const clockid_t clock = static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6U);
  timespec used{};
  // Not by the function that we export, which answers the program.
  if (syscall(SYS_clock_gettime, clock, &used) != 0) return 0;
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}
}  // namespace

std::vector<SeenThread> see_threads() {
  std::vector<SeenThread> all;
  for (const int number : thread_numbers()) {
    const std::string folder = "/proc/self/task/" + std::to_string(number);
    const std::string stat = read_file(folder + "/stat");
    if (stat.empty()) continue;  // it has just ended
    SeenThread thread;
    thread.id = number;
    thread.activity = activity_of(folder, state_of(stat));
    thread.cpu_ns = cpu_ns_of(number);
    all.push_back(thread);
  }
  return all;
}

}  // namespace gpusnap
