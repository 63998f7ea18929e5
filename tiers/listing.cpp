#include "tiers/listing.h"

#include <algorithm>
#include <map>

#include "tiers/format.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

// FlatBuffers end at 2 GiB.
constexpr uint64_t kMostManifestBytes = (uint64_t{2} << 30) + kManifestHeaderBytes;

using Sizes = std::map<std::string, uint64_t>;  // of files, by name

Sizes sizes_of(const std::vector<FolderEntry>& entries) {
  Sizes sizes;
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder) sizes.emplace(entry.name, entry.size);
  }
  return sizes;
}

// The header is checked before memory is taken for the rest.
Result<Manifest> read_manifest(FileSystem& files, const std::string& path) {
  const Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  if (size > kMostManifestBytes) return Status(Code::kDamaged, "it is longer than it can be");
  std::vector<std::byte> bytes(std::min<uint64_t>(size, kManifestHeaderBytes));
  if (Status read = file.value()->read(0, bytes); !read.ok()) return read;
  const Result<ManifestHeader> header = decode_manifest_header(bytes);
  if (!header.ok()) return header.status();
  if (size - kManifestHeaderBytes == header->body_bytes) {
    bytes.resize(size);
    const auto body = std::span(bytes).subspan(kManifestHeaderBytes);
    if (Status read = file.value()->read(kManifestHeaderBytes, body); !read.ok()) return read;
  }
  return decode_manifest(bytes);
}

// One epoch's folder.
class Epoch {
 public:
  Epoch(FileSystem& files, std::string folder, const std::string& job, uint64_t epoch)
      : files_(files), folder_(std::move(folder)) {
    listed_.info.job = job;
    listed_.info.epoch = epoch;
    listed_.info.id = job + "@" + std::to_string(epoch);
  }

  ListedCheckpoint examine(const std::vector<FolderEntry>& entries, const Sizes& journals,
                           int64_t folder_time) {
    const Sizes sizes = sizes_of(entries);
    for (const FolderEntry& entry : entries) {
      const std::optional<uint32_t> rank = parse_manifest_name(entry.name);
      if (rank && !entry.is_folder) add(entry, *rank);
    }
    CheckpointInfo& info = listed_.info;
    std::sort(info.ranks.begin(), info.ranks.end(),
              [](const Manifest& a, const Manifest& b) { return a.rank < b.rank; });
    for (const Manifest& manifest : info.ranks) {
      check_files(manifest, sizes, journals);
      sum_up(manifest);
    }
    if (info.ranks.empty()) info.time_unix_ns = folder_time;
    judge();
    return std::move(listed_);
  }

 private:
  void problem(Code code, std::string reason) {
    if (listed_.problem.ok()) listed_.problem = Status(code, std::move(reason));
  }

  void add(const FolderEntry& entry, uint32_t rank) {
    Result<Manifest> manifest = read_manifest(files_, folder_ + "/" + entry.name);
    listed_.info.stored_bytes += entry.size;
    if (manifest.status().code() == Code::kNotFound) return;  // pruned meanwhile
    if (!manifest.ok()) {
      listed_.has_unread_manifest = true;
      return problem(manifest.status().code(),
                     "manifest " + folder_ + "/" + entry.name +
                         " cannot be used: " + manifest.status().message());
    }
    const CheckpointInfo& info = listed_.info;
    if (manifest->epoch != info.epoch || manifest->rank != rank ||
        sanitise_job(manifest->job) != info.job) {
      problem(Code::kDamaged, "manifest " + folder_ + "/" + entry.name +
                                  " cannot be used: it is that of another checkpoint");
    } else if (!info.ranks.empty() && info.ranks.front().ranks != manifest->ranks) {
      problem(Code::kDamaged,
              "the manifests in " + folder_ + " do not agree on the number of ranks");
    }
    listed_.info.ranks.push_back(std::move(manifest.value()));
  }

  void check_files(const Manifest& manifest, const Sizes& sizes, const Sizes& journals) {
    for (const SegmentRef& segment : manifest.segments) {
      const auto found = sizes.find(segment.file);
      if (found == sizes.end()) {
        problem(Code::kDamaged, "segment " + folder_ + "/" + segment.file + " is missing");
      } else if (found->second != segment.size) {
        wrong_size("segment " + folder_ + "/" + segment.file, found->second, segment.size);
      }
    }
    for (const JournalPart& part : manifest.journal) {
      const auto found = journals.find(part.file);
      if (found == journals.end()) {
        problem(Code::kDamaged, "journal part " + part.file + " is missing");
      } else if (found->second < part.file_bytes) {
        wrong_size("journal part " + part.file, found->second, part.file_bytes);
      }
    }
  }

  void wrong_size(const std::string& what, uint64_t is, uint64_t expected) {
    problem(Code::kDamaged,
            what + " has " + std::to_string(is) + " bytes instead of " + std::to_string(expected));
  }

  void sum_up(const Manifest& manifest) {
    CheckpointInfo& info = listed_.info;
    info.time_unix_ns = std::max(info.time_unix_ns, manifest.cut_unix_ns);
    info.stall_ns = std::max(info.stall_ns, manifest.stall_ns);
    info.bytes += manifest.bytes();
    for (const SegmentRef& segment : manifest.segments) info.stored_bytes += segment.size;
    for (const JournalPart& part : manifest.journal) info.stored_bytes += part.file_bytes;
  }

  void judge() {
    CheckpointInfo& info = listed_.info;
    if (!listed_.problem.ok()) {
      info.state = CheckpointState::kDamaged;
      info.reason = listed_.problem.message();
    } else if (info.ranks.empty()) {
      info.state = CheckpointState::kPartial;
      info.reason = "it was not committed";
    } else if (info.ranks.size() < info.ranks.front().ranks) {
      info.state = CheckpointState::kPartial;
      info.reason = "only " + std::to_string(info.ranks.size()) + " of " +
                    std::to_string(info.ranks.front().ranks) + " ranks have committed it";
    } else {
      info.state = CheckpointState::kComplete;
    }
  }

  FileSystem& files_;
  const std::string folder_;
  ListedCheckpoint listed_;
};

}  // namespace

Result<std::vector<ListedCheckpoint>> list_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name) {
  std::vector<ListedCheckpoint> listed;
  const Result<std::vector<FolderEntry>> entries = files.entries(job_folder);
  if (entries.status().code() == Code::kNotFound) return listed;
  if (!entries.ok()) return entries.status();
  for (const FolderEntry& entry : entries.value()) {
    const std::optional<uint64_t> epoch = parse_epoch_folder(entry.name);
    if (!epoch || !entry.is_folder) continue;
    const std::string folder = job_folder + "/" + entry.name;
    const Result<std::vector<FolderEntry>> inside = files.entries(folder);
    if (inside.status().code() == Code::kNotFound) continue;  // pruned meanwhile
    if (!inside.ok()) return inside.status();
    listed.push_back(
        Epoch(files, folder, name, *epoch)
            .examine(inside.value(), sizes_of(entries.value()), entry.modified_unix_ns));
  }
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.info.epoch > b.info.epoch; });
  return listed;
}

}  // namespace gpusnap
