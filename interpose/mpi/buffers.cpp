#include "interpose/mpi/buffers.h"

#include <algorithm>
#include <cstring>

namespace gpusnap::mpi {

Handle Types::at(const Library& library, size_t index) const {
  if (of_fortran) return library.type_of(static_cast<const int*>(first)[index]);
  Handle handle = 0;
  std::memcpy(&handle, static_cast<const char*>(first) + index * library.handle_bytes,
              library.handle_bytes);
  return handle;
}

namespace {
Span span_of_items(const Library& library, Handle type, int64_t count) {
  intptr_t lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  if (count <= 0 || library.type_extent(type, &lower, &extent) != kSuccess ||
      library.type_true_extent(type, &true_lower, &true_extent) != kSuccess) {
    return {};
  }
  // An extent may be less than nothing: then the last item is the first in memory.
  const int64_t others = (count - 1) * extent;
  return {true_lower + std::min<int64_t>(others, 0),
          static_cast<uint64_t>(true_extent + std::max(others, -others))};
}

// Both spans, and the bytes between them.
Span hull_of(const Span& a, const Span& b) {
  if (a.bytes == 0) return b;
  if (b.bytes == 0) return a;
  const int64_t first = std::min(a.offset, b.offset);
  const int64_t end =
      std::max(a.offset + static_cast<int64_t>(a.bytes), b.offset + static_cast<int64_t>(b.bytes));
  return {first, static_cast<uint64_t>(end - first)};
}

Span span_of_blocks(const Library& library, const Blocks& blocks, Handle type) {
  const bool typed = blocks.types.first != nullptr;
  intptr_t lower = 0, extent = 1;
  if (!typed && library.type_extent(type, &lower, &extent) != kSuccess) return {};
  Span all;
  for (size_t i = 0; i < blocks.number; ++i) {
    if (blocks.counts[i] <= 0) continue;
    Span one = span_of_items(library, typed ? blocks.types.at(library, i) : type, blocks.counts[i]);
    one.offset += blocks.displacements[i] * extent;
    all = hull_of(all, one);
  }
  return all;
}
}  // namespace

Span span_of(const Library& library, const Buffer& buffer) {
  if (buffer.blocks.number != 0) return span_of_blocks(library, buffer.blocks, buffer.type);
  if (!buffer.behind) return span_of_items(library, buffer.type, buffer.count);
  return {*buffer.behind, static_cast<uint64_t>(std::max<int64_t>(buffer.count, 0))};
}

bool is_dense(const Library& library, const Buffer& buffer) {
  int size = 0;
  return library.type_size(buffer.type, &size) == kSuccess && size > 0 &&
         span_of(library, buffer).bytes == static_cast<uint64_t>(buffer.count * size);
}

BounceBuffer BounceBuffer::aside_of(const Span& span, const Buffer& buffer) {
  BounceBuffer stand(span);
  stand.behind_ = static_cast<std::byte*>(buffer.start) + span.offset;
  stand.begin_again();
  return stand;
}

void BounceBuffer::begin_again() {
  std::copy_n(behind_, bytes_.size(), bytes_.begin());
  begin();
}

// Not what lies in gaps, nor what a shorter message has not filled: that may have changed
// meanwhile.
void BounceBuffer::give_back() {
  if (behind_ == nullptr) return;
  for (size_t i = 0; i < before_.size(); ++i) {
    if (bytes_[i] != before_[i]) behind_[i] = bytes_[i];
  }
  begin();  // once
}

std::vector<Span> BounceBuffer::received(bool dense) const {
  std::vector<Span> runs;
  for (size_t at = 0; at < before_.size(); ++at) {
    if (bytes_[at] == before_[at]) continue;
    const auto place = static_cast<int64_t>(at);
    const bool goes_on =
        !runs.empty() && runs.back().offset + static_cast<int64_t>(runs.back().bytes) == place;
    if (dense && runs.empty()) runs.push_back({0, at});
    if (!goes_on && !dense) runs.push_back({place, 0});
    runs.back().bytes = at + 1 - static_cast<size_t>(runs.back().offset);
  }
  return runs;
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
