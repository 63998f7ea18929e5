// getrandom and its like, and read for the devices that give random bytes, exported.

#include "interpose/nondeterminism/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/hook/libc_export.h"
#include "interpose/hook/next_function.h"
#include "interpose/nondeterminism/value_log.h"

asm(R"(
  gpusnap_export getrandom, GLIBC_2.25
  gpusnap_export getentropy, GLIBC_2.25
  gpusnap_export arc4random, GLIBC_2.36
  gpusnap_export arc4random_buf, GLIBC_2.36
  gpusnap_export arc4random_uniform, GLIBC_2.36
  gpusnap_export read, GLIBC_2.2.5
  gpusnap_export __read_chk, GLIBC_2.4
)");

namespace gpusnap::nondeterminism {
namespace {

using GetRandom = ssize_t (*)(void*, size_t, unsigned);
using GetEntropy = int (*)(void*, size_t);
using Arc4Random = uint32_t (*)();
using Arc4RandomBuffer = void (*)(void*, size_t);
using Arc4RandomUniform = uint32_t (*)(uint32_t);
using Read = ssize_t (*)(int, void*, size_t);
using ReadChecked = ssize_t (*)(int, void*, size_t, size_t);

constinit std::atomic<GetRandom> next_getrandom{nullptr};
constinit std::atomic<GetEntropy> next_getentropy{nullptr};
constinit std::atomic<Arc4Random> next_arc4random{nullptr};
constinit std::atomic<Arc4RandomBuffer> next_arc4random_buf{nullptr};
constinit std::atomic<Arc4RandomUniform> next_arc4random_uniform{nullptr};
constinit std::atomic<Read> next_read{nullptr};
constinit std::atomic<ReadChecked> next_read_chk{nullptr};

// Descriptors that were opened as such a device, and may be something else since. Programs that
// have more of them open do so for connections.
constexpr int kMostDescriptors = 1024;
constinit std::atomic<uint64_t> devices[kMostDescriptors / 64] = {};

uint64_t bit_of(int descriptor) {
  return uint64_t{1} << (descriptor % 64);
}

bool is_random_device(const char* path) {
  return std::strcmp(path, "/dev/urandom") == 0 || std::strcmp(path, "/dev/random") == 0;
}

bool is_still_one(int descriptor) {
  constexpr unsigned kMemoryDevices = 1, kRandom = 8, kUrandom = 9;
  const int error = errno;
  struct stat now = {};
  const bool is = fstat(descriptor, &now) == 0 && S_ISCHR(now.st_mode) &&
                  major(now.st_rdev) == kMemoryDevices &&
                  (minor(now.st_rdev) == kRandom || minor(now.st_rdev) == kUrandom);
  if (!is) devices[descriptor / 64].fetch_and(~bit_of(descriptor), std::memory_order_relaxed);
  errno = error;
  return is;
}

bool is_device(int descriptor) {
  if (descriptor < 0 || descriptor >= kMostDescriptors) return false;
  const uint64_t all = devices[descriptor / 64].load(std::memory_order_relaxed);
  return (all & bit_of(descriptor)) != 0 && is_still_one(descriptor);
}

size_t take(void* to, size_t size) {
  if (!restored()) [[likely]]
    return 0;
  const Own own(Source::kRandom);
  return own ? own->take_bytes(to, size) : 0;
}

// Gives recorded bytes first; `read(to, size)` gives the rest, and returns how much of it, or -1.
// The series is not held meanwhile: the thread that reads may be cancelled.
template <class Read>
ssize_t give(void* to, size_t size, const Read& read) {
  const size_t recorded = take(to, size);
  if (recorded == size && size != 0) return static_cast<ssize_t>(size);
  std::byte* const rest = static_cast<std::byte*>(to) + recorded;
  const ssize_t got = read(rest, size - recorded);
  if (got > 0) {
    if (const Own own(Source::kRandom); own) own->add_bytes(rest, static_cast<size_t>(got));
  }
  if (got < 0) return recorded != 0 ? static_cast<ssize_t>(recorded) : got;
  return static_cast<ssize_t>(recorded) + got;
}

// A number that is given whole.
template <class Draw>
uint32_t give_number(const Draw& draw) {
  uint32_t number = 0;
  (void)give(&number, sizeof number, [&](void* to, size_t size) {
    const uint32_t drawn = draw();
    std::memcpy(to, &drawn, size);
    return static_cast<ssize_t>(size);
  });
  return number;
}

ssize_t read_any(int descriptor, void* to, size_t size) {
  const auto next = next_function("read", next_read);
  if (!is_device(descriptor)) [[likely]]
    return next(descriptor, to, size);
  return give(to, size, [&](void* at, size_t left) { return next(descriptor, at, left); });
}

// The descriptor that a file of the C library's stands for.
int descriptor_of(void* cookie) {
  return static_cast<int>(reinterpret_cast<intptr_t>(cookie));
}
ssize_t read_file(void* cookie, char* to, size_t size) {
  return read_any(descriptor_of(cookie), to, size);
}
int seek_file(void* cookie, off64_t* to, int from) {
  *to = lseek64(descriptor_of(cookie), *to, from);
  return *to < 0 ? -1 : 0;
}
int close_file(void* cookie) {
  return close(descriptor_of(cookie));
}

// Looked up at once: a signal's handler may be the first to ask, or the child of a vfork.
[[gnu::constructor]] void find_next() {
  (void)next_function("getrandom", next_getrandom);
  (void)next_function("getentropy", next_getentropy);
  (void)next_function("arc4random", next_arc4random);
  (void)next_function("arc4random_buf", next_arc4random_buf);
  (void)next_function("arc4random_uniform", next_arc4random_uniform);
  (void)next_function("read", next_read);
  (void)next_function("__read_chk", next_read_chk);
}

}  // namespace

void note_random_device(int descriptor, const char* path) {
  if (!is_random_device(path) || descriptor < 0 || descriptor >= kMostDescriptors) return;
  devices[descriptor / 64].fetch_or(bit_of(descriptor), std::memory_order_relaxed);
}

FILE* open_random_device(const char* path, const char* mode) {
  if (!is_random_device(path) || !is_followed() || !is_the_program()) return nullptr;
  const int flags = O_RDONLY | (std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0);
  const int descriptor = open(path, flags);
  if (descriptor < 0) return nullptr;
  auto* const cookie = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  FILE* const file = fopencookie(cookie, "r", {read_file, nullptr, seek_file, close_file});
  if (file == nullptr) {
    close(descriptor);
    return nullptr;
  }
  // For fileno. And freopen looks into the other one where it is not null, which it must not here.
  file->_fileno = descriptor;
  file->_wide_data = nullptr;
  return file;
}

}  // namespace gpusnap::nondeterminism

extern "C" {

GPUSNAP_EXPORTED ssize_t gpusnap_getrandom(void* to, size_t size, unsigned flags) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("getrandom", next_getrandom);
  return give(to, size, [&](void* at, size_t left) { return next(at, left, flags); });
}

GPUSNAP_EXPORTED int gpusnap_getentropy(void* to, size_t size) {
  using namespace gpusnap::nondeterminism;
  constexpr size_t kMost = 256;
  const auto next = gpusnap::next_function("getentropy", next_getentropy);
  if (size > kMost) return next(to, size);
  const ssize_t got = give(to, size, [&](void* at, size_t left) {
    return next(at, left) == 0 ? static_cast<ssize_t>(left) : ssize_t{-1};
  });
  return got == static_cast<ssize_t>(size) ? 0 : -1;
}

GPUSNAP_EXPORTED uint32_t gpusnap_arc4random() {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("arc4random", next_arc4random);
  return give_number([&] { return next(); });
}

GPUSNAP_EXPORTED void gpusnap_arc4random_buf(void* to, size_t size) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("arc4random_buf", next_arc4random_buf);
  (void)give(to, size, [&](void* at, size_t left) {
    next(at, left);
    return static_cast<ssize_t>(left);
  });
}

GPUSNAP_EXPORTED uint32_t gpusnap_arc4random_uniform(uint32_t bound) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("arc4random_uniform", next_arc4random_uniform);
  return give_number([&] { return next(bound); });
}

// Not noexcept, as these are places where a thread may be cancelled.
GPUSNAP_EXPORTED ssize_t gpusnap_read(int descriptor, void* to, size_t size) {
  return gpusnap::nondeterminism::read_any(descriptor, to, size);
}

GPUSNAP_EXPORTED ssize_t gpusnap___read_chk(int descriptor, void* to, size_t size, size_t room) {
  using namespace gpusnap::nondeterminism;
  const auto next = gpusnap::next_function("__read_chk", next_read_chk);
  if (size > room || !is_device(descriptor)) return next(descriptor, to, size, room);
  return give(to, size, [&](void* at, size_t left) { return next(descriptor, at, left, left); });
}
}
