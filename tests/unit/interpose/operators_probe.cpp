// A library that is linked as libgpusnap.so is, and looks where its memory comes from.
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "interpose/services/private_memory.h"

extern "C" [[gnu::visibility("default")]] const char* probe_operators() {
  using gpusnap::is_private;
  static std::string wrong;
  const std::string text(1000, 'x');
  if (!is_private(text.data())) wrong += "string ";
  const std::vector<int> numbers(100000);
  if (!is_private(numbers.data())) wrong += "vector ";
  struct alignas(128) Wide {
    char bytes[128];
  };
  const auto wide = std::make_unique<Wide>();
  if (!is_private(wide.get()) || reinterpret_cast<uintptr_t>(wide.get()) % 128 != 0) {
    wrong += "aligned ";
  }
  try {
    throw std::runtime_error(text);
  } catch (const std::exception& error) {
    if (!is_private(&error)) wrong += "exception ";
    if (error.what() != text) wrong += "message ";
  }
  auto* grown = static_cast<char*>(std::malloc(10));
  grown[9] = 'y';
  grown = static_cast<char*>(std::realloc(grown, 100000));
  if (!is_private(grown) || grown[9] != 'y') wrong += "realloc ";
  std::free(grown);
  auto* const zeroed = static_cast<char*>(std::calloc(10, 100));
  if (!is_private(zeroed) || zeroed[999] != 0) wrong += "calloc ";
  std::free(zeroed);
  // The C library's own, freed here.
  char* const path = realpath("/", nullptr);
  if (path == nullptr || is_private(path)) wrong += "realpath ";
  std::free(path);
  return wrong.c_str();
}
