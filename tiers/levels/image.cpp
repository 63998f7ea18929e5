// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/image.h"

#include <algorithm>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/levels/byte_coder.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/store.h"

namespace gpusnap::levels {

namespace {

constexpr std::string_view kMagic = "GPUSNAPI";
constexpr size_t kFixedBytes = 8 + 4 + 8;
constexpr size_t kMostTableBytes = 64 << 20;
constexpr uint64_t kMostManifestBytes = uint64_t{4} << 30;
constexpr size_t kLongestName = 255;

std::string folder_of(const PartPlace& place) {
  return place.job_folder + "/" + epoch_folder(place.epoch);
}

std::vector<std::byte> encode(const std::vector<ImageFile>& files) {
  ByteWriter table;
  table.number(static_cast<uint32_t>(files.size()));
  for (const ImageFile& file : files) {
    table.number(static_cast<uint8_t>(file.kind)).text(file.name).number(file.bytes);
  }
  ByteWriter head;
  head.raw(std::as_bytes(std::span(kMagic))).number(static_cast<uint32_t>(table.bytes().size()));
  return head.number(checksum(table.bytes())).raw(table.bytes()).take();
}

Status wrong_image() {
  return damaged("what shards were put together to is no checkpoint's part");
}

bool is_file_of(const PartPlace& place, const ImageFile& file, bool is_first) {
  if (is_first != (file.kind == FileOf::kManifest)) return false;
  switch (file.kind) {
    case FileOf::kManifest:
      return file.name == manifest_name(place.rank) && file.bytes <= kMostManifestBytes;
    case FileOf::kSegment: {
      const auto segment = parse_segment_name(file.name);
      return segment && segment->rank == place.rank;
    }
    case FileOf::kJournal:
      return is_journal_name(file.name);
  }
  return false;
}

Result<std::vector<ImageFile>> decode_table(const PartPlace& place,
                                            std::span<const std::byte> bytes, uint64_t file_bytes) {
  ByteReader reader(bytes);
  std::vector<ImageFile> files;
  uint64_t sum = 0;
  const auto count = reader.number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    ImageFile file;
    file.kind = static_cast<FileOf>(reader.number<uint8_t>());
    file.name = reader.text(kLongestName);
    file.bytes = reader.number<uint64_t>();
    if (!reader.ok() || !is_file_of(place, file, i == 0) || file.bytes > file_bytes - sum) {
      return wrong_image();
    }
    sum += file.bytes;
    files.push_back(std::move(file));
  }
  if (!reader.is_whole() || files.empty() || sum != file_bytes) return wrong_image();
  return files;
}

}  // namespace

Status ImageReader::add(FileSystem& files, const std::string& path, ImageFile what,
                        std::vector<ImageFile>& table) {
  auto file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  if (what.kind == FileOf::kManifest) what.bytes = size;
  const bool is_right = what.kind == FileOf::kJournal ? size >= what.bytes : size == what.bytes;
  if (!is_right) return damaged(path + " has not as many bytes as its manifest says");
  sources_.push_back({std::move(file.value()), what.bytes});
  table.push_back(std::move(what));
  return {};
}

Result<std::unique_ptr<ImageReader>> ImageReader::open(FileSystem& files, const PartPlace& place) {
  std::unique_ptr<ImageReader> image(new ImageReader());
  std::vector<ImageFile> table;
  image->sources_.push_back({});
  const std::string folder = folder_of(place) + "/";
  // Opened before it is read: a merge may put another one in its place, which names other segments.
  Status added = image->add(files, folder + manifest_name(place.rank),
                            {FileOf::kManifest, manifest_name(place.rank), 0}, table);
  if (!added.ok()) return added;
  std::vector<std::byte> bytes(image->sources_.back().bytes);
  if (Status read = image->sources_.back().file->read(0, bytes); !read.ok()) return read;
  auto manifest = decode_manifest(bytes);
  if (!manifest.ok()) return manifest.status();
  image->manifest_ = std::move(manifest.value());
  image->manifest_checksum_ = checksum(bytes);
  for (const SegmentRef& segment : image->manifest_.segments) {
    added = image->add(files, folder + segment.file, {FileOf::kSegment, segment.file, segment.size},
                       table);
    if (!added.ok()) return added;
  }
  for (const JournalPart& part : image->manifest_.journal) {
    added = image->add(files, place.job_folder + "/" + part.file,
                       {FileOf::kJournal, part.file, part.file_bytes}, table);
    if (!added.ok()) return added;
  }
  image->head_ = encode(table);
  image->sources_.front().bytes = image->head_.size();
  for (const Source& source : image->sources_) image->bytes_ += source.bytes;
  return image;
}

Status ImageReader::read(std::span<std::byte> to) {
  while (!to.empty()) {
    if (source_ == sources_.size()) return {Code::kInvalid, "an image is not as long"};
    const Source& source = sources_[source_];
    const auto now = static_cast<size_t>(std::min<uint64_t>(source.bytes - at_, to.size()));
    if (source.file == nullptr) {
      std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(at_), now, to.begin());
    } else if (Status read = source.file->read(at_, to.first(now)); !read.ok()) {
      return read;
    }
    at_ += now;
    to = to.subspan(now);
    if (at_ == source.bytes) {
      ++source_;
      at_ = 0;
    }
  }
  return {};
}

ImageWriter::ImageWriter(FileSystem& files, PartPlace place, uint64_t image_bytes)
    : files_(files), place_(std::move(place)), left_(image_bytes) {}

ImageWriter::~ImageWriter() {
  if (finished_) return;
  file_.reset();
  if (!temporary_.empty()) (void)files_.remove(temporary_);
  for (const std::string& path : made_) (void)files_.remove(path);
  (void)files_.remove_folder(folder_of(place_));
}

Status ImageWriter::add(std::span<const std::byte> bytes) {
  bytes = bytes.first(static_cast<size_t>(std::min<uint64_t>(left_, bytes.size())));
  while (!bytes.empty()) {
    const uint64_t wanted = table_.empty() ? missing_of_head() : left_in_file_;
    const auto now = static_cast<size_t>(std::min<uint64_t>(wanted, bytes.size()));
    if (now == 0) return wrong_image();
    left_ -= now;
    const auto some = bytes.first(now);
    if (Status taken = table_.empty() ? add_to_head(some) : add_to_file(some); !taken.ok()) {
      return taken;
    }
    bytes = bytes.subspan(now);
  }
  return {};
}

// Bytes: first of what says how long the table is, then of the table.
uint64_t ImageWriter::missing_of_head() const {
  if (head_.size() < kFixedBytes) return kFixedBytes - head_.size();
  const auto table =
      ByteReader(std::span<const std::byte>(head_).subspan(kMagic.size())).number<uint32_t>();
  return table > kMostTableBytes ? 0 : kFixedBytes + table - head_.size();
}

Status ImageWriter::add_to_head(std::span<const std::byte> bytes) {
  head_.insert(head_.end(), bytes.begin(), bytes.end());
  const bool has_table = head_.size() > kFixedBytes && missing_of_head() == 0;
  return has_table ? take_head() : Status();
}

Status ImageWriter::add_to_file(std::span<const std::byte> bytes) {
  left_in_file_ -= bytes.size();
  if (Status done = put(bytes); !done.ok()) return done;
  return left_in_file_ == 0 ? end_file() : Status();
}

Status ImageWriter::take_head() {
  const auto magic = std::as_bytes(std::span(kMagic));
  if (head_.size() < kFixedBytes ||
      !std::ranges::equal(std::span(head_).first(magic.size()), magic)) {
    return wrong_image();
  }
  const std::span<const std::byte> head = head_;
  ByteReader reader(head.subspan(magic.size()));
  (void)reader.number<uint32_t>();
  const auto sum = reader.number<uint64_t>();
  if (checksum(reader.rest()) != sum) return wrong_image();
  auto table = decode_table(place_, reader.rest(), left_);
  if (!table.ok()) return table.status();
  table_ = std::move(table.value());
  if (Status made = files_.make_folder(folder_of(place_)); !made.ok()) return made;
  current_ = 0;
  return begin_file();
}

std::string ImageWriter::path_of(const ImageFile& file) const {
  const std::string folder = file.kind == FileOf::kJournal ? place_.job_folder : folder_of(place_);
  return folder + "/" + file.name;
}

// A segment of that name is a part's that has no manifest, or a damaged one. A journal that is
// longer has these bytes, too: journals are only appended to.
Status ImageWriter::begin_file() {
  const ImageFile& what = table_[*current_];
  left_in_file_ = what.bytes;
  if (what.kind != FileOf::kManifest) {
    const std::string path = path_of(what);
    const auto there = files_.open(path);
    const bool has_journal =
        what.kind == FileOf::kJournal && there.ok() && there.value()->size() >= what.bytes;
    if (!has_journal) {
      temporary_ = path + ".tmp";
      (void)files_.remove(temporary_);
      auto file = files_.create(temporary_);
      if (!file.ok()) return file.status();
      file_ = std::move(file.value());
    }
  }
  return left_in_file_ == 0 ? end_file() : Status();
}

Status ImageWriter::put(std::span<const std::byte> bytes) {
  if (table_[*current_].kind == FileOf::kManifest) {
    manifest_.insert(manifest_.end(), bytes.begin(), bytes.end());
    return {};
  }
  return file_ != nullptr ? file_->append(bytes) : Status();
}

Status ImageWriter::end_file() {
  const ImageFile& what = table_[*current_];
  if (file_ != nullptr) {
    if (Status synced = file_->sync(); !synced.ok()) return synced;
    file_.reset();
    if (Status named = files_.replace(temporary_, path_of(what)); !named.ok()) return named;
    temporary_.clear();
    if (what.kind == FileOf::kSegment) made_.push_back(path_of(what));
  }
  if (*current_ + 1 == table_.size()) {
    current_.reset();
    return {};
  }
  ++*current_;
  return begin_file();
}

Status ImageWriter::finish() {
  if (left_ != 0 || table_.empty() || current_) return wrong_image();
  const auto manifest = decode_manifest(manifest_);
  if (!manifest.ok()) return manifest.status();
  if (manifest->epoch != place_.epoch || manifest->rank != place_.rank ||
      sanitise_job(manifest->job) != place_.job) {
    return wrong_image();
  }
  for (const std::string& folder : {folder_of(place_), place_.job_folder}) {
    if (Status synced = files_.sync_folder(folder); !synced.ok()) return synced;
  }
  // One that was killed may have left it.
  (void)files_.remove(folder_of(place_) + "/" +
                      temporary_manifest_name(place_.rank, manifest->run));
  PendingManifest pending(files_, folder_of(place_), place_.rank, manifest->run);
  if (Status written = pending.write(manifest_); !written.ok()) return written;
  Status named = pending.replace();
  finished_ = named.ok() || !pending.take_back();
  return named;
}

}  // namespace gpusnap::levels
