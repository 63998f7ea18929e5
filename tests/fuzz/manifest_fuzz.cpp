// A manifest of any content is refused, or is one that can be used without a further check.
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/manifest.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

// A reader takes this for granted when it decompresses the block.
void check_block(const gpusnap::Extent& extent) {
  check(gpusnap::is_form(static_cast<uint8_t>(extent.form)));
  check(extent.block_bytes <= gpusnap::kMostBlockBytes);
  check(extent.block_stored > 0 && extent.block_stored < extent.block_bytes);
  check(extent.within <= extent.block_bytes);
  check(extent.size <= extent.block_bytes - extent.within);
}

// They lie one after the other, and each of its bytes is found in it.
void check_parts(const gpusnap::Extent& extent) {
  uint64_t at = 0;
  for (size_t i = 0; i < extent.part_count(); ++i) {
    const gpusnap::Extent::Part part = extent.part(i);
    check(part.begin == at && part.end > at && part.end <= extent.size);
    check(extent.part_at(part.begin) == i && extent.part_at(part.end - 1) == i);
    at = part.end;
  }
  check(at == extent.size);
}

void try_manifest(std::span<const std::byte> bytes) {
  const auto manifest = gpusnap::decode_manifest(bytes);
  if (!manifest.ok()) {
    check(!manifest.status().message().empty());
    return;
  }
  std::vector<uint64_t> saved(manifest->ranges.size());
  for (const gpusnap::Extent& extent : manifest->extents) {
    const gpusnap::SavedRange& range = manifest->ranges.at(extent.range);
    const gpusnap::SegmentRef& segment = manifest->segments.at(extent.segment);
    check(extent.offset + extent.size <= range.size);
    check(extent.segment_offset + extent.stored() <= segment.size);
    if (extent.form != gpusnap::Form::kStored) check_block(extent);
    check_parts(extent);
    saved[extent.range] += extent.size;
  }
  check(manifest->own_bytes() <= manifest->bytes());
  check((manifest->parent == 0) == (manifest->chain == 0));
  for (size_t i = 0; i < saved.size(); ++i) {
    const gpusnap::SavedRange& range = manifest->ranges[i];
    check(saved[i] == range.size ||
          (saved[i] < range.size && manifest->parent != 0 && !range.fresh && range.life != 0));
  }
  check(gpusnap::decode_manifest(gpusnap::encode(manifest.value())).ok());
}

}  // namespace

// The input is tried as a file, and as the body of one whose header is good.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  try_manifest(input);
  const auto header = gpusnap::encode_manifest_header({size, gpusnap::checksum(input)});
  std::vector<std::byte> file(header.begin(), header.end());
  file.insert(file.end(), input.begin(), input.end());
  try_manifest(file);
  return 0;
}
