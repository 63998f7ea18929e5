// Managed memory that is advised about, moved to and fro, and discarded before it is written anew.
#include <cstring>

#include "tests/random/caller.h"

namespace calls {

void Caller::managed_step() {
  if (!exchange_.shared) return;
  const CUstream stream = pick_stream();
  CUdevice device = 0;
  CHECK(cuCtxGetDevice(&device));
  CUmemLocation on_device{CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemLocation on_host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CUdeviceptr address = managed_->address;
  size_t size = managed_->size, first = 0;
  const auto [use_ptsz, given] = given_as(stream);
  const bool by_old_call = draw_.chance(50);
  touch(*managed_, stream);
  switch (draw_.below(6)) {
    case 0:
      CHECK(cuMemAdvise_v2(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_device));
      return;
    case 1:
      CHECK(cuMemAdvise(address, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
      return;
    case 2:
      if (by_old_call) {
        CHECK((use_ptsz ? cuMemPrefetchAsync_ptsz : cuMemPrefetchAsync)(address, size, device,
                                                                        given));
      } else {
        CHECK((use_ptsz ? cuMemPrefetchAsync_v2_ptsz : cuMemPrefetchAsync_v2)(
            address, size, draw_.chance(50) ? on_device : on_host, 0, given));
      }
      return;
    case 3:
      if (stream == CU_STREAM_LEGACY) return;
      CHECK((use_ptsz ? cuMemPrefetchBatchAsync_ptsz : cuMemPrefetchBatchAsync)(
          &address, &size, 1, &on_device, &first, 1, 0, given));
      return;
    case 4:
      // To whom it was attached already.
      CHECK((use_ptsz ? cuStreamAttachMemAsync_ptsz : cuStreamAttachMemAsync)(
          given, address, 0, CU_MEM_ATTACH_GLOBAL));
      return;
    default:
      return discard();
  }
}

// Discards memory that is made for this step alone: it must be written before it is read.
void Caller::discard() {
  const CUstream stream = pick_stream();
  CUdevice device = 0;
  CHECK(cuCtxGetDevice(&device));
  CUmemLocation on_device{CU_MEM_LOCATION_TYPE_DEVICE, device};
  size_t size = draw_.between(1, 4) * 65536, first = 0;
  CUdeviceptr address = 0;
  CHECK(cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL));
  std::memset(reinterpret_cast<void*>(address), 5, size);
  if (stream == CU_STREAM_LEGACY) {
    // No such batches there.
  } else if (draw_.chance(50)) {
    CHECK(cuMemDiscardBatchAsync(&address, &size, 1, 0, stream));
  } else {
    CHECK(cuMemDiscardAndPrefetchBatchAsync(&address, &size, 1, &on_device, &first, 1, 0, stream));
  }
  if (draw_.chance(50)) wait_for(stream);
  const auto words = static_cast<unsigned>(size / 4);
  launch("fill", stream, words, address, words, draw_.word());
  const Part to = pick_part(pick_memory());
  touch(*to.memory, stream);
  IN_STREAM(cuMemcpyAsync, stream, to.address, address, std::min<uint64_t>(to.size, size));
  wait_for(stream);
  see(reinterpret_cast<const void*>(address), 1000);
  CHECK(cuMemFree_v2(address));
}

}  // namespace calls
