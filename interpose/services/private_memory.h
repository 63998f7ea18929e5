// The library's own memory, apart from the program's: what we allocate, and when, must not move a
// single address that the program's malloc or mmap gives out, or its behaviour would depend on us
// and a restored run would not repeat the recorded one.
//
// One range of address space is reserved at first use, where nothing else maps by itself, and all
// comes from it: the heap behind operator new and malloc in the library (private_operators.cpp),
// page-aligned blocks, and the stacks of our threads. Where the range is used up or cannot be had,
// blocks come from mmap. All of this is thread-safe, usable before constructors have run, and
// usable in a forked child. Not for signal handlers.
//
// Under AddressSanitizer and ThreadSanitizer the same functions use malloc and plain threads, so
// that the tools see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace gpusnap {

// Aligned to 16 bytes, or to `alignment` (a power of two up to 4096); null when there is no memory.
void* private_allocate(size_t bytes);
void* private_allocate_aligned(size_t bytes, size_t alignment);
// Null is allowed. A pointer that is not from here, or is freed twice, ends the process with a
// line.
void private_free(void* pointer);
// Usable bytes of what private_allocate gave.
size_t private_size(const void* pointer);
// Whether the address lies in the reserved range.
bool is_private(const void* pointer);

// Whole pages, zeroed and page-aligned, for staging slots; left out of core dumps. Null when there
// is no memory. The size is given again to release.
std::byte* allocate_block(size_t bytes);
void release_block(std::byte* block, size_t bytes);

// Runs `body` on a thread of ours: all signals blocked, its stack from private memory. The returned
// function joins it and must be called once. Empty when no thread can be had. The loader takes a
// small table for each new thread from the program's heap, so start threads at the same places in
// recorded and restored runs: at activation.
std::function<void()> spawn_thread(std::function<void()> body);

// The bytes taken from the reserved range so far; for tests and for the log.
struct PrivateMemoryUse {
  uintptr_t base = 0;  // 0: nothing reserved
  size_t reserved = 0;
  size_t heap = 0;    // pages given to the heap
  size_t blocks = 0;  // pages given to blocks and stacks
};
PrivateMemoryUse private_memory_use();

}  // namespace gpusnap
