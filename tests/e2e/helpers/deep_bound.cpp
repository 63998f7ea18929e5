// A library that finds the driver by dlopen and dlsym, and prints which library it got a call from.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

extern "C" int look_for_the_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* found = driver != nullptr ? dlsym(driver, "cuInit") : nullptr;
  Dl_info info{};
  if (found == nullptr || dladdr(found, &info) == 0) return 1;
  const char* slash = std::strrchr(info.dli_fname, '/');
  std::printf("cuInit from %s\n", slash != nullptr ? slash + 1 : info.dli_fname);
  return 0;
}
