// A preloadable library that counts what a process does to the files under one folder
// (FILE_FAULTS_FOLDER, absolute) and, from the call with number FILE_FAULTS_AT on, makes it go
// wrong:
//
//   FILE_FAULTS=kill   the process is killed by SIGKILL in place of that call
//   FILE_FAULTS=full   calls that need room fail with ENOSPC
//
// FILE_FAULTS_REPORT names a file to which a line "failed" is appended for each call that fails,
// and the number of calls when the process ends.
//
// Counted: opening a file to create it, write, pwrite, writev, fsync, fdatasync, ftruncate,
// fallocate, rename, link, mkdir, unlink and rmdir, in all spellings of the C library.

// With it the C library's headers would give both spellings of a call the same symbol.
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

enum class Needs { kRoom, kNothing };

struct Settings {
  const char* folder = getenv("FILE_FAULTS_FOLDER");
  long at = getenv("FILE_FAULTS_AT") != nullptr ? std::atol(getenv("FILE_FAULTS_AT")) : LONG_MAX;
  bool full = getenv("FILE_FAULTS") != nullptr && std::strcmp(getenv("FILE_FAULTS"), "full") == 0;
};

const Settings& settings() {
  static const Settings value;
  return value;
}

std::atomic<long> calls{0};

void report(const char* text) {
  const char* path = getenv("FILE_FAULTS_REPORT");
  if (path == nullptr) return;
  if (FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", text);
    std::fclose(file);
  }
}

struct AtTheEnd {
  ~AtTheEnd() { report(std::to_string(calls.load()).c_str()); }
} at_the_end;

bool under_folder(const char* path) {
  const char* folder = settings().folder;
  if (folder == nullptr) return false;
  const size_t length = std::strlen(folder);
  return std::strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

// The path behind a descriptor; false where there is none.
bool place_of(int fd, char (&place)[PATH_MAX]) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int saved = errno;
  const ssize_t length = readlink(link, place, sizeof place - 1);
  errno = saved;
  place[length > 0 ? length : 0] = '\0';
  return length > 0;
}

bool counts(int fd) {
  char place[PATH_MAX];
  return place_of(fd, place) && under_folder(place);
}

bool counts(int folder_fd, const char* path) {
  if (path == nullptr) return false;
  if (path[0] == '/') return under_folder(path);
  char place[PATH_MAX];
  const bool known =
      folder_fd == AT_FDCWD ? getcwd(place, sizeof place) != nullptr : place_of(folder_fd, place);
  if (!known) return false;
  char whole[2 * PATH_MAX];
  std::snprintf(whole, sizeof whole, "%s/%s", place, path);
  return under_folder(whole);
}

// True when the call must fail; errno says why.
bool goes_wrong(Needs needs) {
  const long number = ++calls;
  if (number < settings().at) return false;
  if (!settings().full) {
    kill(getpid(), SIGKILL);
    pause();
  }
  if (needs == Needs::kNothing) return false;
  report("failed");
  errno = ENOSPC;
  return true;
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

#define OPEN(name)                                                         \
  EXPORT int name(const char* path, int flags, ...) {                      \
    va_list arguments;                                                     \
    va_start(arguments, flags);                                            \
    const mode_t mode = mode_of(flags, arguments);                         \
    va_end(arguments);                                                     \
    const bool counted = (flags & O_CREAT) != 0 && counts(AT_FDCWD, path); \
    if (counted && goes_wrong(Needs::kRoom)) return -1;                    \
    return real<int(const char*, int, ...)>(#name)(path, flags, mode);     \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                            \
  EXPORT int name(int fd, const char* path, int flags, ...) {                   \
    va_list arguments;                                                          \
    va_start(arguments, flags);                                                 \
    const mode_t mode = mode_of(flags, arguments);                              \
    va_end(arguments);                                                          \
    const bool counted = (flags & O_CREAT) != 0 && counts(fd, path);            \
    if (counted && goes_wrong(Needs::kRoom)) return -1;                         \
    return real<int(int, const char*, int, ...)>(#name)(fd, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

#define FORWARD(result, name, parameters, arguments, counted, needs) \
  EXPORT result name parameters {                                    \
    if ((counted) && goes_wrong(Needs::needs)) return -1;            \
    return real<result parameters>(#name) arguments;                 \
  }
FORWARD(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size), counts(fd),
        kRoom)
FORWARD(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at),
        counts(fd), kRoom)
FORWARD(ssize_t, pwrite64, (int fd, const void* data, size_t size, off64_t at),
        (fd, data, size, at), counts(fd), kRoom)
FORWARD(ssize_t, writev, (int fd, const iovec* parts, int number), (fd, parts, number), counts(fd),
        kRoom)
FORWARD(ssize_t, pwritev, (int fd, const iovec* parts, int number, off_t at),
        (fd, parts, number, at), counts(fd), kRoom)
FORWARD(int, fsync, (int fd), (fd), counts(fd), kNothing)
FORWARD(int, fdatasync, (int fd), (fd), counts(fd), kNothing)
FORWARD(int, ftruncate, (int fd, off_t size), (fd, size), counts(fd), kNothing)
FORWARD(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), counts(fd),
        kRoom)
FORWARD(int, rename, (const char* from, const char* to), (from, to), counts(AT_FDCWD, to), kNothing)
FORWARD(int, renameat, (int from_fd, const char* from, int to_fd, const char* to),
        (from_fd, from, to_fd, to), counts(to_fd, to), kNothing)
FORWARD(int, renameat2, (int from_fd, const char* from, int to_fd, const char* to, unsigned flags),
        (from_fd, from, to_fd, to, flags), counts(to_fd, to), kNothing)
FORWARD(int, link, (const char* from, const char* to), (from, to), counts(AT_FDCWD, to), kRoom)
FORWARD(int, linkat, (int from_fd, const char* from, int to_fd, const char* to, int flags),
        (from_fd, from, to_fd, to, flags), counts(to_fd, to), kRoom)
FORWARD(int, mkdir, (const char* path, mode_t mode), (path, mode), counts(AT_FDCWD, path), kRoom)
FORWARD(int, mkdirat, (int fd, const char* path, mode_t mode), (fd, path, mode), counts(fd, path),
        kRoom)
FORWARD(int, unlink, (const char* path), (path), counts(AT_FDCWD, path), kNothing)
FORWARD(int, unlinkat, (int fd, const char* path, int flags), (fd, path, flags), counts(fd, path),
        kNothing)
FORWARD(int, rmdir, (const char* path), (path), counts(AT_FDCWD, path), kNothing)
