// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/restore_reader.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>
#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/backend/local_copies.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/clock.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// Returns whether both manifests have the same ranges.
bool is_same(const Manifest& one, const Manifest& other) {
  const auto same_range = [](const SavedRange& a, const SavedRange& b) {
    return std::tie(a.kind, a.address, a.size, a.life) ==
           std::tie(b.kind, b.address, b.size, b.life);
  };
  return one.run == other.run && one.epoch == other.epoch && one.rank == other.rank &&
         std::ranges::equal(one.ranges, other.ranges, same_range);
}

uint64_t fingerprint_of(const LocatedPart& located) {
  Checksum all;
  all.add(encode(located.manifest));
  for (const NearChunk& file : located.files) {
    all.add(std::as_bytes(std::span(file.path)));
    all.add(std::as_bytes(std::span(&file.base, 1)));
  }
  return all.value();
}

}  // namespace

RestoreReader::RestoreReader(FileSystem& files, Store& store, Request request,
                             std::unique_ptr<ReadBuffers> buffers)
    : files_(files), store_(store), request_(std::move(request)), buffers_(std::move(buffers)) {}

RestoreReader::~RestoreReader() {
  end_ahead();
}

Status RestoreReader::find() {
  if (reader_ != nullptr) return {};
  return no_throw("prepare to read a checkpoint", [&]() -> Status {
    LocalChunks near;
    Result<Contents> contents = resolve(near);
    if (!contents.ok()) return contents.status();
    return read_from(std::move(contents.value()), std::move(near));
  });
}

Result<Contents> RestoreReader::resolve(LocalChunks& near) {
  if (!is_pending()) return resolve_stored(near);
  Result<Contents> located = resolve_located(near);
  if (located.ok()) return located;
  Result<Contents> stored = resolve_stored(near);
  return stored.ok() || located.status().code() == Code::kNotFound ? std::move(stored)
                                                                   : std::move(located);
}

Result<Contents> RestoreReader::resolve_located(LocalChunks& near) {
  Result<LocatedPart> part =
      request_.locate([this](uint32_t range, uint64_t offset, uint64_t size) {
        return is_needed(range, offset, size);
      });
  if (!part.ok()) return part.status();
  LocatedPart& located = part.value();
  const std::string& name = request_.checkpoint.job;
  const JobPlace job{store_.job_folder(name), sanitise_job(name)};
  places_ = fingerprint_of(located);
  Contents contents;
  contents.chain.push_back(std::move(located.manifest));
  if (Status read = read_chain(files_, job, contents.chain); !read.ok()) return read;
  auto pieces = place_extents(contents.chain);
  if (!pieces.ok()) return pieces.status();
  contents.pieces = std::move(pieces.value());
  // The part's files include its bytes on local devices.
  const auto ancestors = std::span<const Manifest>(contents.chain).subspan(1);
  near = find_copies(files_, request_.ssd, store_.folder(), name, ancestors);
  const Manifest& manifest = contents.chain.front();
  const std::string folder = job.folder + "/" + epoch_folder(manifest.epoch) + "/";
  for (size_t i = 0; i < located.files.size(); ++i) {
    near.add(folder + manifest.segments[i].file, std::move(located.files[i]));
  }
  return contents;
}

Result<Contents> RestoreReader::resolve_stored(LocalChunks& near) {
  const CheckpointInfo* checkpoint = &request_.checkpoint;
  Result<CheckpointInfo> found = Status(Code::kNotFound, "");
  if (is_pending()) {
    found = store_.find(checkpoint->id);
    if (!found.ok()) return found.status();
    checkpoint = &found.value();
    const auto& ranks = checkpoint->ranks;
    if (std::ranges::find(ranks, request_.rank, &Manifest::rank) == ranks.end()) {
      return Status(Code::kNotFound, checkpoint->id + " has not come to the store");
    }
  }
  Result<Contents> contents = store_.resolve(*checkpoint, request_.rank);
  if (!contents.ok()) return contents;
  is_in_store_ = true;
  near = find_copies(files_, request_.ssd, store_.folder(), checkpoint->job, contents->chain);
  return contents;
}

// Null if the part is not in flight: the store has its manifest.
const Manifest* RestoreReader::manifest_of_request() const {
  const auto& ranks = request_.checkpoint.ranks;
  const auto own = std::ranges::find(ranks, request_.rank, &Manifest::rank);
  return request_.locate && own != ranks.end() ? &*own : nullptr;
}

// Makes the reader of the bytes that are still needed.
Status RestoreReader::read_from(Contents contents, LocalChunks near) {
  const Manifest* const expected = manifest_of_request();
  if (expected != nullptr && !is_same(*expected, contents.chain.front())) {
    return {Code::kDamaged,
            request_.checkpoint.id + " has become another checkpoint while it was read"};
  }
  if (!contents_.empty() && has_changed(contents_.back().chain.front(), contents.chain.front())) {
    return {Code::kDamaged,
            "what is in memory of " + request_.checkpoint.id + " has changed since it was saved"};
  }
  near.counts = near_.counts;
  reader_.reset();
  contents_.push_back(std::move(contents));
  near_ = std::move(near);
  Contents& now = contents_.back();
  if (taken_bytes_ > 0) now.pieces = needed(now.pieces);
  const std::string& name = request_.checkpoint.job;
  const JobPlace job{store_.job_folder(name), sanitise_job(name)};
  ReadUnits units = units_of(job, now.chain, now.pieces, buffers_->bytes(), &near_);
  PartReaderOptions options;
  options.spawn = request_.spawn;
  options.reads_all_it_can = is_pending();
  reader_ = std::make_unique<UnitReader>(files_, job, options, *buffers_, std::move(units), &near_);
  return {};
}

// A block has the same checksums wherever it lies. Damage in memory cannot be detected at first,
// but bytes that have moved or were located twice must be the same as at first.
bool RestoreReader::has_changed(const Manifest& before, const Manifest& now) const {
  std::map<std::pair<uint32_t, uint64_t>, const Extent*> known;
  for (const Extent& extent : before.extents) known[{extent.range, extent.offset}] = &extent;
  return std::ranges::any_of(now.extents, [&](const Extent& extent) {
    const auto found = known.find({extent.range, extent.offset});
    if (found == known.end() || found->second->size != extent.size) return false;
    const Extent& other = *found->second;
    // A compressed block has one checksum, whatever its size.
    const bool is_comparable = extent.parts.size() == other.parts.size();
    return is_comparable && is_needed(extent.range, extent.offset, extent.size) &&
           (extent.checksum != other.checksum || extent.parts != other.parts);
  });
}

bool RestoreReader::is_needed(uint32_t range, uint64_t offset, uint64_t size) const {
  const auto of_range = taken_.find(range);
  if (of_range == taken_.end()) return true;
  const auto behind = of_range->second.upper_bound(offset);
  return behind == of_range->second.begin() || std::prev(behind)->second < offset + size;
}

std::vector<PlacedExtent> RestoreReader::needed(const std::vector<PlacedExtent>& pieces) const {
  std::vector<PlacedExtent> left;
  for (PlacedExtent piece : pieces) {
    const auto of_range = taken_.find(piece.range);
    while (piece.size > 0 && of_range != taken_.end()) {
      const uint64_t end = piece.offset + piece.size;
      auto next = of_range->second.upper_bound(piece.offset);
      if (next != of_range->second.begin() && std::prev(next)->second > piece.offset) --next;
      if (next == of_range->second.end() || next->first >= end) break;
      if (next->first > piece.offset) {
        left.push_back(piece);
        left.back().size = next->first - piece.offset;
      }
      const uint64_t gone = std::min(next->second, end) - piece.offset;
      piece.within += gone;
      piece.offset += gone;
      piece.size -= gone;
    }
    if (piece.size > 0) left.push_back(piece);
  }
  return left;
}

// Pieces do not overlap. Joins neighbours.
void RestoreReader::note_taken(const ReadPiece& piece) {
  Taken& taken = taken_[piece.range];
  uint64_t end = piece.end();
  taken_bytes_ += piece.size;
  auto next = taken.upper_bound(piece.offset);
  if (next != taken.end() && next->first == end) {
    end = next->second;
    next = taken.erase(next);
  }
  if (next != taken.begin() && std::prev(next)->second == piece.offset) {
    std::prev(next)->second = end;
  } else {
    taken[piece.offset] = end;
  }
}

void RestoreReader::begin() {
  if (!find().ok()) return;
  MakeAheadFiles make;
  if (!request_.ssd.empty()) make = [this] { return make_files(); };
  Result<Join> thread = start_thread(request_.spawn, "read-ahead", [this, make] {
    ahead_status_ = no_throw("read ahead", [&] {
      reader_->read_ahead(make);
      return Status();
    });
  });
  if (thread.ok()) ahead_ = std::move(thread.value());
}

void RestoreReader::stop() {
  if (reader_ != nullptr) reader_->stop_ahead();
}

void RestoreReader::end_ahead() {
  stop();
  if (ahead_) std::exchange(ahead_, {})();
  // Memory ran out at an unknown point: where units lie is not known any more.
  if (!std::exchange(ahead_status_, {}).ok()) reader_.reset();
}

Result<const Contents*> RestoreReader::open() {
  const int64_t began = monotonic_clock().now_ns();
  end_ahead();
  Status found = find();
  waited_ns_ += monotonic_clock().now_ns() - began;
  if (!found.ok()) return found;
  return &std::as_const(contents_).front();
}

Status RestoreReader::read_all(const TakePieces& take) {
  for (;;) {
    const uint64_t places = places_;
    const uint64_t taken = taken_bytes_;
    bool take_failed = false;
    Status read = read_once(take, take_failed);
    if (read.ok() || take_failed || !is_pending()) return read;
    // Bytes have moved since they were located, or cannot be read at all.
    const int64_t began = monotonic_clock().now_ns();
    reader_.reset();
    Status found = find();
    waited_ns_ += monotonic_clock().now_ns() - began;
    if (!found.ok()) return found.code() == Code::kNotFound ? read : found;
    if (is_pending() && places == places_ && taken == taken_bytes_) return read;
  }
}

Status RestoreReader::read_once(const TakePieces& take, bool& take_failed) {
  Clock& clock = monotonic_clock();
  int64_t taking = 0;
  const int64_t began = clock.now_ns();
  const bool notes = is_pending();
  Status failed_take;
  Status read = no_throw("read a checkpoint", [&] {
    return reader_->run(
        [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
          const int64_t now = clock.now_ns();
          // Set until the pieces are recorded, so that no byte is taken twice after a failure.
          take_failed = true;
          Status taken = take(pieces, bytes);
          if (taken.ok() && notes) std::ranges::for_each(pieces, [&](auto& p) { note_taken(p); });
          take_failed = !taken.ok();
          if (take_failed) failed_take = taken;
          taking += clock.now_ns() - now;
          return taken;
        },
        {});
  });
  waited_ns_ += clock.now_ns() - began - taking;
  // An earlier unit may have failed only because it has moved.
  return failed_take.ok() ? read : failed_take;
}

std::unique_ptr<AheadFiles> RestoreReader::make_files() const {
  auto made = std::make_unique<AheadFiles>();
  for (const SsdFolder& folder : request_.ssd) {
    const uint64_t room = unused_on(files_, folder) / request_.shares;
    if (room < buffers_->bytes()) continue;
    auto file = make_file(folder);
    if (file.ok()) made->add(std::move(file.value()), room);
  }
  return made;
}

// After a SIGKILL the file may keep its name. A later backend removes it: it lies in a folder like
// a backend's, and no log names it.
Result<std::unique_ptr<BulkFile>> RestoreReader::make_file(const SsdFolder& folder) const {
  constexpr int kFolders = 3;  // of a store, a job, an epoch
  const CheckpointInfo& checkpoint = request_.checkpoint;
  const std::string own = user_folder(folder.path) + "/restore-" + request_.run;
  const std::string below = own + "/" + store_key(store_.folder()) + "/" +
                            sanitise_job(checkpoint.job) + "/" + epoch_folder(checkpoint.epoch);
  const std::string path = below + "/" + chunk_name({request_.rank, request_.run, 0});
  auto lock = in_folder_of(files_, own + "/lock", [&] { return files_.lock(own + "/lock"); });
  if (!lock.ok()) return lock.status();
  auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, kRoomAhead); });
  const Status removed = file.ok() ? files_.remove(path) : Status();
  remove_empty_folders(files_, below, kFolders);
  (void)files_.remove(own + "/lock");
  lock.value().reset();
  remove_empty_folders(files_, own, 2);
  if (!removed.ok()) return removed;
  return file;
}

}  // namespace gpusnap
