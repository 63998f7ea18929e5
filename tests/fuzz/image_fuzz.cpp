// Device code images of known length: fat binaries, cubins, text.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tracker/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gpusnap::ImageContents contents = gpusnap::read_image(std::as_bytes(std::span(data, size)));
  const gpusnap::ImageGlobals globals = gpusnap::globals_of(contents);
  // An image whose variables are not known says why.
  if (!globals.known && globals.reason.empty()) __builtin_trap();
  if (!contents.error.empty() && !contents.entries.empty()) __builtin_trap();
  return 0;
}
