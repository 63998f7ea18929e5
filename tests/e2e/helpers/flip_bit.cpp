// Changes one bit of saved device memory and makes all checksums good again: such a checkpoint
// verifies, and only the result of the program that is restored from it can tell.
//
//   flip_bit STORE ID [RANGE [BYTE [BIT]]]
//
// Without RANGE: in the first device allocation of eight bytes or more; without BYTE and BIT: one
// that matters in a number of 32 or 64 bits, integer or floating. Always of rank 0.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/tiers.h"

namespace {

using gpusnap::Contents;
using gpusnap::Extent;
using gpusnap::Manifest;
using gpusnap::PlacedExtent;

struct Place {
  uint32_t range = 0;
  uint64_t byte = 6;
  unsigned bit = 4;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "flip_bit: %s\n", why.c_str());
  std::exit(1);
}

void expect(const gpusnap::Status& status) {
  if (!status.ok()) fail(status.message());
}

uint32_t first_allocation(const Manifest& manifest) {
  for (uint32_t i = 0; i < manifest.ranges.size(); ++i) {
    if (manifest.ranges[i].kind == 0 && manifest.ranges[i].size >= 8) return i;
  }
  fail("there is no allocation of eight bytes or more");
}

PlacedExtent piece_at(const Contents& contents, const Place& place) {
  for (const PlacedExtent& piece : contents.pieces) {
    if (piece.range == place.range && place.byte >= piece.offset &&
        place.byte - piece.offset < piece.size) {
      return piece;
    }
  }
  fail("there is no such byte");
}

void overwrite(const std::string& path, uint64_t offset, std::byte byte) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written =
      fd >= 0 && ::pwrite(fd, &byte, 1, static_cast<off_t>(offset)) == 1 && ::close(fd) == 0;
  if (!written) fail("cannot write " + path);
}

// Gives the checksum of its body.
uint64_t replace_manifest(const std::string& path, const Manifest& manifest) {
  gpusnap::FileSystem& files = gpusnap::posix_file_system();
  expect(files.remove(path));
  auto file = files.create(path);
  expect(file.status());
  const std::vector<std::byte> bytes = gpusnap::encode(manifest);
  expect(file.value()->append(bytes));
  return gpusnap::checksum(std::span(bytes).subspan(gpusnap::kManifestHeaderBytes));
}

void flip(gpusnap::Store& store, const gpusnap::CheckpointInfo& info, Contents contents,
          const Place& place) {
  const auto folder_of = [&](const Manifest& manifest) {
    return store.job_folder(info.job) + "/e" + std::to_string(manifest.epoch) + "/";
  };
  const PlacedExtent piece = piece_at(contents, place);
  Manifest& holder = contents.chain[piece.member];
  Extent& extent = holder.extents[piece.extent];
  std::vector<std::byte> bytes(extent.size);
  expect(store.read(info, holder, extent, bytes));
  const uint64_t within = piece.within + place.byte - piece.offset;
  std::byte& byte = bytes[within];
  byte ^= std::byte{1} << place.bit;
  overwrite(folder_of(holder) + holder.segments[extent.segment].file,
            extent.segment_offset + within, byte);
  const size_t number = extent.part_at(within);
  const Extent::Part part = extent.part(number);
  (extent.parts.empty() ? extent.checksum : extent.parts[number]) =
      gpusnap::checksum(std::span(bytes).subspan(part.begin, part.end - part.begin));
  // Each manifest below it names its parent by the checksum.
  for (size_t i = piece.member + 1; i-- > 0;) {
    Manifest& manifest = contents.chain[i];
    const std::string path =
        folder_of(manifest) + "r" + std::to_string(manifest.rank) + ".manifest";
    const uint64_t sum = replace_manifest(path, manifest);
    if (i > 0) contents.chain[i - 1].parent_checksum = sum;
  }
  std::printf("range %u byte %llu bit %u of %s is now %u\n", place.range,
              static_cast<unsigned long long>(place.byte), place.bit, info.id.c_str(),
              std::to_integer<unsigned>(byte >> place.bit & std::byte{1}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 6) {
    std::fprintf(stderr, "usage: flip_bit STORE ID [RANGE [BYTE [BIT]]]\n");
    return 64;
  }
  const auto store = gpusnap::Store::open(gpusnap::posix_file_system(), argv[1], false);
  expect(store.status());
  const auto info = store.value()->find(argv[2]);
  expect(info.status());
  if (info->ranks.empty()) fail(info->id + " has no manifest");
  const Manifest& manifest = info->ranks.front();
  Place place;
  place.range = argc > 3 ? static_cast<uint32_t>(std::atol(argv[3])) : first_allocation(manifest);
  if (argc > 4) place.byte = static_cast<uint64_t>(std::atoll(argv[4]));
  if (argc > 5) place.bit = static_cast<unsigned>(std::atoi(argv[5])) % 8;
  auto contents = store.value()->resolve(info.value(), manifest.rank);
  expect(contents.status());
  flip(*store.value(), info.value(), std::move(contents.value()), place);
  return 0;
}
