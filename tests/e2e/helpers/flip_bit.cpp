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
#include <string>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/tiers.h"

namespace {

using gpusnap::Extent;
using gpusnap::Manifest;

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

Extent& extent_at(Manifest& manifest, const Place& place) {
  for (Extent& extent : manifest.extents) {
    if (extent.range == place.range && place.byte >= extent.offset &&
        place.byte - extent.offset < extent.size) {
      return extent;
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

void replace_manifest(const std::string& path, const Manifest& manifest) {
  gpusnap::FileSystem& files = gpusnap::posix_file_system();
  expect(files.remove(path));
  auto file = files.create(path);
  expect(file.status());
  expect(file.value()->append(gpusnap::encode(manifest)));
}

void flip(gpusnap::Store& store, const gpusnap::CheckpointInfo& info, Manifest manifest,
          const Place& place) {
  Extent& extent = extent_at(manifest, place);
  std::vector<std::byte> bytes(extent.size);
  expect(store.read(info, manifest, extent, bytes));
  std::byte& byte = bytes[place.byte - extent.offset];
  byte ^= std::byte{1} << place.bit;
  const std::string folder = store.job_folder(info.job) + "/e" + std::to_string(info.epoch) + "/";
  overwrite(folder + manifest.segments[extent.segment].file,
            extent.segment_offset + (place.byte - extent.offset), byte);
  extent.checksum = gpusnap::checksum(bytes);
  replace_manifest(folder + "r" + std::to_string(manifest.rank) + ".manifest", manifest);
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
  flip(*store.value(), info.value(), manifest, place);
  return 0;
}
