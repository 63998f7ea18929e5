// SPDX-License-Identifier: Apache-2.0
#include "tiers/verify.h"

#include <algorithm>
#include <vector>

#include "tiers/journal.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

constexpr size_t kPiece = 1 << 20;

class Verifier {
 public:
  Verifier(FileSystem& files, const std::string& job_folder, const CheckpointInfo& checkpoint,
           const std::vector<const Manifest*>& ancestors, const Progress& progress,
           VerifyRound& round, const PartReaderOptions& options)
      : files_(files),
        job_folder_(job_folder),
        ancestors_(ancestors),
        checkpoint_(checkpoint),
        progress_(progress),
        round_(round),
        options_(options),
        buffers_(options.reads),
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
    done_ = std::min(done_ + bytes, total_);
    if (progress_) progress_(done_, total_);
  }

  Status segments(const Manifest& manifest) {
    for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
      const std::string path = path_of(manifest, manifest.segments[i]);
      auto known = round_.find(path);
      if (known == round_.end()) known = round_.emplace(path, segment(manifest, i)).first;
      if (!known->second.ok()) return known->second;
    }
    return {};
  }

  Status segment(const Manifest& manifest, uint32_t index) {
    return check_segment(files_, {job_folder_, checkpoint_.job}, manifest, index, options_,
                         buffers_, [this](uint64_t bytes) { advance(bytes); });
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
  const PartReaderOptions& options_;
  PlainReadBuffers buffers_;
  std::vector<std::byte> buffer_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Status verify_files(FileSystem& files, const std::string& job_folder,
                    const CheckpointInfo& checkpoint, const std::vector<const Manifest*>& ancestors,
                    const Progress& progress, VerifyRound& round,
                    const PartReaderOptions& options) {
  return Verifier(files, job_folder, checkpoint, ancestors, progress, round, options).run();
}

}  // namespace gpusnap
