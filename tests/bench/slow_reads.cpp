// SPDX-License-Identifier: Apache-2.0
//
// A library to be preloaded by benchmarks, behind ours: large reads of files below SLOW_FOLDER get
// SLOW_READS bytes a second in all, as from a file system that many share. Files past the page
// cache may be read by io_uring, which this does not see: so the folder is one in memory.
#include <dlfcn.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kLarge = 64 << 10;
std::atomic<long long> free_at{0};  // ns; when the file system has done all that was asked of it

long long now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

bool is_slow(int file) {
  const char* const folder = getenv("SLOW_FOLDER");
  if (folder == nullptr) return false;
  char link[40];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t bytes = readlink(link, path, sizeof path - 1);
  if (bytes <= 0) return false;
  path[bytes] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0;
}

void wait_for(size_t bytes) {
  const char* const rate = getenv("SLOW_READS");
  if (rate == nullptr) return;
  const auto takes = static_cast<long long>(static_cast<double>(bytes) * 1e9 / atof(rate));
  const long long now = now_ns();
  long long before = free_at.load();
  long long until = 0;
  do {
    until = (before > now ? before : now) + takes;
  } while (!free_at.compare_exchange_weak(before, until));
  const long long left = until - now;
  const timespec length = {left / 1'000'000'000, left % 1'000'000'000};
  (void)nanosleep(&length, nullptr);
}

}  // namespace

extern "C" ssize_t pread64(int file, void* data, size_t size, off64_t offset) {
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, void*, size_t, off64_t)>(dlsym(RTLD_NEXT, "pread64"));
  if (size >= kLarge && is_slow(file)) wait_for(size);
  return real(file, data, size, offset);
}
