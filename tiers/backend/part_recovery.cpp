// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_recovery.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tiers/direct/direct_chunk.h"
#include "tiers/format.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

// Paths of the part's own files.
struct Files {
  std::multimap<uint32_t, std::string> logs;  // by number
  std::map<uint32_t, std::string> segments;
  std::map<uint32_t, std::string> chunks;
};

uint64_t memory_bytes(const std::vector<SegmentStore::StoredBlock>& blocks) {
  uint64_t bytes = 0;
  for (const SegmentStore::StoredBlock& block : blocks) {
    for (const Extent& extent : block.extents) bytes += extent.size;
  }
  return bytes;
}

class Finder {
 public:
  Finder(FileSystem& files, const CheckpointPlace& place, const PartFolders& folders)
      : files_(files), place_(place), folders_(folders) {}

  Result<FoundPart> find(
      const std::function<void(const std::string& path, const Status& why)>& local_failed) {
    if (Status looked = look_into(folders_.epoch); !looked.ok()) return looked;
    for (const std::string& folder : folders_.chunks) {
      const Status looked = look_into(folder);
      if (!looked.ok() && looked.code() != Code::kNotFound) {
        note_unread(looked);
        local_failed(folder, looked);
      }
    }
    for (const auto& [number, path] : paths_.logs) {
      found_.next_log = number + 1;
      const Status read = read_block_log(files_, path, found_.log);
      const bool local = !path.starts_with(folders_.epoch + "/");
      if (local && read.code() == Code::kIo) {
        note_unread(read);
        local_failed(path, read);
      } else if (!read.ok()) {
        return read;
      }
    }
    if (Status good = settle(found_.log); !good.ok()) return unusable(good.message());
    if (Status named = name_files(); !named.ok()) return named;
    return std::move(found_);
  }

 private:
  void note_unread(const Status& why) {
    if (found_.unread.ok()) found_.unread = why;
  }

  Status look_into(const std::string& folder) {
    const auto entries = files_.entries(folder);
    if (!entries.ok()) return entries.status();
    for (const FolderEntry& entry : entries.value()) {
      if (entry.is_folder) continue;
      const std::string path = folder + "/" + entry.name;
      if (const auto log = parse_block_log_name(entry.name); is_own(log)) {
        paths_.logs.emplace(log->number, path);
      } else if (const auto segment = parse_segment_name(entry.name); is_own(segment)) {
        paths_.segments[segment->number] = path;
      } else if (const auto chunk = parse_chunk_name(entry.name); is_own(chunk)) {
        paths_.chunks[chunk->number] = path;
      } else if (entry.name == temporary_manifest_name(place_.rank, place_.run)) {
        if (Status removed = files_.remove(path); !removed.ok()) return removed;
      }
    }
    return {};
  }

  bool is_own(const std::optional<SegmentName>& name) const {
    return name && name->rank == place_.rank && name->run == place_.run;
  }

  Status name_files() {
    std::map<uint32_t, std::vector<SegmentStore::StoredBlock>> in_chunks;
    for (const SegmentStore::StoredBlock& block : found_.log.blocks) {
      if (block.in_chunk) {
        in_chunks[block.file].push_back(block);
      } else {
        uint64_t& end = found_.segments[block.file][block.offset()];
        end = std::max(end, block.offset() + block.stored());
      }
    }
    for (const MovedChunk& moved : found_.log.moved) {
      found_.segments[moved.segment][moved.base] = moved.base + moved.bytes;
      found_.moved[moved.chunk] = moved;
      in_chunks.erase(moved.chunk);
    }
    for (const auto& [number, stored] : in_chunks) {
      auto blocks = blocks_in_chunk(stored);
      if (!blocks.ok()) return unusable(blocks.status().message());
      const auto path = paths_.chunks.find(number);
      if (path == paths_.chunks.end()) return gone("a chunk on a local tier");
      found_.chunks[number] = {path->second, std::move(blocks.value()), memory_bytes(stored)};
    }
    for (const auto& [number, parts] : found_.segments) {
      if (paths_.segments.count(number) == 0) return gone("a segment that was begun");
    }
    found_.next_segment = keep_only(
        paths_.segments, [&](uint32_t number) { return found_.segments.count(number) > 0; });
    const auto is_known = [&](uint32_t number) {
      return found_.chunks.count(number) + found_.moved.count(number) > 0;
    };
    for (const auto& [number, path] : take_direct_paths()) {
      if (!is_known(number)) found_.direct[number] = path;
      found_.next_direct = number + 1;
    }
    found_.next_chunk = keep_only(paths_.chunks, is_known);
    found_.next_direct = std::max(found_.next_direct, kFirstDirectChunk);
    for (const auto& [number, moved] : found_.moved) {
      uint32_t& next = number < kFirstDirectChunk ? found_.next_chunk : found_.next_direct;
      next = std::max(next, number + 1);
    }
    return {};
  }

  std::map<uint32_t, std::string> take_direct_paths() {
    const auto first = paths_.chunks.lower_bound(kFirstDirectChunk);
    std::map<uint32_t, std::string> direct(first, paths_.chunks.end());
    paths_.chunks.erase(first, paths_.chunks.end());
    return direct;
  }

  Status unusable(const std::string& why) const {
    return {Code::kDamaged, "the block log in " + folders_.epoch + " cannot be used: " + why};
  }
  Status gone(const std::string& what) const {
    if (!found_.unread.ok()) return found_.unread;
    return {Code::kDamaged, what + " of " + folders_.epoch + " is no longer there"};
  }

  // The number after all of them.
  template <class IsNamed>
  uint32_t keep_only(const std::map<uint32_t, std::string>& paths, IsNamed is_named) {
    for (const auto& [number, path] : paths) {
      if (is_named(number)) continue;
      if (found_.unread.ok()) {
        (void)files_.remove(path);
      } else {
        found_.unnamed.push_back(path);
      }
    }
    return paths.empty() ? 0 : paths.rbegin()->first + 1;
  }

  FileSystem& files_;
  const CheckpointPlace& place_;
  const PartFolders& folders_;
  Files paths_;
  FoundPart found_;
};

// Blocks that were being written when that backend died may have left bytes in the gaps, which have
// to be zeros. The gaps are few and small.
Status clear_gaps(FileSystem& files, const std::string& path, const FoundPart::Parts& parts) {
  constexpr uint64_t kMost = 1 << 20;  // bytes at once
  const auto there = files.open(path);
  if (!there.ok()) return there.status();
  std::unique_ptr<BulkFile> file;
  std::vector<std::byte> bytes;
  const std::vector<std::byte> zeros(kMost);
  uint64_t at = kSegmentHeaderBytes;
  for (const auto& [begin, end] : parts) {
    while (at < begin) {
      bytes.resize(std::min(begin - at, kMost));
      if (Status read = there.value()->read(at, bytes); !read.ok()) return read;
      if (std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{}; })) {
        if (!file) {
          auto opened = files.continue_bulk(path);
          if (!opened.ok()) return opened.status();
          file = std::move(opened.value());
        }
        // sync() returns a failure of this write.
        file->write(at, std::span(zeros).first(bytes.size()), [](const Status&) {});
      }
      at += bytes.size();
    }
    at = std::max(at, end);
  }
  return file ? file->sync() : Status();
}

}  // namespace

Result<FoundPart> find_part(
    FileSystem& files, const CheckpointPlace& place, const PartFolders& folders,
    const std::function<void(const std::string& path, const Status& why)>& local_failed) {
  return Finder(files, place, folders).find(local_failed);
}

Status settle_segment(FileSystem& files, const std::string& path, const FoundPart::Parts& parts) {
  if (Status cut = files.shorten(path, end_of(parts)); !cut.ok()) return cut;
  return clear_gaps(files, path, parts);
}

uint64_t end_of(const FoundPart::Parts& parts) {
  uint64_t end = 0;
  for (const auto& [begin, part_end] : parts) end = std::max(end, part_end);
  return end;
}

}  // namespace gpusnap
