#include "interpose/services/private_pages.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "interpose/services/private_memory.h"

namespace gpusnap {
namespace {

constexpr size_t kPage = 4096;
// Far from where the kernel maps by itself (the top, downwards) and from a program's image and heap
// (the bottom, or 0x55...).
constexpr uintptr_t kHint = 0x2000'0000'0000;
constexpr size_t kLargestRange = size_t{64} << 30;
constexpr size_t kSmallestRange = size_t{64} << 20;
constexpr size_t kMostRuns = 4096;

// Free pages that lie together. In units of pages.
struct Run {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Runs are kept by address and never touch each other. First fit: low addresses are used again
// first, the high end is touched late.
struct Range {
  std::mutex mutex;
  std::atomic<uintptr_t> base{0};
  std::atomic<size_t> bytes{0};
  bool tried = false;
  size_t runs = 0;
  Run run[kMostRuns];
  size_t used[2] = {};  // bytes, by PageUse
};
constinit Range range;

void before_fork() {
  lock_private_memory();
  range.mutex.lock();
}
void after_fork() {
  range.mutex.unlock();
  unlock_private_memory();
}

// Where the user has limited the program's address space, most of it stays the program's.
size_t largest_range() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kLargestRange;
  return std::min(kLargestRange, std::max(kSmallestRange, limit.rlim_cur / 8 / kPage * kPage));
}

// Lock held.
void reserve() {
  range.tried = true;
  for (size_t bytes = largest_range(); bytes >= kSmallestRange; bytes = bytes / 4 / kPage * kPage) {
    void* const base = mmap(reinterpret_cast<void*>(kHint), bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;  // a limit on address space: try with less
    range.base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
    range.bytes.store(bytes, std::memory_order_release);
    range.run[0] = {0, static_cast<uint32_t>(bytes / kPage)};
    range.runs = 1;
    break;
  }
  pthread_atfork(before_fork, after_fork, after_fork);
}

std::byte* address_of(uint32_t page) {
  return reinterpret_cast<std::byte*>(range.base.load(std::memory_order_relaxed) +
                                      size_t{page} * kPage);
}

// Lock held. Null when no run is long enough.
std::byte* cut_run(size_t bytes) {
  const size_t count = bytes / kPage;
  for (size_t i = 0; i < range.runs; ++i) {
    Run& run = range.run[i];
    if (run.count < count) continue;
    std::byte* const pages = address_of(run.first);
    run.first += static_cast<uint32_t>(count);
    run.count -= static_cast<uint32_t>(count);
    if (run.count == 0) {
      std::move(range.run + i + 1, range.run + range.runs, range.run + i);
      --range.runs;
    }
    return pages;
  }
  return nullptr;
}

// Lock held.
void return_run(std::byte* pages, size_t bytes) {
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(pages) - range.base.load(std::memory_order_relaxed);
  const Run back{static_cast<uint32_t>(offset / kPage), static_cast<uint32_t>(bytes / kPage)};
  Run* const end = range.run + range.runs;
  Run* const after = std::lower_bound(range.run, end, back,
                                      [](const Run& a, const Run& b) { return a.first < b.first; });
  const bool joins_before =
      after != range.run && (after - 1)->first + (after - 1)->count == back.first;
  const bool joins_after = after != end && back.first + back.count == after->first;
  if (joins_before) {
    (after - 1)->count += back.count;
    if (joins_after) {
      (after - 1)->count += after->count;
      std::move(after + 1, end, after);
      --range.runs;
    }
  } else if (joins_after) {
    after->first = back.first;
    after->count += back.count;
  } else if (range.runs < kMostRuns) {
    std::move_backward(after, end, end + 1);
    *after = back;
    ++range.runs;
  }
  // Else the table is full and the addresses stay unused: they cost nothing.
}

std::byte* map_anywhere(size_t bytes) {
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

// From the range, without access; null when it is full.
std::byte* take_addresses(size_t bytes, PageUse use) {
  const std::lock_guard lock(range.mutex);
  if (!range.tried) reserve();
  std::byte* const pages = cut_run(bytes);
  if (pages != nullptr) range.used[static_cast<size_t>(use)] += bytes;
  return pages;
}

// Gives the memory back to the system and the addresses to the range.
void give_addresses(std::byte* pages, size_t bytes, PageUse use) {
  void* const gone =
      mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (gone == MAP_FAILED) return;  // too many mappings: what still has its bytes is not used again
  const std::lock_guard lock(range.mutex);
  range.used[static_cast<size_t>(use)] -= bytes;
  return_run(pages, bytes);
}

}  // namespace

size_t whole_pages(size_t bytes) {
  return std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
}

std::byte* take_pages(size_t bytes, PageUse use) {
  std::byte* const pages = take_addresses(bytes, use);
  // Not for the heap: its pointers are told from the program's by their addresses.
  if (pages == nullptr) return use == PageUse::kBlocks ? map_anywhere(bytes) : nullptr;
  if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) == 0) return pages;
  give_addresses(pages, bytes, use);
  return nullptr;
}

void give_pages(std::byte* pages, size_t bytes, PageUse use) {
  if (is_private(pages)) {
    give_addresses(pages, bytes, use);
  } else {
    munmap(pages, bytes);
  }
}

std::byte* take_stack(size_t bytes) {
  std::byte* const pages = take_addresses(bytes + kPage, PageUse::kBlocks);
  if (pages == nullptr) return nullptr;
  if (mprotect(pages + kPage, bytes, PROT_READ | PROT_WRITE) == 0) return pages + kPage;
  give_addresses(pages, bytes + kPage, PageUse::kBlocks);
  return nullptr;
}

void give_stack(std::byte* stack, size_t bytes) {
  give_addresses(stack - kPage, bytes + kPage, PageUse::kBlocks);
}

bool is_private(const void* pointer) {
  const uintptr_t base = range.base.load(std::memory_order_acquire);
  return reinterpret_cast<uintptr_t>(pointer) - base < range.bytes.load(std::memory_order_acquire);
}

PrivateMemoryUse private_memory_use() {
  const std::lock_guard lock(range.mutex);
  return {range.base.load(), range.bytes.load(), range.used[0], range.used[1]};
}

}  // namespace gpusnap
