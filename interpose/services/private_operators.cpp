// The library's operator new and delete, and the malloc family that its statically linked runtime
// calls (through the linker's --wrap), on private memory. Linked into libgpusnap.so alone, which
// exports none of it.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "interpose/services/private_memory.h"

#ifndef GPUSNAP_SANITIZED

namespace {

void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* const pointer = gpusnap::private_allocate_aligned(bytes, alignment);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

}  // namespace

void* operator new(size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new[](size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return gpusnap::private_allocate(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return gpusnap::private_allocate(bytes);
}
void operator delete(void* pointer) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete[](void* pointer) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete(void* pointer, size_t) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete[](void* pointer, size_t) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete(void* pointer, std::align_val_t) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete[](void* pointer, std::align_val_t) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete(void* pointer, size_t, std::align_val_t) noexcept {
  gpusnap::private_free(pointer);
}
void operator delete[](void* pointer, size_t, std::align_val_t) noexcept {
  gpusnap::private_free(pointer);
}

extern "C" {

void __real_free(void* pointer);
void* __real_realloc(void* pointer, size_t bytes);

void* __wrap_malloc(size_t bytes) {
  void* const pointer = gpusnap::private_allocate(bytes);
  if (pointer == nullptr) errno = ENOMEM;
  return pointer;
}

// Memory that libc made for us (getline, realpath) is libc's to free.
void __wrap_free(void* pointer) {
  if (gpusnap::is_private(pointer)) {
    gpusnap::private_free(pointer);
  } else {
    __real_free(pointer);
  }
}

void* __wrap_calloc(size_t count, size_t bytes) {
  size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const pointer = __wrap_malloc(total);
  if (pointer != nullptr) std::memset(pointer, 0, total);
  return pointer;
}

void* __wrap_realloc(void* pointer, size_t bytes) {
  if (pointer == nullptr) return __wrap_malloc(bytes);
  if (!gpusnap::is_private(pointer)) return __real_realloc(pointer, bytes);
  const size_t old_bytes = gpusnap::private_size(pointer);
  if (bytes <= old_bytes && bytes > 0) return pointer;
  void* const moved = __wrap_malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, pointer, old_bytes < bytes ? old_bytes : bytes);
  gpusnap::private_free(pointer);
  return moved;
}

void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return gpusnap::private_allocate_aligned(bytes, alignment);
}

int __wrap_posix_memalign(void** into, size_t alignment, size_t bytes) {
  *into = gpusnap::private_allocate_aligned(bytes, alignment);
  return *into != nullptr ? 0 : ENOMEM;
}

}  // extern "C"

#endif
