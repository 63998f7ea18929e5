// Another preloaded library with the same trade, as such libraries are commonly written: it finds
// the real dlsym by version behind itself, and puts its own function before one of the driver's.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using Allocate = int (*)(unsigned long long*, size_t);
Allocate real_allocate = nullptr;

int allocate(unsigned long long* address, size_t size) {
  std::puts("second: cuMemAlloc_v2");
  return real_allocate(address, size);
}

void* behind(void* handle, const char* symbol) {
  using Dlsym = void* (*)(void*, const char*);
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  return next(handle, symbol);
}

}  // namespace

EXPORT void* dlsym(void* handle, const char* symbol) noexcept {
  if (handle == RTLD_NEXT || std::strcmp(symbol, "cuMemAlloc_v2") != 0) {
    return behind(handle, symbol);
  }
  real_allocate = reinterpret_cast<Allocate>(behind(handle, symbol));
  return real_allocate == nullptr ? nullptr : reinterpret_cast<void*>(allocate);
}

// Looked up the usual way, by whichever dlsym comes first.
EXPORT pid_t getppid() noexcept {
  std::puts("second: getppid");
  return reinterpret_cast<pid_t (*)()>(dlvsym(RTLD_NEXT, "getppid", "GLIBC_2.2.5"))();
}
