// A compressed block of any content is refused, or is decompressed into exactly the bytes of its
// size. And every input, as a block, comes back from each form.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "tiers/compression/codec.h"

namespace {

constexpr size_t kMost = 1 << 16;

void check(bool holds) {
  if (!holds) std::abort();
}

gpusnap::Decompressor& decompressor() {
  static const auto made = gpusnap::Decompressor::make(kMost, 20);
  return *made.value();
}

gpusnap::Compressor& compressor() {
  static const auto made = gpusnap::Compressor::make({}, kMost);
  return *made.value();
}

// One byte for the form, two for the block's size, then what is stored.
void decompress_any(std::span<const std::byte> input) {
  constexpr size_t kHead = 3;
  if (input.size() < kHead) return;
  const auto form = static_cast<gpusnap::Form>(std::to_integer<uint8_t>(input[0]));
  const size_t size = std::to_integer<size_t>(input[1]) + (std::to_integer<size_t>(input[2]) << 8);
  // The block has exactly this size, so that the sanitizers see a write past its end.
  std::vector<std::byte> block(size);
  const auto status = decompressor().decompress(form, input.subspan(kHead), block);
  check(status.ok() ? gpusnap::is_form(static_cast<uint8_t>(form)) && size > 0
                    : !status.message().empty());
}

void round_trip(std::span<const std::byte> block) {
  if (block.empty() || block.size() > kMost) return;
  static std::vector<std::byte> stored(2 * kMost);
  std::vector<std::byte> again(block.size());
  for (const gpusnap::Form form : gpusnap::kCompressedForms) {
    const auto size = compressor().compress(form, block, stored);
    check(size.ok() && size.value() > 0);
    check(decompressor().decompress(form, std::span(stored).first(size.value()), again).ok());
    check(std::equal(block.begin(), block.end(), again.begin()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  decompress_any(input);
  round_trip(input);
  return 0;
}
