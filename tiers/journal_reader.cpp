// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/journal.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// The frames of one part.
class PartReader {
 public:
  PartReader(std::unique_ptr<ReadableFile> file, std::string path, JournalPart part)
      : file_(std::move(file)), path_(std::move(path)), part_(std::move(part)) {}

  Status check_start() {
    if (file_->size() < part_.file_bytes || part_.file_bytes < kJournalHeaderBytes) {
      return damaged("it has " + std::to_string(file_->size()) + " bytes instead of " +
                     std::to_string(std::max<uint64_t>(part_.file_bytes, kJournalHeaderBytes)));
    }
    std::array<std::byte, kJournalHeaderBytes> header{};
    if (Status read = file_->read(0, header); !read.ok()) return read;
    const Status good = check_journal_header(header, part_.file);
    if (!good.ok()) return wrong(good.code(), good.message());
    at_ = kJournalHeaderBytes;
    return {};
  }

  bool at_end() const { return at_ == part_.file_bytes; }

  // The part as a whole is what the manifest says.
  Status check_end() const {
    if (stream_bytes_ == part_.stream_bytes && entries_ == part_.entries) return {};
    return damaged("it holds " + std::to_string(stream_bytes_) + " bytes in " +
                   std::to_string(entries_) + " entries instead of " +
                   std::to_string(part_.stream_bytes) + " in " + std::to_string(part_.entries));
  }

  // Puts the raw bytes of the next frame behind those in `raw`, which are the part's so far, or the
  // end of them. If the frame repeats, it gives the header and puts none.
  Status next(ZSTD_DCtx* zstd, std::vector<std::byte>& stored, std::vector<std::byte>& raw,
              FrameHeader& repeat) {
    const uint64_t left = part_.file_bytes - at_;
    std::array<std::byte, kFrameHeaderBytes> bytes{};
    if (left < bytes.size()) return damaged_frame("it is cut off");
    if (Status read = file_->read(at_, bytes); !read.ok()) return read;
    const Result<FrameHeader> header = decode_frame_header(bytes);
    if (!header.ok()) return damaged_frame(header.status().message());
    if (header->stored_bytes > left - bytes.size()) return damaged_frame("it is cut off");
    if (header->stream_offset != stream_bytes_ || header->first_entry != entries_) {
      return damaged_frame("it is out of order");
    }
    if (header->distance != 0) {
      repeat = header.value();
      return begin_repeat(repeat, raw);
    }
    stored.resize(header->stored_bytes);
    if (Status read = file_->read(at_ + bytes.size(), stored); !read.ok()) return read;
    if (checksum(stored) != header->stored_checksum) return damaged_frame("its checksum is wrong");
    if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != header->raw_bytes) {
      return damaged_frame("its length is not that of its content");
    }
    const size_t before = raw.size();
    raw.resize(before + header->raw_bytes);
    const size_t size = ZSTD_decompressDCtx(zstd, raw.data() + before, header->raw_bytes,
                                            stored.data(), stored.size());
    if (ZSTD_isError(size) != 0 || size != header->raw_bytes) {
      raw.resize(before);
      return damaged_frame("its content cannot be decompressed");
    }
    pass(header.value());
    return {};
  }

 private:
  Status begin_repeat(const FrameHeader& repeat, std::span<const std::byte> known) {
    if (repeat.distance > known.size()) return damaged_frame("it repeats more than there was");
    if (repeat.raw_bytes > part_.stream_bytes - std::min(part_.stream_bytes, stream_bytes_)) {
      return damaged_frame("it is longer than its part");
    }
    const auto source = known.last(repeat.distance).first(repeat.source_bytes());
    if (checksum(source) != repeat.stored_checksum) {
      return damaged_frame("it repeats other bytes than there were");
    }
    pass(repeat);
    return {};
  }

  void pass(const FrameHeader& header) {
    stream_bytes_ += header.raw_bytes;
    entries_ += header.entries;
    at_ += kFrameHeaderBytes + header.stored_bytes;
  }

  Status wrong(Code code, const std::string& why) const {
    return {code, "journal part " + path_ + " cannot be used: " + why};
  }
  Status damaged(const std::string& why) const { return wrong(Code::kDamaged, why); }
  Status damaged_frame(const std::string& why) const {
    return damaged("the frame at byte " + std::to_string(at_) + ": " + why);
  }

  std::unique_ptr<ReadableFile> file_;
  const std::string path_;
  const JournalPart part_;
  uint64_t at_ = 0;            // bytes of the file that were read
  uint64_t stream_bytes_ = 0;  // and what they held
  uint64_t entries_ = 0;
};

class Reader final : public JournalReader {
 public:
  Reader() : zstd_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (!zstd_) throw std::bad_alloc();
  }

  Status add(FileSystem& files, const std::string& folder, const JournalPart& part) {
    const std::string path = folder + "/" + part.file;
    if (!is_plain_name(part.file)) {
      return {Code::kDamaged, "a journal part in " + folder + " has no plain name"};
    }
    Result<std::unique_ptr<ReadableFile>> file = files.open(path);
    if (!file.ok()) return file.status();
    parts_.emplace_back(std::move(file.value()), path, part);
    total_bytes_ += part.stream_bytes;
    total_entries_ += part.entries;
    return parts_.back().check_start();
  }

  Status read(std::span<std::byte> bytes) override {
    return no_throw("read the journal", [&] { return read_all(bytes); });
  }
  uint64_t total_bytes() const override { return total_bytes_; }
  uint64_t total_entries() const override { return total_entries_; }

 private:
  Status read_all(std::span<std::byte> bytes) {
    if (!status_.ok()) return status_;
    size_t done = 0;
    while (done < bytes.size()) {
      if (next_ == end_) {
        Status next = next_frame();
        if (next.code() == Code::kNotFound && done > 0) {
          next = Status(Code::kDamaged, "the journal ends inside an entry");
        }
        if (!next.ok()) return status_ = std::move(next);
      }
      const size_t count = std::min(bytes.size() - done, static_cast<size_t>(end_ - next_));
      if (count > 0) std::memcpy(bytes.data() + done, take(count), count);
      done += count;
    }
    return {};
  }

  // Makes more to read, or nothing of an empty frame. kNotFound at the stream's end.
  Status next_frame() {
    next_ = end_ = nullptr;
    if (repeat_.raw_bytes != 0 && repeat_again()) return {};
    forget_old();
    const size_t before = raw_.size();
    Status more = add_frame();
    if (!more.ok()) return more;
    // All of it is new where another part has begun.
    next_ = raw_.data() + (part_began_ ? 0 : before);
    end_ = raw_.data() + raw_.size();
    return {};
  }

  Status add_frame() {
    part_began_ = false;
    if (repeat_.raw_bytes != 0) return repeat_more();
    repeated_ = 0;
    while (part_ < parts_.size() && parts_[part_].at_end()) {
      if (Status end = parts_[part_].check_end(); !end.ok()) return end;
      ++part_;
      raw_.clear();
      part_began_ = true;
    }
    if (part_ == parts_.size()) return {Code::kNotFound, "the journal has no more entries"};
    return parts_[part_].next(zstd_.get(), stored_, raw_, repeat_);
  }

  // The bytes that frames may repeat stay.
  void forget_old() {
    if (raw_.size() <= 2 * size_t{kMostRepeatDistance}) return;
    raw_.erase(raw_.begin(), raw_.end() - kMostRepeatDistance);
  }

  // So many bytes of a run that follow each other, as a multiple of its distance where it is
  // possible.
  uint32_t piece_of_repeat() const {
    constexpr uint32_t kPiece = 256 << 10;
    const uint32_t turns = std::max(kPiece / repeat_.distance, 1U);
    return std::min(repeat_.raw_bytes, turns * repeat_.distance);
  }

  // In the middle of a long run the bytes that are to come lie there already.
  bool repeat_again() {
    const uint32_t now = piece_of_repeat();
    if (repeated_ < now || repeat_.raw_bytes - now < kMostRepeatDistance) return false;
    next_ = raw_.data() + raw_.size() - now;
    end_ = raw_.data() + raw_.size();
    repeat_.raw_bytes -= now;
    return true;
  }

  Status repeat_more() {
    const size_t end = raw_.size();
    const uint32_t now = piece_of_repeat();
    repeated_ += now;
    raw_.resize(end + now);
    const std::byte* const source = raw_.data() + end - repeat_.distance;
    // Each copy makes the bytes that can be copied at once more.
    for (size_t done = 0; done < now;) {
      const size_t count = std::min<size_t>(repeat_.distance + done, now - done);
      std::memcpy(raw_.data() + end + done, source, count);
      done += count;
    }
    repeat_.raw_bytes -= now;
    return {};
  }

  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd_;
  std::vector<PartReader> parts_;
  size_t part_ = 0;
  std::vector<std::byte> stored_;
  std::vector<std::byte> raw_;  // the part's stream so far, or the end of it
  bool part_began_ = false;     // with the last frame
  FrameHeader repeat_;          // has raw_bytes that are still to come
  uint64_t repeated_ = 0;       // bytes of it at the end of raw_
  uint64_t total_bytes_ = 0;
  uint64_t total_entries_ = 0;
  Status status_;  // the first failure, for good
};

}  // namespace

Result<std::unique_ptr<JournalReader>> JournalReader::open(FileSystem& files,
                                                           const std::string& folder,
                                                           std::vector<JournalPart> parts) {
  return no_throw("open the journal", [&]() -> Result<std::unique_ptr<JournalReader>> {
    auto reader = std::make_unique<Reader>();
    for (const JournalPart& part : parts) {
      if (Status added = reader->add(files, folder, part); !added.ok()) return added;
    }
    return std::unique_ptr<JournalReader>(std::move(reader));
  });
}

}  // namespace gpusnap
