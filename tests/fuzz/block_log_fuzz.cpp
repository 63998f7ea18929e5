// A block log of any content is refused, or ends where its first record does that is not whole;
// what is read of it is written again as the same bytes.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tiers/backend/block_log.h"
#include "tiers/checksum.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void try_log(std::span<const std::byte> bytes) {
  gpusnap::BlockLog log;
  const auto read = gpusnap::decode_block_log(bytes, log);
  if (!read.ok()) return check(!read.status().message().empty());
  check(read.value() <= bytes.size());
  for (const auto& block : log.blocks) {
    check(!block.extents.empty());
    gpusnap::BlockLog again;
    const auto record = gpusnap::encode_log_block(block);
    const auto length = gpusnap::decode_block_log(record, again);
    check(length.ok() && length.value() == record.size() && again.blocks.size() == 1);
    check(gpusnap::encode_log_block(again.blocks[0]) == record);
  }
}

// Gives each record that starts at a known place a good checksum.
void mend(std::span<std::byte> bytes) {
  constexpr size_t kHead = 16;
  for (size_t at = 0; bytes.size() - at >= kHead + 8;) {
    uint32_t payload = 0;
    for (size_t i = 0; i < 4; ++i)
      payload |= std::to_integer<uint32_t>(bytes[at + 12 + i]) << (8 * i);
    const size_t whole = kHead + payload;
    if (bytes.size() - at - 8 < whole) return;
    const uint64_t sum = gpusnap::checksum(std::span<const std::byte>(bytes).subspan(at, whole));
    for (size_t i = 0; i < 8; ++i) bytes[at + whole + i] = static_cast<std::byte>(sum >> (8 * i));
    at += whole + 8;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  try_log(input);
  std::vector<std::byte> mended(input.begin(), input.end());
  mend(mended);
  try_log(mended);
  return 0;
}
