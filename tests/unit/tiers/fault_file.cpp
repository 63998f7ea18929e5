#include "fault_file.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gpusnap::test {

void FaultFile::put(std::vector<std::byte>& file, uint64_t offset,
                    std::span<const std::byte> bytes) {
  if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<ptrdiff_t>(offset));
}

void FaultFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  put(bytes_, offset, bytes);
  write_on_its_way(offset, bytes);
}

void FaultFile::write_on_its_way(uint64_t offset, std::span<const std::byte> bytes) {
  unsynced_.push_back({offset, {bytes.begin(), bytes.end()}});
}

void FaultFile::sync() {
  settle(std::move(bytes_));
}

void FaultFile::settle(std::vector<std::byte> bytes) {
  durable_ = bytes;
  bytes_ = std::move(bytes);
  unsynced_.clear();
  reserved_ = 0;
}

void FaultFile::lose_nothing() {
  settle(std::move(bytes_));
}

void FaultFile::lose_what_was_not_synced() {
  settle(std::move(durable_));
}

void FaultFile::zero_what_was_not_synced() {
  std::fill(bytes_.begin() + static_cast<ptrdiff_t>(durable_.size()), bytes_.end(), std::byte{0});
  settle(std::move(bytes_));
}

uint64_t FaultFile::some_size(std::mt19937_64& random) const {
  std::vector<uint64_t> sizes{durable_.size(), std::max<uint64_t>(durable_.size(), reserved_)};
  for (const Write& write : unsynced_) {
    sizes.push_back(std::max<uint64_t>(durable_.size(), write.end()));
  }
  return sizes[random() % sizes.size()];
}

void FaultFile::lose_some(std::mt19937_64& random) {
  std::vector<std::byte> left = durable_;
  left.resize(some_size(random));
  std::map<uint64_t, std::vector<const Write*>> versions;  // by block
  for (const Write& write : unsynced_) {
    if (write.bytes.empty()) continue;
    for (uint64_t block = write.offset / kBlock; block <= (write.end() - 1) / kBlock; ++block) {
      versions[block].push_back(&write);
    }
  }
  for (const auto& [block, writes] : versions) {
    const uint64_t reached = random() % (writes.size() + 1);
    for (uint64_t i = 0; i < reached; ++i) {
      const uint64_t begin = std::max(writes[i]->offset, block * kBlock);
      const uint64_t end =
          std::min<uint64_t>({writes[i]->end(), (block + 1) * kBlock, left.size()});
      if (begin >= end) continue;
      put(left, begin, std::span(writes[i]->bytes).subspan(begin - writes[i]->offset, end - begin));
    }
  }
  settle(std::move(left));
}

}  // namespace gpusnap::test
