// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/start.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiers/daemon/runtime_folder.h"
#include "tiers/no_throw.h"

// The C library's clone() by the name under which no sanitizer takes it for a fork.
extern "C" int __clone(int (*body)(void*), void* stack_end, int flags, void* argument,
                       ...);  // NOLINT(bugprone-reserved-identifier)

namespace gpusnap {

namespace {

constexpr size_t kStackBytes = 64 << 10;

// Used by both children, which live for a short time in the caller's memory. They call the kernel
// directly: the caller's C library, and a sanitizer in it, must not take the children's acts for
// their own.
struct Birth {
  const char* path = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  std::byte* second_stack_end = nullptr;
  int error = 0;  // why there is no backend
};

#define GPUSNAP_PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))

GPUSNAP_PLAIN void restore_signals() {
  // The kernel's form of a signal's action: handler, flags, restorer, mask; all zeros is the
  // default. A signal that the program ignores would otherwise stay ignored after exec().
  const std::array<uint64_t, 4> usual{};
  for (int signal = 1; signal < 65; ++signal) {
    (void)::syscall(SYS_rt_sigaction, signal, usual.data(), nullptr, sizeof(uint64_t));
  }
  const uint64_t none = 0;
  (void)::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

GPUSNAP_PLAIN void leave_files() {
  const auto null = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0));
  for (int standard = 0; standard < 3 && null >= 0; ++standard) {
    if (null != standard) (void)::syscall(SYS_dup3, null, standard, 0);
  }
  if (::syscall(SYS_close_range, 3U, ~0U, 0U) == 0) return;
  constexpr int kMostFiles = 1 << 16;  // kernels before 5.9
  for (int file = 3; file < kMostFiles; ++file) (void)::syscall(SYS_close, file);
}

GPUSNAP_PLAIN int become_backend(void* argument) {
  auto* birth = static_cast<Birth*>(argument);
  leave_files();
  (void)::syscall(SYS_chdir, "/");
  // A rank is often bound to one processor; the backend is not.
  std::array<uint64_t, 128> all{};
  for (uint64_t& word : all) word = ~uint64_t{0};
  (void)::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
  restore_signals();
  (void)::syscall(SYS_execve, birth->path, birth->arguments, birth->environment);
  birth->error = errno;
  ::syscall(SYS_exit_group, 127);
  return 127;
}

// Only the caller learns of this child's end: no signal tells of it. The backend then has no
// parent.
GPUSNAP_PLAIN int bear_backend(void* argument) {
  auto* birth = static_cast<Birth*>(argument);
  (void)::syscall(SYS_setsid);
  if (::__clone(become_backend, birth->second_stack_end, CLONE_VM | CLONE_VFORK, birth) < 0) {
    birth->error = errno;
  }
  ::syscall(SYS_exit_group, 0);
  return 0;
}

#undef GPUSNAP_PLAIN

class Stacks {
 public:
  Stacks()
      : start_(::mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~Stacks() {
    if (ok()) ::munmap(start_, 2 * kStackBytes);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  bool ok() const { return start_ != MAP_FAILED; }
  std::byte* end_of(size_t index) const {
    return static_cast<std::byte*>(start_) + (index + 1) * kStackBytes;
  }

 private:
  void* start_;
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// No handler of the program's may run in the children: its memory is theirs.
int bear(Birth& birth, const Stacks& stacks) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int child = ::__clone(bear_backend, stacks.end_of(0), CLONE_VM | CLONE_VFORK, &birth);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return error;
  while (::waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  return birth.error;
}

// Returns the path of the file that this code is part of: the library, or the program itself.
std::string own_file() {
  Dl_info about{};
  link_map* object = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&find_backend);
  const int found = ::dladdr1(here, &about, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP);
  if (found != 0 && object != nullptr && object->l_name != nullptr && *object->l_name != '\0') {
    return object->l_name;
  }
  return "/proc/self/exe";
}

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? resolved : "";
}

bool is_passed_on(std::string_view entry) {
  constexpr std::array<std::string_view, 9> kNames = {
      "PATH=",         "HOME=",         "LANG=",          "TMPDIR=",         "XDG_RUNTIME_DIR=",
      "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=", "LD_LIBRARY_PATH="};
  if (entry.starts_with("GPUSNAP_")) return !entry.starts_with("GPUSNAP_RESTORE");
  return std::ranges::any_of(kNames,
                             [&](std::string_view name) { return entry.starts_with(name); });
}

}  // namespace

std::string find_backend() {
  const std::string self = real_path(own_file());
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  if (folder.empty()) return {};
  for (const char* place : {"gpusnapd", "../tools/gpusnapd", "../../bin/gpusnapd"}) {
    std::string path = real_path(folder + place);
    if (!path.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::vector<std::string> backend_environment(const char* const* environment) {
  std::vector<std::string> passed;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (is_passed_on(*environment)) passed.emplace_back(*environment);
  }
  return passed;
}

std::string node_name(const std::string& setting) {
  if (!setting.empty()) return setting;
  char host[256] = {};
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "localhost";
}

Status start_backend(const BackendProgram& program) {
  return no_throw("start the backend", [&]() -> Status {
    if (!program.path.starts_with('/')) {
      return {Code::kNotFound,
              "gpusnapd is not beside the library: carry it along, or set GPUSNAP_BACKEND=thread"};
    }
    const Stacks stacks;
    if (!stacks.ok()) return {Code::kNoSpace, "cannot start gpusnapd: no memory for its start"};
    std::vector<std::string> argument_texts = {program.path, "--detached"};
    std::vector<std::string> environment_texts = program.environment;
    const std::vector<char*> arguments = pointers_to(argument_texts);
    const std::vector<char*> environment = pointers_to(environment_texts);
    Birth birth{program.path.c_str(), arguments.data(), environment.data(), stacks.end_of(1), 0};
    const int error = bear(birth, stacks);
    if (error == 0) return {};
    return {Code::kIo, "cannot start " + program.path + ": " + std::strerror(error) +
                           "; GPUSNAP_BACKEND=thread does without"};
  });
}

Result<std::unique_ptr<StagingMemory>> reach_backend(const std::string& area,
                                                     const BackendProgram& program,
                                                     std::chrono::nanoseconds longest,
                                                     AddressSpace* space) {
  using SteadyClock = std::chrono::steady_clock;
  constexpr auto kBetweenStarts = std::chrono::seconds(2);
  constexpr auto kBetweenAsking = std::chrono::milliseconds(5);
  const SteadyClock::time_point begun = SteadyClock::now();
  SteadyClock::time_point last_start = begun - kBetweenStarts;
  for (;;) {
    Result<std::unique_ptr<StagingMemory>> memory = StagingMemory::attach(area, space);
    if (memory.ok() && memory.value()->is_served()) return memory;
    if (!memory.ok() && memory.status().code() != Code::kNotFound) return memory.status();
    const SteadyClock::time_point now = SteadyClock::now();
    if (now - last_start >= kBetweenStarts) {
      last_start = now;
      if (Status started = start_backend(program); !started.ok()) return started;
    }
    if (now - begun >= longest) {
      return Status(Code::kBusy, "gpusnapd does not serve: " + backend_log() +
                                     " may say why; GPUSNAP_BACKEND=thread does without");
    }
    std::this_thread::sleep_for(kBetweenAsking);
  }
}

}  // namespace gpusnap
