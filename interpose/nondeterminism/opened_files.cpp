#include "interpose/nondeterminism/opened_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/hook/hook.h"
#include "interpose/threads/thread_path.h"

namespace gpusnap {
namespace {

struct Noted {
  dev_t device;
  ino_t inode;
  uint64_t size;
  int64_t modified_ns;
  uint32_t path;  // where it begins in `paths`
};

constexpr size_t kMost = 4096;
constexpr size_t kPlaces = 2 * kMost;
constinit Noted files[kMost] = {};
constinit std::atomic<uint32_t> file_count{0};
constinit uint16_t places[kPlaces] = {};  // by device and inode: number of the file from 1 on
constinit char paths[512 << 10] = {};
constinit size_t path_bytes = 0;
constexpr size_t kMostFolders = 8;
constinit char passed_over[kMostFolders][PATH_MAX] = {};
constinit std::atomic<size_t> passed_over_count{0};
constinit std::atomic<bool> stopped{false};  // or there is no more room
constinit std::atomic<int64_t> began_ns{0};

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The clock that files get their times from, where those are not finer: what was made within its
// last tick before the process counts as the process's own.
int64_t began() {
  int64_t at = began_ns.load(std::memory_order_relaxed);
  timespec now = {};
  if (at != 0 || clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return at;
  const int64_t fresh = nanoseconds(now);
  return began_ns.compare_exchange_strong(at, fresh) ? fresh : at;
}
[[gnu::constructor]] void begin() {
  const Guard guard;  // it is not the program that asks for the time
  (void)began();
}

// Not spun on for long: in a forked child its holder may not exist.
class Lock {
 public:
  Lock() {
    for (int tries = 0; tries < 10'000 && !held_; ++tries) {
      held_ = !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true);
    }
  }
  ~Lock() {
    if (held_) taken_.store(false, std::memory_order_release);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool held() const { return held_; }

 private:
  static constinit inline std::atomic<bool> taken_{false};
  bool held_ = false;
};

bool begins_with(const char* text, const char* with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// Programs, libraries and settings that come with the system, and what is no file at all.
bool is_of_the_system(const char* path) {
  for (const char* folder : {"/proc/", "/sys/", "/dev/", "/run/", "/etc/", "/usr/", "/var/",
                             "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/"}) {
    if (begins_with(path, folder)) return true;
  }
  return false;
}

bool is_passed_over(const char* path) {
  for (size_t i = 0; i < passed_over_count.load(std::memory_order_acquire); ++i) {
    if (begins_with(path, passed_over[i])) return true;
  }
  return false;
}

bool link_target(int descriptor, char (&path)[PATH_MAX]) {
  char link[40] = "/proc/self/fd/";
  char* at = link + strlen(link);
  char digits[12];
  size_t count = 0;
  for (int rest = descriptor; rest != 0 || count == 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  while (count != 0) *at++ = digits[--count];
  *at = '\0';
  const ssize_t bytes = readlink(link, path, sizeof path - 1);
  if (bytes <= 0) return false;
  path[bytes] = '\0';
  return path[0] == '/';
}

// As the program named it, from / on: a link may lead elsewhere by the time of a restore.
bool absolute_path(int descriptor, int folder, const char* given, char (&path)[PATH_MAX]) {
  const size_t bytes = strlen(given);
  size_t used = 0;
  if (given[0] != '/') {
    if (folder != AT_FDCWD) return link_target(descriptor, path);
    if (getcwd(path, sizeof path) == nullptr) return false;
    used = strlen(path);
    if (used + 1 < sizeof path) path[used++] = '/';
  }
  if (used + bytes >= sizeof path) return false;
  memcpy(path + used, given, bytes + 1);
  return true;
}

size_t place_of(const struct stat& now) {
  size_t at = (now.st_ino * 0x9e3779b97f4a7c15U ^ now.st_dev) % kPlaces;
  while (places[at] != 0) {
    const Noted& file = files[places[at] - 1];
    if (file.inode == now.st_ino && file.device == now.st_dev) break;
    at = (at + 1) % kPlaces;
  }
  return at;
}

// Under the lock.
void add(const struct stat& now, size_t place, const char* path) {
  const uint32_t count = file_count.load(std::memory_order_relaxed);
  const size_t bytes = strlen(path) + 1;
  if (count == kMost || bytes > sizeof paths - path_bytes) {
    stopped.store(true, std::memory_order_relaxed);
    return;
  }
  memcpy(paths + path_bytes, path, bytes);
  files[count] = {now.st_dev, now.st_ino, static_cast<uint64_t>(now.st_size),
                  nanoseconds(now.st_mtim), static_cast<uint32_t>(path_bytes)};
  path_bytes += bytes;
  places[place] = static_cast<uint16_t>(count + 1);
  file_count.store(count + 1, std::memory_order_release);
}

// `find(path)` gives the absolute path; asked for where the file is not known yet.
template <class Find>
void note(int descriptor, const Find& find) {
  struct stat now = {};
  if (fstat(descriptor, &now) != 0 || !S_ISREG(now.st_mode)) return;
  if (nanoseconds(now.st_ctim) >= began()) return;
  const Lock lock;
  if (!lock.held()) return;
  const size_t place = place_of(now);
  char path[PATH_MAX];
  if (places[place] != 0 || !find(path) || is_of_the_system(path) || is_passed_over(path)) return;
  add(now, place, path);
}

}  // namespace

void note_opened(int descriptor, int folder, const char* path) {
  if (stopped.load(std::memory_order_relaxed) || Guard::held()) return;
  if (is_of_the_system(path)) return;
  const int error = errno;
  if (own_thread_path().known) {
    note(descriptor, [&](auto& to) { return absolute_path(descriptor, folder, path, to); });
  }
  errno = error;
}

void note_standard_input() {
  note(STDIN_FILENO, [](auto& to) { return link_target(STDIN_FILENO, to); });
}

bool pass_over_folder(const char* folder) {
  const Lock lock;
  const size_t count = passed_over_count.load(std::memory_order_relaxed);
  const size_t bytes = strlen(folder);
  for (size_t i = 0; i < count; ++i) {
    if (begins_with(passed_over[i], folder) && strcmp(passed_over[i] + bytes, "/") == 0)
      return true;
  }
  if (!lock.held() || count == kMostFolders || bytes + 2 > PATH_MAX) return false;
  memcpy(passed_over[count], folder, bytes);
  passed_over[count][bytes] = '/';
  passed_over_count.store(count + 1, std::memory_order_release);
  return true;
}

void stop_noting_opened() {
  stopped.store(true, std::memory_order_relaxed);
}

size_t opened_files() {
  return file_count.load(std::memory_order_acquire);
}

ReadFile opened_file(size_t number) {
  const Noted& file = files[number];
  return {paths + file.path, file.size, file.modified_ns};
}

}  // namespace gpusnap
