// SPDX-License-Identifier: Apache-2.0
//
// Moves the bytes of checkpoints between the program's memory, the caches and the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/veloc/archive.h"
#include "tools/veloc/bounce_buffers.h"
#include "tools/veloc/engine.h"
#include "tools/veloc/layout.h"
#include "tools/veloc/memory.h"
#include "tools/veloc/part_files.h"

namespace gpusnap::veloc {

struct MemoryPlace {
  std::byte* memory = nullptr;  // null: the region is not wanted
  bool is_on_device = false;
};

// A cache's area.
struct Area {
  std::byte* memory = nullptr;
  bool is_on_device = false;
};

// Thread-safe: each lane moves one checkpoint at a time, with a copier and buffers of its own.
class Mover {
 public:
  // Pinned host memory is registered in steps of that many bytes, which begin at multiples of it. A
  // copy does not cross from one into another: drivers refuse that.
  static constexpr uint64_t kPinStep = 32 << 20;

  // Caches are the fastest tiers, in that order; the archive is the last. All outlive it.
  static Result<std::unique_ptr<Mover>> create(FileSystem& files, Memory& memory,
                                               std::vector<Area> caches, Archive& archive);

  struct Checkpoint {
    Name name;
    Archive::Written what;
    // Where its files are, by their names, until they are on the last tier; they are removed then.
    std::map<std::string, std::string> files;
    const Layout& layout() const { return what.layout; }
  };
  // Before anything of it moves; again to add files, before it is released.
  void describe(Version version, Checkpoint checkpoint);
  // Where its regions are in the program's memory, in their order: for what the program's thread
  // writes or restores next.
  void set_program_memory(std::vector<MemoryPlace> regions) { program_ = std::move(regions); }

  Moved move(const Transfer& transfer);

 private:
  struct Lane {
    std::unique_ptr<Copier> copier;
    std::unique_ptr<BounceBuffers> buffers;
  };

  Mover(FileSystem& files, std::vector<Area> caches, Archive& archive)
      : files_(files), caches_(std::move(caches)), archive_(archive) {}
  std::shared_ptr<const Checkpoint> checkpoint(Version version) const;
  bool is_files(int tier) const { return tier == static_cast<int>(caches_.size()); }
  MemoryPlace place(int tier, uint64_t cache_offset, const Layout& layout, size_t region) const;

  Moved copy(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane);
  Moved write_files(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane);
  Status write_region(PartWriter& writer, uint32_t region, uint64_t bytes, const MemoryPlace& from,
                      Lane& lane);
  Status write_file(PartWriter& writer, uint32_t region, const std::string& path, Lane& lane);
  Moved read_files(const Transfer& transfer, const Checkpoint& checkpoint, Lane& lane);

  FileSystem& files_;
  const std::vector<Area> caches_;
  Archive& archive_;
  std::vector<Lane> lanes_;
  std::vector<MemoryPlace> program_;
  mutable std::mutex mutex_;
  std::map<Version, std::shared_ptr<const Checkpoint>> checkpoints_;
};

}  // namespace gpusnap::veloc
