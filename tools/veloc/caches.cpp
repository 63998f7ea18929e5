// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/caches.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/veloc/pages_ahead.h"

namespace gpusnap::veloc {

namespace {

constexpr uint64_t kPage = 4096;

uint64_t host_memory_bytes() {
  return static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
         static_cast<uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
}

// Few: the program needs its processors itself.
unsigned threads_for_pages() {
  constexpr long kProcessorsForOne = 4, kMost = 4;
  return static_cast<unsigned>(
      std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN) / kProcessorsForOne, 1, kMost));
}

uint64_t configured(uint64_t bytes, uint64_t by_default) {
  return bytes == Config::kByDefault ? by_default : bytes;
}

}  // namespace

Result<std::unique_ptr<Caches>> Caches::create(const Config& config, Memory& memory) {
  std::unique_ptr<Caches> caches(new Caches(memory));
  if (memory.has_device()) {
    const uint64_t most = std::min<uint64_t>(4ULL << 30, memory.device_bytes() / 10);
    caches->add_device(configured(config.gpu_cache, most), config.evictor);
  }
  const uint64_t most = std::min<uint64_t>(32ULL << 30, host_memory_bytes() / 8);
  if (Status added = caches->add_host(configured(config.host_cache, most), config.evictor);
      !added.ok()) {
    return added;
  }
  return caches;
}

// Half as much if the device has less room; a cache that small is of no use any more.
void Caches::add_device(uint64_t bytes, history::Evictor evictor) {
  constexpr uint64_t kLeast = 4096;
  for (; bytes >= kLeast; bytes /= 2) {
    const Result<std::byte*> allocated = memory_.allocate_on_device(bytes);
    if (!allocated.ok()) continue;
    device_ = allocated.value();
    areas_.push_back({device_, true});
    options_.push_back({.capacity = bytes, .alignment = Layout::kAlignment, .evictor = evictor});
    return;
  }
}

// Pages come when they are first written to.
Status Caches::add_host(uint64_t bytes, history::Evictor evictor) {
  host_bytes_ = std::max(bytes / kPage * kPage, kPage);
  // Steps of kPinStep bytes begin at multiples of it.
  const uint64_t reserved = host_bytes_ + Mover::kPinStep;
  void* const area = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) {
    return {Code::kIo, "cannot reserve " + std::to_string(host_bytes_ >> 20) +
                           " MiB for host_cache: " + std::strerror(errno)};
  }
  const auto begin = reinterpret_cast<uintptr_t>(area);
  const uintptr_t aligned = (begin + Mover::kPinStep - 1) / Mover::kPinStep * Mover::kPinStep;
  host_ = reinterpret_cast<std::byte*>(aligned);
  if (aligned > begin) munmap(area, aligned - begin);
  munmap(host_ + host_bytes_, Mover::kPinStep - (aligned - begin));
  // Large pages where there are any: they are made, and pinned, several times as fast.
  (void)madvise(host_, host_bytes_, MADV_HUGEPAGE);
  areas_.push_back({host_, false});
  options_.push_back({.capacity = host_bytes_, .alignment = kPage, .evictor = evictor});
  if (!memory_.has_device()) return {};
  Result<Join> started = start_thread({}, "history", [this] { pin_host(); });
  if (!started.ok()) return started.status();
  pinning_ = std::move(started.value());
  return {};
}

// Memory that cannot be pinned stays as it is: slower.
void Caches::pin_host() {
  PagesAhead pages(host_, host_bytes_, Mover::kPinStep, threads_for_pages());
  while (!is_ending_ && pinned_ < host_bytes_) {
    const uint64_t step = std::min<uint64_t>(Mover::kPinStep, host_bytes_ - pinned_);
    pages.wait_for(pinned_ / Mover::kPinStep);
    if (!memory_.pin(host_ + pinned_, step).ok()) return;
    pinned_ += step;
  }
}

Caches::~Caches() {
  is_ending_ = true;
  if (pinning_) pinning_();
  for (uint64_t done = 0; done < pinned_; done += Mover::kPinStep) memory_.unpin(host_ + done);
  if (host_ != nullptr) munmap(host_, host_bytes_);
  if (device_ != nullptr) memory_.free_on_device(device_);
}

}  // namespace gpusnap::veloc
