// Preloaded before the driver: makes it one that works in the program's heap, and leaves bytes
// there at each call of cuCtxSynchronize. A replay makes none of these.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "interpose/cuda/cuda_abi.h"

namespace {

void leave_bytes() {
  constexpr size_t kMost = 1032, kStep = 16, kBlocks = 4;
  void* blocks[kBlocks] = {};
  for (size_t bytes = 24; bytes <= kMost; bytes += kStep) {
    for (void*& block : blocks) {
      block = std::malloc(bytes);
      if (block != nullptr) std::memset(block, 0x5a, bytes);
    }
    for (void* block : blocks) std::free(block);
  }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] CUresult cuCtxSynchronize() {
  static auto* const behind =
      reinterpret_cast<decltype(&cuCtxSynchronize)>(dlsym(RTLD_NEXT, "cuCtxSynchronize"));
  const CUresult result = behind();
  leave_bytes();
  return result;
}
