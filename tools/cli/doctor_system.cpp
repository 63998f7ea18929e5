// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/doctor_system.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "tiers/file_system.h"
#include "tiers/io/ring.h"

namespace gpusnap {
namespace {

constexpr std::chrono::seconds kPatience{10};

std::string read_until(int from, std::chrono::steady_clock::time_point deadline) {
  std::string all;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return all;
    pollfd waited = {from, POLLIN, 0};
    if (::poll(&waited, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> piece;
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(got));
  }
}

// 0: it could not be started.
pid_t spawn(const std::vector<std::string>& command, Environment& environment, int output) {
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return 0;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t pid = 0;
  std::vector<char*> variables = environment.pointers();
  const int error =
      ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, pointers.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

Status try_file(FileSystem& files, const std::string& path) {
  auto file = files.create(path);
  if (!file.ok()) return file.status();
  constexpr char kByte = 'x';
  const Status written = file.value()->append(std::as_bytes(std::span(&kByte, 1)));
  const Status synced = written.ok() ? file.value()->sync() : written;
  file.value().reset();
  const std::string other = path + ".renamed";
  const Status renamed = synced.ok() ? files.rename(path, other) : synced;
  const Status locked = renamed.ok() ? files.lock(other).status() : renamed;
  const Status removed = files.remove(renamed.ok() ? other : path);
  return locked.ok() ? removed : locked;
}

}  // namespace

std::string output_of(const std::vector<std::string>& command, Environment& environment) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = spawn(command, environment, ends[1]);
  ::close(ends[1]);
  std::string all;
  if (pid != 0) {
    all = read_until(ends[0], std::chrono::steady_clock::now() + kPatience);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ::close(ends[0]);
  return all;
}

std::string nearest_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).lexically_normal();
  while (folder.has_relative_path() && !std::filesystem::exists(folder, error)) {
    folder = folder.parent_path();
  }
  return folder.string();
}

Status try_to_write(const std::string& folder) {
  return try_file(posix_file_system(), folder + "/.gpusnap-doctor." + std::to_string(::getpid()));
}

std::optional<uint64_t> free_bytes(const std::string& folder) {
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) != 0) return std::nullopt;
  return uint64_t{about.f_bavail} * about.f_frsize;
}

uint64_t locked_memory_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

Status try_fixed_addresses() {
  const int before = ::personality(0xffffffff);
  const int error =
      before == -1 || ::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) == -1
          ? errno
          : 0;
  if (error != 0) return {Code::kPermission, std::strerror(error)};
  (void)::personality(static_cast<unsigned long>(before));
  return {};
}

bool has_io_uring() {
  return Ring::make(2, Ring::Memory::kKernels) != nullptr;
}

bool has_seccomp_filter() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Seccomp:")) return line.find('2') != std::string::npos;
  }
  return false;
}

}  // namespace gpusnap
