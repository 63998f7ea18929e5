// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/extraction.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

namespace gpusnap {
namespace {

constexpr size_t kOpenFiles = 128;

// Writes that are on their way at the same time. Waits for all before it goes.
class Writes {
 public:
  ~Writes() { (void)wait(); }
  Writes() = default;
  Writes(const Writes&) = delete;
  Writes& operator=(const Writes&) = delete;

  void add(BulkFile& file, uint64_t at, std::span<const std::byte> bytes) {
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
    }
    file.write(at, bytes, [this](const Status& status) {
      const std::lock_guard lock(mutex_);
      if (!status.ok() && failure_.ok()) failure_ = status;
      if (--under_way_ == 0) ended_.notify_all();
    });
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return under_way_ == 0; });
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t under_way_ = 0;
  Status failure_;
};

// The part of the piece within the bytes [begin, end) of its range. Size 0: there is none.
PlacedExtent clip(const PlacedExtent& piece, uint64_t begin, uint64_t end) {
  PlacedExtent part = piece;
  part.offset = std::clamp(begin, piece.offset, piece.offset + piece.size);
  part.size = std::clamp(end, part.offset, piece.offset + piece.size) - part.offset;
  part.within += part.offset - piece.offset;
  return part;
}

}  // namespace

Extraction::Extraction(Store& store, const CheckpointInfo& checkpoint, FileSystem& files,
                       OutputTarget& target, std::vector<ArrayFile>& outputs, Progress progress,
                       std::function<bool()> goes_on)
    : store_(store),
      checkpoint_(checkpoint),
      files_(files),
      target_(target),
      outputs_(outputs),
      progress_(std::move(progress)),
      goes_on_(std::move(goes_on)),
      buffers_(PartReaderOptions().reads) {}

Status Extraction::output(Status status) {
  if (!status.ok()) output_failed_ = true;
  return status;
}

Status Extraction::run() {
  std::map<uint32_t, std::vector<Place>> by_rank;
  for (size_t file = 0; file < outputs_.size(); ++file) {
    const auto& arrays = outputs_[file].arrays();
    for (size_t i = 0; i < arrays.size(); ++i) {
      by_rank[arrays[i]->rank->rank].push_back({file, i, arrays[i]});
      total_ += arrays[i]->bytes;
    }
  }
  for (const auto& [rank, places] : by_rank) {
    if (Status done = extract_rank(rank, places); !done.ok()) return done;
  }
  return {};
}

Status Extraction::extract_rank(uint32_t rank, std::span<const Place> places) {
  Result<Contents> contents = store_.resolve(checkpoint_, rank);
  if (!contents.ok()) return contents.status();
  const std::vector<PlacedExtent> pieces = std::move(contents->pieces);
  while (!places.empty()) {
    const auto some = places.first(std::min(kOpenFiles, places.size()));
    places = places.subspan(some.size());
    of_.assign(contents->chain[0].ranges.size(), std::nullopt);
    for (const Place& place : some) of_[place.of->range] = place;
    contents->pieces = wanted_of(pieces);
    if (Status done = extract_some(contents.value(), some); !done.ok()) return done;
  }
  return {};
}

std::vector<PlacedExtent> Extraction::wanted_of(const std::vector<PlacedExtent>& pieces) const {
  std::vector<PlacedExtent> wanted;
  for (const PlacedExtent& piece : pieces) {
    const std::optional<Place>& place = of_[piece.range];
    if (!place) continue;
    const ExtractedArray& array = *place->of;
    const PlacedExtent part = clip(piece, array.offset, array.offset + array.bytes);
    if (part.size > 0) wanted.push_back(part);
  }
  return wanted;
}

Status Extraction::extract_some(const Contents& wanted, std::span<const Place> places) {
  for (const Place& place : places) {
    if (Status opened = open(place.file); !opened.ok()) return opened;
  }
  Status read =
      store_.read_all(checkpoint_, wanted, buffers_,
                      [this](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
                        return take(pieces, bytes);
                      });
  if (output_failed_) return read;
  if (!read.ok()) {
    return {read.code(), "checkpoint " + checkpoint_.id + " cannot be used: " + read.message()};
  }
  for (const Place& place : places) {
    if (--open_.at(place.file).left > 0) continue;
    if (Status closed = close(place.file); !closed.ok()) return closed;
  }
  return {};
}

Status Extraction::open(size_t file) {
  if (open_.contains(file)) return {};
  const ArrayFile& of = outputs_[file];
  Result<std::unique_ptr<BulkFile>> made =
      files_.create_bulk(target_.begin_file(of.name()), of.bytes());
  if (!made.ok()) return output(made.status());
  open_[file] = {std::move(made.value()), of.arrays().size()};
  return {};
}

Status Extraction::close(size_t file) {
  const std::vector<ArrayFile::Part> parts = outputs_[file].frame();
  BulkFile& to = *open_.at(file).file;
  Writes writes;
  for (const ArrayFile::Part& part : parts) writes.add(to, part.at, part.bytes);
  Status written = writes.wait();
  if (written.ok()) written = to.sync();
  open_.erase(file);
  return output(written);
}

Status Extraction::take(std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
  if (!goes_on_()) return output({Code::kIo, "interrupted: nothing was written"});
  Writes writes;
  for (const ReadPiece& piece : pieces) {
    const Place& place = *of_[piece.range];
    ArrayFile& file = outputs_[place.file];
    const auto data = bytes.subspan(piece.at, piece.size);
    const uint64_t offset = piece.offset - place.of->offset;
    file.note(place.array, offset, data);
    writes.add(*open_.at(place.file).file, file.at(place.array) + offset, data);
    done_ += piece.size;
  }
  if (progress_) progress_(done_, total_);
  return output(writes.wait());
}

}  // namespace gpusnap
