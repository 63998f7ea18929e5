// open, fopen and their like, exported: what the program opens for reading is noted
// (opened_files.h, nondeterminism/random.h), and nothing else happens to it.

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <atomic>

#include "interpose/hook/libc_export.h"
#include "interpose/hook/next_function.h"
#include "interpose/nondeterminism/opened_files.h"
#include "interpose/nondeterminism/random.h"

asm(R"(
  gpusnap_export open, GLIBC_2.2.5
  gpusnap_export open64, GLIBC_2.2.5
  gpusnap_export openat, GLIBC_2.4
  gpusnap_export openat64, GLIBC_2.4
  gpusnap_export __open_2, GLIBC_2.7
  gpusnap_export __open64_2, GLIBC_2.7
  gpusnap_export __openat_2, GLIBC_2.7
  gpusnap_export __openat64_2, GLIBC_2.7
  gpusnap_export fopen, GLIBC_2.2.5
  gpusnap_export fopen64, GLIBC_2.2.5
)");

namespace gpusnap {
namespace {

using Open = int (*)(const char*, int, ...);
using OpenAt = int (*)(int, const char*, int, ...);
using Open2 = int (*)(const char*, int);
using OpenAt2 = int (*)(int, const char*, int);
using Fopen = FILE* (*)(const char*, const char*);

constinit std::atomic<Open> next_open{nullptr}, next_open64{nullptr};
constinit std::atomic<OpenAt> next_openat{nullptr}, next_openat64{nullptr};
constinit std::atomic<Open2> next_open_2{nullptr}, next_open64_2{nullptr};
constinit std::atomic<OpenAt2> next_openat_2{nullptr}, next_openat64_2{nullptr};
constinit std::atomic<Fopen> next_fopen{nullptr}, next_fopen64{nullptr};

int noted(int descriptor, int folder, const char* path, int flags) {
  const bool reads = (flags & O_ACCMODE) == O_RDONLY && (flags & (O_PATH | O_DIRECTORY)) == 0;
  if (descriptor >= 0 && reads) {
    note_opened(descriptor, folder, path);
    nondeterminism::note_random_device(descriptor, path);
  }
  return descriptor;
}

// Not noexcept, as these are places where a thread may be cancelled.
int open_as(const char* name, std::atomic<Open>& next, const char* path, int flags, mode_t mode) {
  const Open real = next_function(name, next);
  if (real == nullptr) return errno = ENOSYS, -1;
  return noted(real(path, flags, mode), AT_FDCWD, path, flags);
}

int openat_as(const char* name, std::atomic<OpenAt>& next, int folder, const char* path, int flags,
              mode_t mode) {
  const OpenAt real = next_function(name, next);
  if (real == nullptr) return errno = ENOSYS, -1;
  return noted(real(folder, path, flags, mode), folder, path, flags);
}

FILE* fopen_as(const char* name, std::atomic<Fopen>& next, const char* path, const char* mode) {
  const Fopen real = next_function(name, next);
  if (real == nullptr) return errno = ENOSYS, nullptr;
  const bool reads = mode[0] == 'r' && strchr(mode, '+') == nullptr;
  FILE* const device = reads ? nondeterminism::open_random_device(path, mode) : nullptr;
  if (device != nullptr) return device;
  FILE* const file = real(path, mode);
  if (file != nullptr && reads) note_opened(fileno(file), AT_FDCWD, path);
  return file;
}

bool has_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace
}  // namespace gpusnap

// The mode is there where the flags say so.
#define GPUSNAP_MODE_AFTER(flags) \
  mode_t mode = 0;                \
  if (gpusnap::has_mode(flags)) { \
    va_list more;                 \
    va_start(more, flags);        \
    mode = va_arg(more, mode_t);  \
    va_end(more);                 \
  }

extern "C" {

GPUSNAP_EXPORTED int gpusnap_open(const char* path, int flags, ...) {
  GPUSNAP_MODE_AFTER(flags)
  return gpusnap::open_as("open", gpusnap::next_open, path, flags, mode);
}

GPUSNAP_EXPORTED int gpusnap_open64(const char* path, int flags, ...) {
  GPUSNAP_MODE_AFTER(flags)
  return gpusnap::open_as("open64", gpusnap::next_open64, path, flags, mode);
}

GPUSNAP_EXPORTED int gpusnap_openat(int folder, const char* path, int flags, ...) {
  GPUSNAP_MODE_AFTER(flags)
  return gpusnap::openat_as("openat", gpusnap::next_openat, folder, path, flags, mode);
}

GPUSNAP_EXPORTED int gpusnap_openat64(int folder, const char* path, int flags, ...) {
  GPUSNAP_MODE_AFTER(flags)
  return gpusnap::openat_as("openat64", gpusnap::next_openat64, folder, path, flags, mode);
}

GPUSNAP_EXPORTED int gpusnap___open_2(const char* path, int flags) {
  const auto real = gpusnap::next_function("__open_2", gpusnap::next_open_2);
  if (real == nullptr) return errno = ENOSYS, -1;
  return gpusnap::noted(real(path, flags), AT_FDCWD, path, flags);
}

GPUSNAP_EXPORTED int gpusnap___open64_2(const char* path, int flags) {
  const auto real = gpusnap::next_function("__open64_2", gpusnap::next_open64_2);
  if (real == nullptr) return errno = ENOSYS, -1;
  return gpusnap::noted(real(path, flags), AT_FDCWD, path, flags);
}

GPUSNAP_EXPORTED int gpusnap___openat_2(int folder, const char* path, int flags) {
  const auto real = gpusnap::next_function("__openat_2", gpusnap::next_openat_2);
  if (real == nullptr) return errno = ENOSYS, -1;
  return gpusnap::noted(real(folder, path, flags), folder, path, flags);
}

GPUSNAP_EXPORTED int gpusnap___openat64_2(int folder, const char* path, int flags) {
  const auto real = gpusnap::next_function("__openat64_2", gpusnap::next_openat64_2);
  if (real == nullptr) return errno = ENOSYS, -1;
  return gpusnap::noted(real(folder, path, flags), folder, path, flags);
}

GPUSNAP_EXPORTED FILE* gpusnap_fopen(const char* path, const char* mode) {
  return gpusnap::fopen_as("fopen", gpusnap::next_fopen, path, mode);
}

GPUSNAP_EXPORTED FILE* gpusnap_fopen64(const char* path, const char* mode) {
  return gpusnap::fopen_as("fopen64", gpusnap::next_fopen64, path, mode);
}
}
