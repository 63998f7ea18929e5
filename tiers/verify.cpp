#include "tiers/verify.h"

#include <algorithm>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/names.h"
#include "tiers/segment.h"

namespace gpusnap {

namespace {

constexpr size_t kPiece = 1 << 20;

class Verifier {
 public:
  Verifier(FileSystem& files, const std::string& job_folder, const CheckpointInfo& checkpoint,
           const std::vector<const Manifest*>& ancestors, const Progress& progress,
           VerifyRound& round)
      : files_(files),
        job_folder_(job_folder),
        ancestors_(ancestors),
        checkpoint_(checkpoint),
        progress_(progress),
        round_(round),
        buffer_(kPiece) {
    for (const Manifest& manifest : checkpoint.ranks) {
      count(manifest);
      for (const JournalPart& part : manifest.journal) total_ += part.stream_bytes;
    }
    for (const Manifest* ancestor : ancestors) count(*ancestor);
  }

  Status run() {
    for (const Manifest& manifest : checkpoint_.ranks) {
      if (Status good = journal(manifest); !good.ok()) return good;
      if (Status good = segments(manifest); !good.ok()) return good;
    }
    for (const Manifest* ancestor : ancestors_) {
      Status good = segments(*ancestor);
      if (good.ok()) continue;
      return {good.code(), "its ancestor " + checkpoint_.job + "@" +
                               std::to_string(ancestor->epoch) +
                               " cannot be used: " + good.message()};
    }
    return {};
  }

 private:
  void count(const Manifest& manifest) {
    for (const SegmentRef& segment : manifest.segments) {
      if (round_.count(path_of(manifest, segment)) == 0) total_ += segment.size;
    }
  }

  std::string folder_of(const Manifest& manifest) const {
    return job_folder_ + "/" + epoch_folder(manifest.epoch);
  }
  std::string path_of(const Manifest& manifest, const SegmentRef& segment) const {
    return folder_of(manifest) + "/" + segment.file;
  }

  void advance(uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

  Status segments(const Manifest& manifest) {
    for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
      const std::string path = path_of(manifest, manifest.segments[i]);
      auto known = round_.find(path);
      if (known == round_.end()) known = round_.emplace(path, segment(manifest, i, path)).first;
      if (!known->second.ok()) return known->second;
    }
    return {};
  }

  Status segment(const Manifest& manifest, uint32_t index, const std::string& path) {
    const auto file = open_segment(files_, folder_of(manifest), checkpoint_.job, manifest, index);
    if (!file.ok()) return file.status();
    std::vector<Extent> extents;
    std::copy_if(manifest.extents.begin(), manifest.extents.end(), std::back_inserter(extents),
                 [index](const Extent& extent) { return extent.segment == index; });
    std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
      return std::pair(a.segment_offset, a.within) < std::pair(b.segment_offset, b.within);
    });
    uint64_t at = kSegmentHeaderUsedBytes;
    for (const Extent& extent : extents) {
      if (Status zero = zeros(*file.value(), path, at, extent.segment_offset); !zero.ok())
        return zero;
      if (Status good = content(*file.value(), path, extent); !good.ok()) return good;
      at = std::max(at, extent.segment_offset + extent.stored());
    }
    return zeros(*file.value(), path, at, manifest.segments[index].size);
  }

  // Hands the bytes from `from` to `to` over in pieces.
  template <class F>
  Status pieces(const ReadableFile& file, uint64_t from, uint64_t to, F f) {
    while (from < to) {
      const auto piece = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), to - from));
      if (Status read = file.read(from, piece); !read.ok()) return read;
      f(std::span<const std::byte>(piece));
      from += piece.size();
      advance(piece.size());
    }
    return {};
  }

  Status zeros(const ReadableFile& file, const std::string& path, uint64_t from, uint64_t to) {
    bool zero = true;
    Status read = pieces(file, from, to, [&](std::span<const std::byte> bytes) {
      zero = zero && std::all_of(bytes.begin(), bytes.end(),
                                 [](std::byte byte) { return byte == std::byte{0}; });
    });
    if (!read.ok() || zero) return read;
    return {Code::kDamaged, "segment " + path + " is damaged between bytes " +
                                std::to_string(from) + " and " + std::to_string(to) +
                                ": padding is not zero"};
  }

  Status content(const ReadableFile& file, const std::string& path, const Extent& extent) {
    if (extent.form != Form::kStored) {
      extent_.resize(extent.size);
      Status good = reader_.read(file, path, extent, extent_);
      if (extent.within == 0) advance(extent.stored());
      return good;
    }
    sum_.reset();
    const uint64_t end = extent.segment_offset + extent.size;
    Status read = pieces(file, extent.segment_offset, end,
                         [&](std::span<const std::byte> bytes) { sum_.add(bytes); });
    if (!read.ok() || sum_.value() == extent.checksum) return read;
    return wrong_content(path, extent, "the checksum is wrong");
  }

  Status journal(const Manifest& manifest) {
    const auto reader = JournalReader::open(files_, job_folder_, manifest.journal);
    if (!reader.ok()) return reader.status();
    uint64_t left = reader.value()->total_bytes();
    while (left > 0) {
      const auto piece = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), left));
      if (Status read = reader.value()->read(piece); !read.ok()) {
        return {Code::kDamaged, read.message()};
      }
      left -= piece.size();
      advance(piece.size());
    }
    // The reader compares the ends of the parts once it is asked for more.
    Status end = reader.value()->read(std::span(buffer_).first(1));
    if (end.code() == Code::kNotFound) return {};
    return end.ok() ? Status(Code::kDamaged, "the journal is longer than its manifest says") : end;
  }

  FileSystem& files_;
  const std::string& job_folder_;
  const std::vector<const Manifest*>& ancestors_;
  const CheckpointInfo& checkpoint_;
  const Progress& progress_;
  VerifyRound& round_;
  std::vector<std::byte> buffer_;
  Checksum sum_;
  std::vector<std::byte> extent_;  // of a block
  ExtentReader reader_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Status verify_files(FileSystem& files, const std::string& job_folder,
                    const CheckpointInfo& checkpoint, const std::vector<const Manifest*>& ancestors,
                    const Progress& progress, VerifyRound& round) {
  return Verifier(files, job_folder, checkpoint, ancestors, progress, round).run();
}

}  // namespace gpusnap
