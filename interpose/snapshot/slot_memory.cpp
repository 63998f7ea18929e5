#include "interpose/snapshot/slot_memory.h"

#include "interpose/services/private_memory.h"

namespace gpusnap {

Result<std::byte*> PinnedSlots::allocate(size_t bytes) {
  std::byte* slot = allocate_block(bytes);
  if (slot == nullptr) {
    return Status(Code::kNoSpace, "no host memory for staging: lower GPUSNAP_HOST_CACHE");
  }
  // An unpinned slot works too, at a lower speed.
  (void)driver_.cuMemHostRegister_v2(slot, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  return slot;
}

void PinnedSlots::release(std::byte* slot, size_t bytes) {
  (void)driver_.cuMemHostUnregister(slot);
  release_block(slot, bytes);
}

}  // namespace gpusnap
