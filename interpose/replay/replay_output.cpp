#include "interpose/replay/replay_output.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "interpose/services/program_mark.h"
#include "tiers/io/folder_names.h"

namespace gpusnap {
namespace {

// The sink's name tells where its process keeps the real one, for who inherits both.
constexpr char kSinkName[] = "gpusnap-output-";
// How much of it stays: enough for the last words of a program, and for buffers of the C library.
constexpr off_t kKept = 64 << 10;

constinit int real_output = -1;  // a copy of the standard output as it was; -1: it is in place
constinit int sink = -1;         // a copy of what stands in for it
constinit off_t let_go = 0;      // bytes at its beginning that are gone

bool is_sink(int descriptor) {
  struct stat own = {}, other = {};
  return fstat(sink, &own) == 0 && fstat(descriptor, &other) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

// Beyond those that programs get, whose numbers are to be what they were.
int high_copy(int descriptor, int command) {
  rlimit limit = {};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  const auto highest = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) - 16;
  return fcntl(descriptor, command, std::max(highest, 3));
}

void put_back(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFD);
  (void)dup3(real_output, descriptor, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
}

void put_back_everywhere() {
  FolderNames descriptors("/proc/self/fd");
  while (const char* name = descriptors.next()) {
    const int descriptor = std::atoi(name);
    if (descriptor != sink && is_sink(descriptor)) put_back(descriptor);
  }
  if (descriptors.error() != 0 && is_sink(STDOUT_FILENO)) put_back(STDOUT_FILENO);
  close(sink);
  close(real_output);
  sink = real_output = -1;
}

// Sends the C library's buffered output to the sink. Does not wait for the lock: a thread may hold
// it while that thread waits for us.
void flush() {
  if (fileno(stdout) != STDOUT_FILENO || ftrylockfile(stdout) != 0) return;
  (void)fflush_unlocked(stdout);
  funlockfile(stdout);
}

void write_all(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(to, bytes, size);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written < 0) continue;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

// The sink's last `size` bytes, or all that is left of it, go where they belong.
void write_end(uint64_t size) {
  struct stat now = {};
  if (fstat(sink, &now) != 0) return;
  const auto whole = static_cast<uint64_t>(now.st_size - let_go);
  off_t at = now.st_size - static_cast<off_t>(std::min(size, whole));
  std::array<char, 4096> piece;
  while (at < now.st_size) {
    const ssize_t got = pread(sink, piece.data(), piece.size(), at);
    if (got <= 0) return;
    write_all(real_output, piece.data(), static_cast<size_t>(got));
    at += got;
  }
}

// A child is no part of the replay.
void in_child() {
  if (real_output >= 0) put_back_everywhere();
}

// A process that one in its replay has become, or started without a fork of its own, writes where
// that one does not.
void put_back_inherited() {
  std::array<char, 64> name = {};
  if (readlink("/proc/self/fd/1", name.data(), name.size() - 1) <= 0) return;
  const std::string_view target(name.data());
  const size_t at = target.find(kSinkName);
  if (!target.starts_with("/memfd:") || at == std::string_view::npos) return;
  real_output = std::atoi(name.data() + at + sizeof kSinkName - 1);
  if (fcntl(real_output, F_GETFD) >= 0) {
    (void)dup2(real_output, STDOUT_FILENO);
    close(real_output);
  }
  real_output = -1;
}

void stand_in() {
  struct stat now = {};
  const bool known = fstat(STDOUT_FILENO, &now) == 0 &&
                     (S_ISREG(now.st_mode) || S_ISFIFO(now.st_mode) || S_ISSOCK(now.st_mode));
  if (!known) return;
  // Not closed by exec: who comes after finds it by the sink's name.
  real_output = high_copy(STDOUT_FILENO, F_DUPFD);
  const std::string name = kSinkName + std::to_string(real_output);
  const int made = memfd_create(name.c_str(), 0);
  sink = made < 0 ? -1 : high_copy(made, F_DUPFD_CLOEXEC);
  const bool stands = real_output >= 0 && sink >= 0 && fcntl(sink, F_SETFL, O_APPEND) == 0 &&
                      dup2(sink, STDOUT_FILENO) == STDOUT_FILENO;
  if (made >= 0) close(made);
  if (stands) {
    pthread_atfork(nullptr, nullptr, in_child);
    return;
  }
  if (real_output >= 0) close(real_output);
  if (sink >= 0) close(sink);
  sink = real_output = -1;
}

[[gnu::constructor]] void begin() {
  const char* const wanted = std::getenv(kRestoredProgram);
  if (wanted == nullptr || *wanted == '\0') return;
  put_back_inherited();
  if (own_program_mark() == wanted) stand_in();
}

}  // namespace

uint64_t held_output() {
  if (fileno(stdout) != STDOUT_FILENO || ftrylockfile(stdout) != 0) return 0;
  const uint64_t held = fwide(stdout, 0) > 0 ? 0 : __fpending(stdout);
  funlockfile(stdout);
  return held;
}

void go_on_with_output(uint64_t held) {
  if (real_output < 0) return;
  flush();
  write_end(held);
  put_back_everywhere();
}

void show_output() {
  go_on_with_output(UINT64_MAX);
}

void trim_output() {
  struct stat now = {};
  if (real_output < 0 || fstat(sink, &now) != 0) return;
  constexpr off_t kPage = 4096;
  const off_t until = (now.st_size - kKept) / kPage * kPage;
  if (until - let_go < kKept) return;
  if (fallocate(sink, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, until) == 0) let_go = until;
}

}  // namespace gpusnap
