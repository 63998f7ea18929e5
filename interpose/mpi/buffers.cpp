#include "interpose/mpi/buffers.h"

#include <algorithm>
#include <cstring>

namespace gpusnap::mpi {

Span span_of(const Library& library, const Buffer& buffer) {
  intptr_t lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (buffer.count <= 0 || library.type_extent(buffer.type, &lower, &extent) != kSuccess ||
      library.type_true_extent(buffer.type, &true_lower, &true_extent) != kSuccess) {
    return {};
  }
  // An extent may be less than nothing: then the last item is the first in memory.
  const int64_t others = (buffer.count - 1) * extent;
  return {true_lower + std::min<int64_t>(others, 0),
          static_cast<uint64_t>(true_extent + std::max(others, -others))};
}

Stand Stand::aside_of(const Span& span, const Buffer& buffer) {
  Stand stand(span);
  stand.behind_ = static_cast<std::byte*>(buffer.start) + span.offset;
  stand.before_.assign(stand.behind_, stand.behind_ + span.bytes);
  stand.bytes_ = stand.before_;
  return stand;
}

// Not what lies in gaps, nor what a shorter message has not filled: that may have changed
// meanwhile.
void Stand::give_back() const {
  for (size_t i = 0; i < before_.size(); ++i) {
    if (bytes_[i] != before_[i]) behind_[i] = bytes_[i];
  }
}

// Their number, in two of the values; then four of them a value.
Values values_of(const std::vector<std::byte>& bytes) {
  const uint64_t size = bytes.size();
  Values values(2 + (size + sizeof(int32_t) - 1) / sizeof(int32_t));
  std::memcpy(values.data(), &size, sizeof size);
  if (size != 0) std::memcpy(values.data() + 2, bytes.data(), size);
  return values;
}

Status bytes_of(const Values& values, std::byte* to, uint64_t expected) {
  uint64_t size = 0;
  if (values.size() >= 2) std::memcpy(&size, values.data(), sizeof size);
  if (values.size() < 2 || size > (values.size() - 2) * sizeof(int32_t)) {
    return {Code::kDamaged,
            "the replay journal is damaged: a message out of device memory has no bytes"};
  }
  if (size != expected) {
    return {Code::kInvalid, "expected a message of " + std::to_string(size) +
                                " bytes out of device memory, got one of " +
                                std::to_string(expected)};
  }
  if (size != 0) std::memcpy(to, values.data() + 2, size);
  return {};
}

}  // namespace gpusnap::mpi
