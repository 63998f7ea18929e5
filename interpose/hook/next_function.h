// The function behind an exported wrapper of ours, for functions of the C library.
#pragma once

#include <dlfcn.h>

#include <atomic>

#include "interpose/hook/resolve.h"

namespace gpusnap {

template <class F>
F next_function(const char* name, std::atomic<F>& cached) {
  F found = cached.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<F>(real_dlsym(RTLD_NEXT, name));
    cached.store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace gpusnap
