// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/part_files.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "tiers/chain.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/part_reader.h"

namespace gpusnap::veloc {

namespace {

std::string job_folder(const std::string& folder, const std::string& name) {
  return folder + "/" + sanitise_job(name);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

int64_t unix_ns() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

SavedRange range_of(const Region& region) {
  SavedRange range;
  range.kind = region.file.empty() ? kProtectedRegion : kRoutedFile;
  range.size = region.bytes;
  range.name = region.file.empty() ? std::to_string(region.id) : region.file;
  return range;
}

std::vector<std::string> segments_of(FileSystem& files, const CheckpointPlace& place) {
  const Result<StoredManifest> stored =
      read_manifest(files, place.job_folder, place.job_folder_name, place.epoch, place.rank);
  std::vector<std::string> names;
  if (!stored.ok()) return names;
  for (const SegmentRef& segment : stored->manifest.segments) names.push_back(segment.file);
  return names;
}

}  // namespace

Result<Layout> layout_of(const Manifest& manifest) {
  if (!manifest.by_program()) {
    return Status(Code::kInvalid, manifest.job + "@" + std::to_string(manifest.epoch) +
                                      " is a checkpoint of a whole program: restore it with "
                                      "'gpusnap restore', or use another folder or name");
  }
  Layout layout;
  for (const SavedRange& range : manifest.ranges) {
    Region region{.bytes = range.size};
    if (range.kind == kRoutedFile) {
      region.file = range.name;
    } else {
      region.id = static_cast<int>(std::strtol(range.name.c_str(), nullptr, 10));
    }
    layout.add(std::move(region));
  }
  return layout;
}

WriteId id_of(const Manifest& manifest) {
  return {manifest.run, manifest.program_write};
}

// ---- Writing

PartWriter::PartWriter(FileSystem& files, CheckpointPlace place, std::string name,
                       const Owner& owner, const WriteId& id)
    : files_(files),
      place_(std::move(place)),
      name_(std::move(name)),
      owner_(owner),
      id_(id),
      commit_(files, place_) {}

Result<std::unique_ptr<PartWriter>> PartWriter::begin(FileSystem& files, const std::string& folder,
                                                      const Owner& owner, const Name& name,
                                                      const WriteId& id, Compression& compression) {
  // Files have names that no other write gives, also none that failed and left some.
  const CheckpointPlace place = {job_folder(folder, name.text), sanitise_job(name.text),
                                 id.run + "w" + std::to_string(id.number), name.version,
                                 owner.rank};
  std::unique_ptr<PartWriter> writer(new PartWriter(files, place, name.text, owner, id));
  if (Status made = writer->commit_.start(); !made.ok()) return made;
  if (Status removed = writer->remove_left(); !removed.ok()) return removed;
  auto segments = SegmentStore::start(files, place.epoch_folder_path(),
                                      {place.job_folder_name, place.run, place.epoch, place.rank},
                                      {}, compression, {});
  if (!segments.ok()) return segments.status();
  writer->segments_ = std::move(segments.value());
  return writer;
}

// A program that is replayed makes its writes again: one that it had begun may have left files.
Status PartWriter::remove_left() {
  const std::string folder = place_.epoch_folder_path();
  const Result<std::vector<FolderEntry>> entries = files_.entries(folder);
  if (!entries.ok()) return entries.status();
  const std::string pending = temporary_manifest_name(place_.rank, place_.run);
  for (const FolderEntry& entry : entries.value()) {
    const std::optional<SegmentName> segment = parse_segment_name(entry.name);
    const bool is_ours = segment && segment->rank == place_.rank && segment->run == place_.run;
    if (!is_ours && entry.name != pending) continue;
    if (Status removed = files_.remove(folder + "/" + entry.name); !removed.ok()) return removed;
  }
  return {};
}

PartWriter::~PartWriter() {
  if (segments_ == nullptr || is_committed_) return;
  segments_->abandon();
  (void)segments_->finish();
  if (!commit_.unpublish()) return;
  segments_->remove();
  commit_.remove_folder();
}

void PartWriter::add(const Piece& piece, std::span<const std::byte> bytes,
                     std::function<void()> release) {
  SegmentStore::Block block;
  block.sequence = sequence_++;
  block.pieces = {piece};
  block.bytes = bytes;
  block.release = [release = std::move(release)](bool) { release(); };
  std::vector<SegmentStore::Block> blocks;
  blocks.push_back(std::move(block));
  segments_->add(std::move(blocks));
}

Status PartWriter::commit(const Layout& layout) {
  if (Status written = segments_->finish(); !written.ok()) return written;
  Manifest manifest;
  manifest.job = name_;
  manifest.epoch = place_.epoch;
  manifest.rank = place_.rank;
  manifest.ranks = owner_.ranks;
  manifest.run = id_.run;
  manifest.host = host_name();
  manifest.library_version = GPUSNAP_VERSION;
  manifest.cut_unix_ns = unix_ns();
  manifest.program_write = id_.number;
  for (const Region& region : layout.regions()) manifest.ranges.push_back(range_of(region));
  manifest.extents = std::move(segments_->extents());
  manifest.segments = segments_->segments();
  std::vector<std::string> replaced = segments_of(files_, place_);
  std::erase_if(replaced, [&](const std::string& file) {
    return std::ranges::any_of(manifest.segments,
                               [&](const SegmentRef& segment) { return segment.file == file; });
  });
  Status committed = commit_.finish(std::move(manifest), Commit::Existing::kReplace);
  is_committed_ = committed.ok();
  if (is_committed_) remove_replaced(replaced);
  return committed;
}

// Removes an earlier run's segments. A file that stays is removed with the checkpoint.
void PartWriter::remove_replaced(const std::vector<std::string>& segments) {
  for (const std::string& file : segments) {
    (void)files_.remove(place_.epoch_folder_path() + "/" + file);
  }
}

// ---- Reading

Result<Manifest> PartFolder::find(const Name& name, uint32_t rank) const {
  Result<StoredManifest> stored = read_manifest(files_, job_folder(folder_, name.text),
                                                sanitise_job(name.text), name.version, rank);
  if (!stored.ok()) return stored.status();
  return std::move(stored->manifest);
}

Status PartFolder::read(const Name& name, const Manifest& manifest, ReadBuffers& buffers,
                        const TakePieces& take) {
  const std::vector<Manifest> chain = {manifest};
  const Result<std::vector<PlacedExtent>> pieces = place_extents(chain);
  if (!pieces.ok()) return pieces.status();
  return no_throw("read a checkpoint", [&] {
    return read_pieces(files_, {job_folder(folder_, name.text), sanitise_job(name.text)}, chain,
                       pieces.value(), {}, buffers, take);
  });
}

std::vector<uint64_t> PartFolder::versions(const std::string& name) const {
  std::vector<uint64_t> versions;
  const std::string job = job_folder(folder_, name);
  const Result<std::vector<FolderEntry>> entries = files_.entries(job);
  if (!entries.ok()) return versions;
  for (const FolderEntry& entry : entries.value()) {
    const std::optional<uint64_t> version = parse_epoch_folder(entry.name);
    if (!version) continue;
    const auto parts = files_.entries(job + "/" + entry.name);
    const bool has_part = parts.ok() && std::ranges::any_of(parts.value(), [&](const auto& part) {
                            return part.name == manifest_name(owner_.rank);
                          });
    if (has_part) versions.push_back(*version);
  }
  std::ranges::sort(versions, std::greater());
  return versions;
}

// The manifest goes first: without it the other files are nothing.
Status PartFolder::remove(const Name& name) {
  const std::string folder = job_folder(folder_, name.text) + "/" + epoch_folder(name.version);
  const Result<std::vector<FolderEntry>> entries = files_.entries(folder);
  if (entries.status().code() == Code::kNotFound) return {};
  if (!entries.ok()) return entries.status();
  Status removed = files_.remove(folder + "/" + manifest_name(owner_.rank));
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  if (Status synced = files_.sync_folder(folder); !synced.ok()) return synced;
  for (const FolderEntry& entry : entries.value()) {
    if (rank_of_part_file(entry.name) == owner_.rank)
      (void)files_.remove(folder + "/" + entry.name);
  }
  (void)files_.remove_folder(folder);
  return {};
}

}  // namespace gpusnap::veloc
