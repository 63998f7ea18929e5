// Advice about managed memory, which changes nothing here, and memory that nobody needs.

#include <cstring>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

struct ManagedRange {
  CUdeviceptr address = 0;
  size_t size = 0;
};

// The host's view of the range; null unless all of it is managed memory.
std::byte* find_managed(const Memory& memory, const Memory::Hold& hold, const ManagedRange& range) {
  const Allocation* found = memory.find(hold, range.address);
  if (found == nullptr || found->type != MemoryType::kManaged || range.size == 0) return nullptr;
  return memory.resolve(hold, range.address, range.size);
}

bool is_managed(const Memory& memory, const ManagedRange& range) {
  const auto hold = memory.hold();
  return find_managed(memory, hold, range) != nullptr;
}

CUresult advise(const ManagedRange& range) {
  return in_context([&](Driver& state, Context&) {
    return is_managed(state.memory, range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult prefetch(const ManagedRange& range, CUstream stream) {
  return queue_in(stream, [&](Driver& state, Context&, Stream&) {
    return is_managed(state.memory, range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

// Places for a batch's ranges, as its calls want them said.
struct Places {
  const CUmemLocation* locations;
  const size_t* firsts;
  size_t count;
  bool make_sense(size_t ranges) const {
    if (locations == nullptr || firsts == nullptr || count == 0 || count > ranges ||
        firsts[0] != 0) {
      return false;
    }
    for (size_t i = 1; i < count; ++i) {
      if (firsts[i] <= firsts[i - 1] || firsts[i] >= ranges) return false;
    }
    return true;
  }
};

// Discarded memory becomes junk when its stream comes to the discard.
void make_junk(const std::vector<std::pair<std::byte*, size_t>>& ranges) {
  for (const auto& [bytes, size] : ranges) std::memset(bytes, 0xd5, size);
}

CUresult batch(const CUdeviceptr* addresses, const size_t* sizes, size_t count,
               const Places* places, bool discards, unsigned long long flags, CUstream handle) {
  return queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0 || stream.legacy ||
        (places != nullptr && !places->make_sense(count))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto hold = state.memory.hold();
    std::vector<std::pair<std::byte*, size_t>> ranges;
    for (size_t i = 0; i < count; ++i) {
      std::byte* bytes = find_managed(state.memory, hold, {addresses[i], sizes[i]});
      if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
      ranges.emplace_back(bytes, sizes[i]);
    }
    if (discards) {
      context.submit(stream, [ranges = std::move(ranges)] { make_junk(ranges); });
    }
    return CUDA_SUCCESS;
  });
}

// Nothing has been advised, as far as anybody is told.
CUresult tell_attribute(void* value, size_t size, CUmem_range_attribute attribute) {
  if (value == nullptr || size == 0 || size % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  int* const numbers = static_cast<int*>(value);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *numbers = 0;
      return size == sizeof(int) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *numbers = CU_DEVICE_INVALID;
      return size == sizeof(int) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      for (size_t i = 0; i < size / sizeof(int); ++i) numbers[i] = CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace simcuda

using simcuda::batch;
using simcuda::Places;

CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise, CUdevice) {
  return simcuda::advise({address, size});
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise, CUmemLocation) {
  return simcuda::advise({address, size});
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice, CUstream stream) {
  return simcuda::prefetch({address, size}, stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation, unsigned,
                               CUstream stream) {
  return simcuda::prefetch({address, size}, stream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                 CUmemLocation* locations, size_t* firsts, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  const Places places{locations, firsts, location_count};
  return batch(addresses, sizes, count, &places, false, flags, stream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                unsigned long long flags, CUstream stream) {
  return batch(addresses, sizes, count, nullptr, true, flags, stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                           CUmemLocation* locations, size_t* firsts,
                                           size_t location_count, unsigned long long flags,
                                           CUstream stream) {
  const Places places{locations, firsts, location_count};
  return batch(addresses, sizes, count, &places, true, flags, stream);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length, unsigned) {
  return simcuda::prefetch({address, length == 0 ? 1 : length}, stream);
}

CUresult cuMemRangeGetAttribute(void* value, size_t value_size, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t size) {
  return simcuda::in_driver([&](simcuda::Driver& state) {
    if (!simcuda::is_managed(state.memory, {address, size})) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::tell_attribute(value, value_size, attribute);
  });
}

CUresult cuMemRangeGetAttributes(void** values, size_t* value_sizes,
                                 CUmem_range_attribute* attributes, size_t count,
                                 CUdeviceptr address, size_t size) {
  if (values == nullptr || value_sizes == nullptr || attributes == nullptr || count == 0) {
    return simcuda::in_driver([](auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result =
        cuMemRangeGetAttribute(values[i], value_sizes[i], attributes[i], address, size);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
