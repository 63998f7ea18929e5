// Reaches the driver through a function whose name ends like the one that it calls: the linker
// keeps the longer name alone.
#include <dlfcn.h>

extern "C" void* wrapped_dlopen(const char* name) {
  return dlopen(name, RTLD_NOW);
}

int main() {
  return wrapped_dlopen("libcuda.so.1") == nullptr ? 1 : 0;
}
