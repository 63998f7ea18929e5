// Manifests of any content that can be linked to a chain place every byte exactly once.
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/manifest.h"

namespace {

using gpusnap::Manifest;

void check(bool holds) {
  if (!holds) std::abort();
}

// The input is bodies of manifests, newest first, each behind its length in four bytes.
std::vector<Manifest> decode_all(std::span<const std::byte> input) {
  std::vector<Manifest> chain;
  uint32_t size = 0;
  while (input.size() >= sizeof size) {
    std::memcpy(&size, input.data(), sizeof size);
    input = input.subspan(sizeof size);
    if (size > input.size()) break;
    const auto header =
        gpusnap::encode_manifest_header({size, gpusnap::checksum(input.first(size))});
    std::vector<std::byte> file(header.begin(), header.end());
    file.insert(file.end(), input.begin(), input.begin() + size);
    auto manifest = gpusnap::decode_manifest(file);
    if (!manifest.ok()) break;
    chain.push_back(std::move(manifest.value()));
    input = input.subspan(size);
  }
  return chain;
}

void check_cover(const std::vector<Manifest>& chain,
                 const std::vector<gpusnap::PlacedExtent>& pieces) {
  std::vector<uint64_t> found(chain.front().ranges.size());
  for (const gpusnap::PlacedExtent& piece : pieces) {
    const gpusnap::Extent& extent = chain.at(piece.member).extents.at(piece.extent);
    check(piece.size > 0 && piece.within + piece.size <= extent.size);
    check(piece.offset + piece.size <= chain.front().ranges.at(piece.range).size);
    found[piece.range] += piece.size;
  }
  for (size_t i = 0; i < found.size(); ++i) check(found[i] == chain.front().ranges[i].size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<Manifest> chain = decode_all(std::as_bytes(std::span(data, size)));
  bool linked = !chain.empty() && chain.back().parent == 0;
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const auto link = gpusnap::check_link(chain[i], chain[i + 1], chain[i].parent_checksum);
    check(link.ok() || !link.message().empty());
    linked = linked && link.ok();
  }
  if (chain.empty()) return 0;
  const auto pieces = gpusnap::place_extents(chain);
  // A chain with good links can be read.
  check(pieces.ok() || !linked);
  if (pieces.ok()) check_cover(chain, pieces.value());
  return 0;
}
