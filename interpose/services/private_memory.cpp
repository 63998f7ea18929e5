#include "interpose/services/private_memory.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and pthread_sigmask
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/services/private_pages.h"

namespace gpusnap {

#ifdef GPUSNAP_SANITIZED

void* private_allocate(size_t bytes) {
  return std::malloc(bytes);
}
void* private_allocate_aligned(size_t bytes, size_t alignment) {
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void private_free(void* pointer) {
  std::free(pointer);
}
size_t private_size(const void*) {
  return 0;
}

#else

namespace {

// Sizes are rounded up to classes, four to each power of two; larger ones are runs of pages. A
// block is a header and the bytes; free ones of a class hang together by `next`. A header is not
// moved when a pointer needs more than its alignment: a second one stands before the pointer and
// says how far back the first is.
enum HeaderState : uint32_t { kLive = 0x6c697665, kFree = 0x66726565, kMoved = 0x6d6f7665 };

struct Header {
  uint32_t state;
  uint32_t size_class;  // kMoved: bytes back to the real header
  union {
    size_t bytes;  // live: usable bytes behind the header
    Header* next;  // free
  };
};
static_assert(sizeof(Header) == 16);

constexpr size_t kAlignment = 16;
constexpr size_t kSmallestPower = 4;
constexpr size_t kLargestPower = 15;
constexpr size_t kSteps = 4;
constexpr size_t kLargestSmall = size_t{1} << kLargestPower;
constexpr uint32_t kClasses = (kLargestPower - kSmallestPower) * kSteps + 1;
constexpr uint32_t kLargeClass = kClasses;
constexpr size_t kSpanBytes = 256 << 10;

struct Heap {
  std::mutex mutex;
  Header* free[kClasses] = {};
  std::byte* span = nullptr;  // not handed out yet
  size_t span_left = 0;
};
constinit Heap heap;

constexpr size_t bytes_of_class(uint32_t size_class) {
  if (size_class == 0) return size_t{1} << kSmallestPower;
  const size_t power = (size_class - 1) / kSteps + kSmallestPower;
  const size_t step = (size_class - 1) % kSteps + 1;
  const size_t bytes = (size_t{1} << power) + step * ((size_t{1} << power) / kSteps);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint32_t class_of(size_t bytes) {
  if (bytes <= (size_t{1} << kSmallestPower)) return 0;
  const size_t power = 63 - static_cast<size_t>(__builtin_clzl(bytes - 1));
  const size_t step = (bytes - 1 - (size_t{1} << power)) / ((size_t{1} << power) / kSteps);
  return static_cast<uint32_t>((power - kSmallestPower) * kSteps + step + 1);
}

[[noreturn]] void fail(const char* what, const void* pointer) {
  log(LogLevel::kError, "memory of the library is damaged: ", what, " at ", hex(pointer));
  std::abort();
}

Header* carve(uint32_t size_class) {
  const size_t bytes = sizeof(Header) + bytes_of_class(size_class);
  if (heap.span_left < bytes) {
    // The rest of the old span is less than one block of this size: it is given up.
    heap.span = take_pages(kSpanBytes, PageUse::kHeap);
    heap.span_left = heap.span != nullptr ? kSpanBytes : 0;
    if (heap.span == nullptr) return nullptr;
  }
  auto* const header = reinterpret_cast<Header*>(heap.span);
  heap.span += bytes;
  heap.span_left -= bytes;
  return header;
}

Header* header_of(void* pointer) {
  auto* header = static_cast<Header*>(pointer) - 1;
  if (header->state == kMoved) {
    header = reinterpret_cast<Header*>(reinterpret_cast<std::byte*>(header) - header->size_class);
  }
  if (header->state != kLive) {
    fail(header->state == kFree ? "freed twice" : "no block of ours, or overwritten", pointer);
  }
  return header;
}

}  // namespace

void* private_allocate(size_t bytes) {
  if (bytes > kLargestSmall) {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const size_t whole = whole_pages(bytes + sizeof(Header));
    auto* const header = reinterpret_cast<Header*>(take_pages(whole, PageUse::kHeap));
    if (header == nullptr) return nullptr;
    *header = {kLive, kLargeClass, {whole - sizeof(Header)}};
    return header + 1;
  }
  const uint32_t size_class = class_of(bytes);
  const std::lock_guard lock(heap.mutex);
  Header* header = heap.free[size_class];
  if (header != nullptr) {
    if (header->state != kFree) fail("written after it was freed", header + 1);
    heap.free[size_class] = header->next;
  } else {
    header = carve(size_class);
    if (header == nullptr) return nullptr;
  }
  *header = {kLive, size_class, {bytes_of_class(size_class)}};
  return header + 1;
}

void* private_allocate_aligned(size_t bytes, size_t alignment) {
  if (alignment <= kAlignment) return private_allocate(bytes);
  if (bytes > SIZE_MAX / 2 || alignment > 4096) return nullptr;
  void* const pointer = private_allocate(bytes + alignment);
  if (pointer == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t aligned = (address + alignment - 1) & ~(alignment - 1);
  // Both are multiples of 16, so there is room for a second header wherever they differ.
  if (aligned != address) {
    *(reinterpret_cast<Header*>(aligned) - 1) = {
        kMoved, static_cast<uint32_t>(aligned - address), {bytes}};
  }
  return reinterpret_cast<void*>(aligned);
}

void private_free(void* pointer) {
  if (pointer == nullptr) return;
  Header* const header = header_of(pointer);
  if (header->size_class == kLargeClass) {
    give_pages(reinterpret_cast<std::byte*>(header), header->bytes + sizeof(Header),
               PageUse::kHeap);
    return;
  }
  if (header->size_class > kLargeClass) fail("overwritten", pointer);
  const std::lock_guard lock(heap.mutex);
  header->state = kFree;
  header->next = std::exchange(heap.free[header->size_class], header);
}

size_t private_size(const void* pointer) {
  const Header* const header = header_of(const_cast<void*>(pointer));
  const auto* const begin = reinterpret_cast<const std::byte*>(header + 1);
  return header->bytes - static_cast<size_t>(static_cast<const std::byte*>(pointer) - begin);
}

#endif

std::byte* allocate_block(size_t bytes) {
  std::byte* const block = take_pages(whole_pages(bytes), PageUse::kBlocks);
  if (block != nullptr) madvise(block, whole_pages(bytes), MADV_DONTDUMP);
  return block;
}

void release_block(std::byte* block, size_t bytes) {
  if (block != nullptr) give_pages(block, whole_pages(bytes), PageUse::kBlocks);
}

namespace {

struct ThreadStart {
  std::function<void()> body;
};

void* run_thread(void* start) {
  const std::unique_ptr<ThreadStart> owned(static_cast<ThreadStart*>(start));
  owned->body();
  return nullptr;
}

// A thread with its stack; the stack is null where the system gave one.
struct Started {
  pthread_t thread{};
  std::byte* stack = nullptr;
  size_t stack_bytes = 0;
};

int create_thread(ThreadStart* start, size_t stack_bytes, Started& started) {
  pthread_attr_t attributes;
  int failed = pthread_attr_init(&attributes);
  if (failed != 0) return failed;
  std::byte* stack = nullptr;
#ifndef GPUSNAP_SANITIZED
  stack = take_stack(stack_bytes);
  if (stack != nullptr) failed = pthread_attr_setstack(&attributes, stack, stack_bytes);
#endif
  if (failed == 0) failed = pthread_create(&started.thread, &attributes, run_thread, start);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    if (stack != nullptr) give_stack(stack, stack_bytes);
    return failed;
  }
  started.stack = stack;
  started.stack_bytes = stack_bytes;
  return 0;
}

}  // namespace

std::function<void()> spawn_thread(std::function<void()> body) {
  // A program with much thread-local data needs part of every stack for it; how much cannot be
  // asked.
  constexpr size_t kFirstStack = size_t{1} << 20;
  constexpr size_t kLastStack = size_t{64} << 20;
  auto start = std::make_unique<ThreadStart>(ThreadStart{std::move(body)});
  Started started;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = EINVAL;
  for (size_t bytes = kFirstStack; failed == EINVAL && bytes <= kLastStack; bytes *= 4) {
    failed = create_thread(start.get(), bytes, started);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    log(LogLevel::kError, "cannot start a thread: ", strerrordesc_np(failed));
    return {};
  }
  static_cast<void>(start.release());  // the thread's now
  return [started] {
    pthread_join(started.thread, nullptr);
    if (started.stack != nullptr) give_stack(started.stack, started.stack_bytes);
  };
}

void lock_private_memory() {
#ifndef GPUSNAP_SANITIZED
  heap.mutex.lock();
#endif
}
void unlock_private_memory() {
#ifndef GPUSNAP_SANITIZED
  heap.mutex.unlock();
#endif
}

}  // namespace gpusnap
