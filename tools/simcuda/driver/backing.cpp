#include "tools/simcuda/driver/backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace simcuda {
namespace {

constexpr uint64_t kPage = 4096;
#ifdef __SANITIZE_THREAD__  // has a program's memory in a few places only
constexpr uint64_t kHostRegion = 0x0000'7e90'0000'0000;
constexpr uint64_t kHostRegionBytes = uint64_t{256} << 30;
#else
constexpr uint64_t kHostRegion = 0x0000'3000'0000'0000;
constexpr uint64_t kHostRegionBytes = uint64_t{16} << 40;
#endif
constexpr int kAttempts = 4;

using JunkPage = std::array<uint64_t, kPage / sizeof(uint64_t)>;

// One page, repeated: cheap to hold in the cache, and as good as anything to be wrong with.
const JunkPage& junk_page() {
  static const JunkPage page = [] {
    JunkPage words{};
    for (size_t i = 0; i < words.size(); ++i) words[i] = scramble(i + 1);
    return words;
  }();
  return page;
}

void* map_anonymous(void* hint, uint64_t bytes, int protection, int flags) {
  void* memory = mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

int make_file(const char* name, uint64_t bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    close(fd);
    fd = -1;
  }
  return fd;
}

// A granule of junk as a file: mapped privately over and over, it costs memory only where written.
int junk_file() {
  static const int file = [] {
    int fd = make_file("simcuda-junk", kGranule);
    for (uint64_t at = 0; fd >= 0 && at < kGranule; at += kPage) {
      if (pwrite(fd, junk_page().data(), kPage, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(kPage)) {
        close(fd);
        fd = -1;
      }
    }
    return fd;
  }();
  return file;
}

}  // namespace

uint64_t scramble(uint64_t seed) {
  if (seed == 0) return 0;
  uint64_t x = seed * 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

void fill_with_junk(std::byte* memory, uint64_t bytes, uint64_t offset) {
  const auto* page = reinterpret_cast<const std::byte*>(junk_page().data());
  for (uint64_t at = 0; at < bytes;) {
    uint64_t within = (offset + at) % kPage;
    uint64_t count = std::min(kPage - within, bytes - at);
    std::memcpy(memory + at, page + within, count);
    at += count;
  }
}

Backing::Backing(Backing&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Backing& Backing::operator=(Backing&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Backing::reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

Backing Backing::of_file(int fd, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), bytes};
}

int Backing::share() {
  if (fd_ >= 0) return fd_;
  const int fd = make_file("simcuda-shared", bytes_);
  bool copied = fd >= 0;
  for (uint64_t at = 0; copied && at < bytes_;) {
    const ssize_t wrote = pwrite(fd, data_ + at, bytes_ - at, static_cast<off_t>(at));
    copied = wrote > 0;
    at += copied ? static_cast<uint64_t>(wrote) : 0;
  }
  if (copied &&
      mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
    return fd_ = fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

Backing Backing::junk(uint64_t bytes) {
  Backing backing = reserved(bytes);
  for (uint64_t at = 0; backing && at < bytes; at += kGranule) {
    if (!backing.renew(at, kGranule)) backing.reset();
  }
  return backing;
}

bool Backing::renew(uint64_t offset, uint64_t bytes) const {
  return mmap(data_ + offset, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, junk_file(),
              static_cast<off_t>(offset % kGranule)) != MAP_FAILED;
}

Backing Backing::reserved(uint64_t bytes) {
  void* memory = map_anonymous(nullptr, bytes, PROT_NONE, MAP_NORESERVE);
  return {static_cast<std::byte*>(memory), memory == nullptr ? 0 : bytes};
}

// The file's name tells others the device.
constexpr std::string_view kPhysical = "simcuda-physical-";

PhysicalMemory::PhysicalMemory(uint64_t bytes, int device)
    : fd_(make_file((std::string(kPhysical) + std::to_string(device)).c_str(), bytes)) {
  for (uint64_t at = 0; fd_ >= 0 && at < bytes; at += kPage) {
    if (pwrite(fd_, junk_page().data(), kPage, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(kPage)) {
      close(fd_);
      fd_ = -1;
    }
  }
}

std::optional<int> PhysicalMemory::device_of(int fd) {
  constexpr std::string_view kBefore = "/memfd:";
  char target[128];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t bytes = readlink(link.c_str(), target, sizeof target);
  std::string_view name(target, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  if (!name.starts_with(kBefore)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  if (!name.starts_with(kPhysical)) return std::nullopt;
  name.remove_prefix(kPhysical.size());
  int device = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), device);
  return error == std::errc() ? std::optional(device) : std::nullopt;
}

PhysicalMemory::~PhysicalMemory() {
  if (fd_ >= 0) close(fd_);
}

int PhysicalMemory::share() const {
  return fcntl(fd_, F_DUPFD_CLOEXEC, 0);
}

bool PhysicalMemory::map(std::byte* at, uint64_t bytes, uint64_t offset) const {
  return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_,
              static_cast<off_t>(offset)) != MAP_FAILED;
}

bool PhysicalMemory::unmap(std::byte* at, uint64_t bytes) {
  return map_anonymous(at, bytes, PROT_NONE, MAP_FIXED | MAP_NORESERVE) != nullptr;
}

HostRegion::HostRegion(uint64_t seed)
    : low_(kHostRegion + (seed == 0 ? 0 : (scramble(seed) % 4096 + 1) * (uint64_t{1} << 30))) {}

std::byte* HostRegion::allocate(uint64_t bytes) {
  uint64_t mapped = round_up(bytes, kPage);
  uint64_t align = mapped >= kGranule ? kGranule : kPage;
  // Ranges that something else of the process sits in stay taken, and the next one is tried. The
  // address is only a hint: a sanitizer may keep the whole region to itself.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto address = ranges_.take(low_, kHostRegion + kHostRegionBytes, mapped + kPage, align);
    if (!address) break;
    void* wanted = reinterpret_cast<void*>(*address);
    void* memory = map_anonymous(wanted, mapped, PROT_READ | PROT_WRITE, 0);
    if (memory == wanted) return static_cast<std::byte*>(memory);
    if (memory == nullptr) {
      ranges_.release(*address);
      return nullptr;
    }
    munmap(memory, mapped);
  }
  return static_cast<std::byte*>(map_anonymous(nullptr, mapped, PROT_READ | PROT_WRITE, 0));
}

void HostRegion::free(std::byte* memory, uint64_t bytes) {
  munmap(memory, round_up(bytes, kPage));
  ranges_.release(reinterpret_cast<uint64_t>(memory));
}

}  // namespace simcuda
