// Opens the library that it is given as one does that is to be bound to its own libraries first,
// and has it look for the driver.
#include <dlfcn.h>

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : nullptr;
  if (library == nullptr) return 1;
  const auto look = reinterpret_cast<int (*)()>(dlsym(library, "look_for_the_driver"));
  return look != nullptr ? look() : 1;
}
