// SPDX-License-Identifier: Apache-2.0
//
// The checkpoints of a history in a folder, in the store's own form (docs/file-format.md): a name
// is a job, a version is an epoch, a protected region is a range. So the tool lists, shows,
// verifies and prunes them as any others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/commit.h"
#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"
#include "tiers/store.h"
#include "tools/veloc/layout.h"

namespace gpusnap::veloc {

// A checkpoint as the program names it.
struct Name {
  std::string text;
  uint64_t version = 0;
  auto operator<=>(const Name&) const = default;
  std::string id() const { return text + "@" + std::to_string(version); }
};

// Identifies a write: several runs may write one version, and a run may try several times.
struct WriteId {
  std::string run;      // letters and digits, the same for all ranks of a run of the job
  uint64_t number = 0;  // in the run, from 1
  bool operator==(const WriteId&) const = default;
};
WriteId id_of(const Manifest& manifest);

// The rank that a part belongs to, and the number of ranks in the job.
struct Owner {
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

// The regions that a manifest holds. kInvalid if a program did not write it by itself.
Result<Layout> layout_of(const Manifest& manifest);

// One checkpoint on its way into its files. The destructor removes what was not committed. One
// thread adds and commits.
class PartWriter {
 public:
  static Result<std::unique_ptr<PartWriter>> begin(FileSystem& files, const std::string& folder,
                                                   const Owner& owner, const Name& name,
                                                   const WriteId& id, Compression& compression);
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;
  ~PartWriter();

  // `piece`: which bytes of which region these are, no more than kMostBytes; they stay as they are
  // until `release` was called, once, by any thread.
  static constexpr uint64_t kMostBytes = 4 << 20;
  void add(const Piece& piece, std::span<const std::byte> bytes, std::function<void()> release);
  // Waits until all is written. Durable at return, and in the place of one that was there.
  Status commit(const Layout& layout);

 private:
  PartWriter(FileSystem& files, CheckpointPlace place, std::string name, const Owner& owner,
             const WriteId& id);
  Status remove_left();
  void remove_replaced(const std::vector<std::string>& segments);

  FileSystem& files_;
  const CheckpointPlace place_;
  const std::string name_;
  const Owner owner_;
  const WriteId id_;
  Commit commit_;
  std::unique_ptr<SegmentStore> segments_;
  uint64_t sequence_ = 0;
  bool is_committed_ = false;
};

// The parts of one rank in a folder. Thread-safe, but for one name and version at a time.
class PartFolder {
 public:
  // `files` and `compression` outlive it.
  PartFolder(FileSystem& files, std::string folder, Owner owner, Compression& compression)
      : files_(files), folder_(std::move(folder)), owner_(owner), compression_(compression) {}

  const std::string& folder() const { return folder_; }
  Result<std::unique_ptr<PartWriter>> begin(const Name& name, const WriteId& id) {
    return PartWriter::begin(files_, folder_, owner_, name, id, compression_);
  }
  // The rank's valid manifest, of any run; kNotFound if there is none.
  Result<Manifest> find(const Name& name) const { return find(name, owner_.rank); }
  Result<Manifest> find(const Name& name, uint32_t rank) const;
  // Hands out all bytes, checked, in any order.
  Status read(const Name& name, const Manifest& manifest, ReadBuffers& buffers,
              const TakePieces& take);
  // Versions of which the rank has a manifest, newest first.
  std::vector<uint64_t> versions(const std::string& name) const;
  // The rank's part. Ok if there is none.
  Status remove(const Name& name);

 private:
  FileSystem& files_;
  const std::string folder_;
  const Owner owner_;
  Compression& compression_;
};

}  // namespace gpusnap::veloc
