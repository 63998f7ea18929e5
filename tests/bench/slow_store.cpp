// SPDX-License-Identifier: Apache-2.0
//
// A library to be preloaded by benchmarks, behind ours: large reads of files below SLOW_FOLDER get
// SLOW_READS bytes a second in all, and large writes SLOW_WRITES, as of a file system that many
// share. Without a rate they are not slowed. Files past the page cache may be read and written by
// io_uring, which this does not see: so the folder is one in memory.
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

// One direction of the file system.
class Way {
 public:
  explicit constexpr Way(const char* rate) : rate_(rate) {}

  void wait_for(int file, size_t bytes) {
    const char* const rate = getenv(rate_);
    if (rate == nullptr || bytes < kLarge || !is_slow(file)) return;
    const auto takes = static_cast<long long>(static_cast<double>(bytes) * 1e9 / atof(rate));
    const long long now = now_ns();
    long long before = free_at_.load();
    long long until = 0;
    do {
      until = (before > now ? before : now) + takes;
    } while (!free_at_.compare_exchange_weak(before, until));
    const long long left = until - now;
    const timespec length = {left / 1'000'000'000, left % 1'000'000'000};
    (void)nanosleep(&length, nullptr);
  }

 private:
  const char* rate_;                   // the variable that says it
  std::atomic<long long> free_at_{0};  // ns; when all that was asked of it is done
};

constinit Way reads("SLOW_READS");
constinit Way writes("SLOW_WRITES");

}  // namespace

extern "C" ssize_t pread64(int file, void* data, size_t size, off64_t offset) {
  static const auto real =
      reinterpret_cast<ssize_t (*)(int, void*, size_t, off64_t)>(dlsym(RTLD_NEXT, "pread64"));
  reads.wait_for(file, size);
  return real(file, data, size, offset);
}

extern "C" ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const void*, size_t, off64_t)>(
      dlsym(RTLD_NEXT, "pwrite64"));
  writes.wait_for(file, size);
  return real(file, data, size, offset);
}
