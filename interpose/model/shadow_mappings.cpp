#include "interpose/model/shadow_mappings.h"

namespace gpusnap {

CUresult ShadowMappings::map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle,
                             int device) const {
  const CUresult mapped = driver_.cuMemMap(address, bytes, 0, handle, 0);
  if (mapped != CUDA_SUCCESS) return mapped;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult allowed = driver_.cuMemSetAccess(address, bytes, &access, 1);
  if (allowed != CUDA_SUCCESS) (void)driver_.cuMemUnmap(address, bytes);
  return allowed;
}

std::vector<std::pair<uint64_t, uint64_t>> ShadowMappings::take_chunks() {
  const AddressArena all = std::exchange(arena_, {});
  return {all.chunks().begin(), all.chunks().end()};
}

}  // namespace gpusnap
