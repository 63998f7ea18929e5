#include "interpose/snapshot/zone_copies.h"

#include <algorithm>
#include <cstddef>

namespace gpusnap {

namespace {

void merge_neighbours(std::vector<ZoneCopy>& copies) {
  size_t last = 0;
  for (size_t i = 1; i < copies.size(); ++i) {
    ZoneCopy& before = copies[last];
    const ZoneCopy& next = copies[i];
    if (next.range == before.range && next.to == before.to + before.size &&
        next.from == before.from + before.size) {
      before.size += next.size;
    } else {
      copies[++last] = next;
    }
  }
  if (!copies.empty()) copies.resize(last + 1);
}

// All in one call; NOT_SUPPORTED by drivers before 12.8.
CUresult copy_batch(const Driver& driver, const std::vector<ZoneCopy>& copies, CUstream stream) {
  const bool has_newer = driver.cuMemcpyBatchAsync_v2 != nullptr;
  if (!has_newer && driver.cuMemcpyBatchAsync == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const size_t count = copies.size();
  std::vector<CUdeviceptr> to(count), from(count);
  std::vector<size_t> sizes(count);
  for (size_t i = 0; i < count; ++i) {
    to[i] = copies[i].to;
    from[i] = copies[i].from;
    sizes[i] = copies[i].size;
  }
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  // By copy engines: nothing of the program may wait for multiprocessors that it holds itself.
  attributes.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  size_t first = 0, failed = 0;
  if (has_newer) {
    return driver.cuMemcpyBatchAsync_v2(to.data(), from.data(), sizes.data(), count, &attributes,
                                        &first, 1, stream);
  }
  return driver.cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), count, &attributes, &first,
                                   1, &failed, stream);
}

// A driver that knows the call but not these operands may answer so; it has copied nothing then.
bool refused(CUresult result) {
  return result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult copy_zones(const Driver& driver, CopyTo side, std::vector<ZoneCopy> copies,
                    CUstream stream) {
  merge_neighbours(copies);
  if (copies.size() > 1) {
    const CUresult result = copy_batch(driver, copies, stream);
    if (!refused(result)) return result;
  }
  for (const ZoneCopy& copy : copies) {
    const CUresult result = side == CopyTo::kDevice
                                ? driver.cuMemcpyDtoDAsync_v2(copy.to, copy.from, copy.size, stream)
                                : driver.cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(copy.to),
                                                              copy.from, copy.size, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace gpusnap
