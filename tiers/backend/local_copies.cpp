#include "tiers/backend/local_copies.h"

#include <map>
#include <set>
#include <utility>

#include "tiers/backend/block_log.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

using Part = std::pair<uint32_t, std::string>;  // rank, run

class Finder {
 public:
  Finder(FileSystem& files, const std::vector<SsdFolder>& ssd, const std::string& store,
         const std::string& job)
      : files_(files),
        ssd_(ssd),
        store_(store),
        job_(sanitise_job(job)),
        below_("/" + store_key(store) + "/" + job_ + "/") {}

  void look_for(const Manifest& manifest, LocalChunks& found) {
    std::set<Part> parts;
    for (const SegmentRef& segment : manifest.segments) {
      if (const auto name = parse_segment_name(segment.file)) parts.emplace(name->rank, name->run);
    }
    for (const std::string& backend : backends()) {
      look_at_backend(backend, epoch_folder(manifest.epoch), parts, found);
    }
  }

 private:
  // Names of their folders on all devices.
  std::set<std::string> backends() const {
    std::set<std::string> names;
    for (const SsdFolder& folder : ssd_) {
      const auto entries = files_.entries(user_folder(folder.path));
      if (!entries.ok()) continue;
      for (const FolderEntry& entry : entries.value()) {
        if (entry.is_folder) names.insert(entry.name);
      }
    }
    return names;
  }

  // A part's log and its chunks may lie on different devices.
  void look_at_backend(const std::string& backend, const std::string& epoch,
                       const std::set<Part>& parts, LocalChunks& found) const {
    std::map<Part, BlockLog> logs;
    std::map<std::pair<Part, uint32_t>, std::string> chunks;
    for (const SsdFolder& ssd : ssd_) {
      const std::string folder = user_folder(ssd.path) + "/" + backend + below_ + epoch;
      const auto entries = files_.entries(folder);
      if (!entries.ok()) continue;
      for (const FolderEntry& entry : entries.value()) {
        const std::string path = folder + "/" + entry.name;
        if (const auto chunk = parse_chunk_name(entry.name)) {
          chunks[{{chunk->rank, chunk->run}, chunk->number}] = path;
        } else if (const auto log = parse_block_log_name(entry.name)) {
          const Part part{log->rank, log->run};
          if (parts.count(part) > 0) (void)read_block_log(files_, path, logs[part]);
        }
      }
    }
    for (const auto& [part, log] : logs) {
      for (const MovedChunk& moved : log.moved) {
        const auto chunk = chunks.find({part, moved.chunk});
        if (chunk == chunks.end()) continue;
        const std::string segment = store_ + "/" + job_ + "/" + epoch + "/" +
                                    segment_name({part.first, part.second, moved.segment});
        found.add(segment, {chunk->second, moved.base, moved.bytes});
      }
    }
  }

  FileSystem& files_;
  const std::vector<SsdFolder>& ssd_;
  const std::string& store_;
  const std::string job_;
  const std::string below_;
};

}  // namespace

LocalChunks find_copies(FileSystem& files, const std::vector<SsdFolder>& ssd,
                        const std::string& store, const std::string& job,
                        std::span<const Manifest> chain) {
  LocalChunks found;
  if (ssd.empty()) return found;
  (void)no_throw("look for local copies", [&] {
    Finder finder(files, ssd, store, job);
    for (const Manifest& manifest : chain) finder.look_for(manifest, found);
    return Status();
  });
  return found;
}

}  // namespace gpusnap
