// A preloaded library that wraps one function of the C library by RTLD_NEXT and knows no driver.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

extern "C" [[gnu::visibility("default")]] pid_t getpgrp() noexcept {
  void* next = dlsym(RTLD_NEXT, "getpgrp");
  std::puts(next != nullptr && next != reinterpret_cast<void*>(&getpgrp) ? "next: found"
                                                                         : "next: lost");
  return reinterpret_cast<pid_t (*)()>(next)();
}
