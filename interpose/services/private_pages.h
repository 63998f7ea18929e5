// The reserved range of address space behind private memory, given out in whole pages. Only for
// private_memory.cpp; thread-safe, and usable before constructors have run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap {

enum class PageUse : uint8_t { kHeap, kBlocks };

size_t whole_pages(size_t bytes);  // rounded up

// Zeroed, readable and writable; null when there is no memory. `bytes` is a number of whole pages
// and is given again on return. Blocks come from mmap where the range is full.
std::byte* take_pages(size_t bytes, PageUse use);
void give_pages(std::byte* pages, size_t bytes, PageUse use);

// The same with a page below it that cannot be touched.
std::byte* take_stack(size_t bytes);
void give_stack(std::byte* stack, size_t bytes);

// Held around fork, so that the child finds the memory in order; the page lock is taken after the
// heap's, as in allocation.
void lock_private_memory();  // in private_memory.cpp: the heap
void unlock_private_memory();

}  // namespace gpusnap
