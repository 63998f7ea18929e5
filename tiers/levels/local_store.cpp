// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/local_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/levels/byte_coder.h"
#include "tiers/names.h"

namespace gpusnap::levels {

namespace {

constexpr size_t kSumBytes = 8;
constexpr size_t kStoredBlockBytes = kUnitBytes + kSumBytes;
constexpr int kFolderLevels = 3;  // store, job, epoch
constexpr std::string_view kTemporary = ".tmp";

uint64_t file_bytes(const ShardHeader& header) {
  return kShardHeaderBytes + header.blocks() * kStoredBlockBytes;
}

Status about(const std::string& path, const Status& status) {
  if (status.ok()) return status;
  return {status.code(), "shard " + path + ": " + status.message()};
}

class FileWriter final : public ShardWriter {
 public:
  FileWriter(FileSystem& files, std::string path, std::string temporary, ShardHeader header,
             std::unique_ptr<WritableFile> file)
      : files_(files),
        path_(std::move(path)),
        temporary_(std::move(temporary)),
        header_(std::move(header)),
        file_(std::move(file)) {
    stored_.reserve(kStoredBlockBytes);
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() override {
    if (committed_) return;
    file_.reset();
    (void)files_.remove(temporary_);
  }

  Status start() { return file_->append(encode_shard_file_header(header_)); }

  Status add(std::span<const std::byte> block) override {
    if (block.size() != kUnitBytes || added_ == header_.blocks()) {
      return {Code::kInvalid, "a shard gets other blocks than it has"};
    }
    const uint64_t sum = block_checksum(block, added_++);
    stored_.assign(block.begin(), block.end());
    for (size_t i = 0; i < kSumBytes; ++i) {
      stored_.push_back(static_cast<std::byte>(sum >> (8 * i)));
    }
    return file_->append(stored_);
  }

  Status commit() override {
    if (added_ != header_.blocks()) return {Code::kInvalid, "a shard got too few blocks"};
    if (Status synced = file_->sync(); !synced.ok()) return synced;
    file_.reset();
    if (Status named = files_.replace(temporary_, path_); !named.ok()) return named;
    committed_ = true;
    return files_.sync_folder(path_.substr(0, path_.rfind('/')));
  }

 private:
  FileSystem& files_;
  const std::string path_;
  const std::string temporary_;
  const ShardHeader header_;
  std::unique_ptr<WritableFile> file_;
  std::vector<std::byte> stored_;
  uint64_t added_ = 0;
  bool committed_ = false;
};

class FileReader final : public ShardReader {
 public:
  FileReader(std::string path, std::unique_ptr<ReadableFile> file, ShardHeader header)
      : path_(std::move(path)),
        file_(std::move(file)),
        header_(std::move(header)),
        stored_(kStoredBlockBytes) {}

  const ShardHeader& header() const override { return header_; }

  Status next(std::span<std::byte> block) override {
    if (block.size() != kUnitBytes || read_ == header_.blocks()) {
      return {Code::kInvalid, "a shard has no such block"};
    }
    const uint64_t number = read_++;
    if (Status read = file_->read(kShardHeaderBytes + number * kStoredBlockBytes, stored_);
        !read.ok()) {
      return read;
    }
    const auto content = std::span<const std::byte>(stored_).first(kUnitBytes);
    const auto sum = ByteReader(std::span<const std::byte>(stored_).subspan(kUnitBytes));
    if (ByteReader(sum).number<uint64_t>() != block_checksum(content, number)) {
      return about(path_, damaged("the checksum of block " + std::to_string(number) + " is wrong"));
    }
    std::ranges::copy(content, block.begin());
    return {};
  }

 private:
  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  const ShardHeader header_;
  std::vector<std::byte> stored_;
  uint64_t read_ = 0;
};

struct OpenShard {
  std::unique_ptr<ReadableFile> file;
  ShardHeader header;
};

Result<OpenShard> open_shard(FileSystem& files, const std::string& path) {
  auto file = files.open(path);
  if (!file.ok()) return file.status();
  std::array<std::byte, kShardHeaderBytes> bytes{};
  if (Status read = file.value()->read(0, bytes); !read.ok()) return about(path, read);
  auto header = decode_shard_file_header(bytes);
  if (!header.ok()) return about(path, header.status());
  if (file.value()->size() != file_bytes(header.value())) {
    return about(path, damaged("it is not as long as its header says"));
  }
  return OpenShard{std::move(file.value()), std::move(header.value())};
}

std::string path_in(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

}  // namespace

std::string shards_folder(const std::string& ssd_folder) {
  return user_folder(ssd_folder) + "/shards";
}

LocalStore::LocalStore(FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

std::string LocalStore::folder_of(const PartId& part) const {
  return folder_ + "/" + part.store + "/" + part.job + "/" + epoch_folder(part.epoch);
}

// Calls `visit` with each epoch's folder and its entries. Passes over folders that go away
// meanwhile.
template <class Visit>
Status LocalStore::for_each_epoch(const std::string& store, const std::string& job, Visit visit) {
  std::vector<std::string> folders{folder_};
  const std::string only[kFolderLevels] = {store, job, {}};
  for (int level = 0; level <= kFolderLevels; ++level) {
    std::vector<std::string> below;
    for (const std::string& folder : folders) {
      const auto entries = files_.entries(folder);
      if (entries.status().code() == Code::kNotFound) continue;
      if (!entries.ok()) return entries.status();
      if (level == kFolderLevels) {
        visit(folder, entries.value());
        continue;
      }
      for (const FolderEntry& entry : entries.value()) {
        const bool is_wanted = only[level].empty() || only[level] == entry.name;
        if (entry.is_folder && is_wanted) below.push_back(path_in(folder, entry.name));
      }
    }
    folders = std::move(below);
  }
  return {};
}

void LocalStore::tidy_up() {
  (void)for_each_epoch({}, {}, [&](const std::string& folder, const auto& entries) {
    for (const FolderEntry& entry : entries) {
      if (entry.name.ends_with(kTemporary)) (void)files_.remove(path_in(folder, entry.name));
    }
  });
}

Result<std::unique_ptr<ShardWriter>> LocalStore::put(const ShardHeader& header) {
  const std::string path =
      path_in(folder_of(header.part), shard_name(header.part, {header.coding, header.number}));
  const std::string temporary = path + "." + std::to_string(::getpid()) + "-" +
                                std::to_string(next_++) + std::string(kTemporary);
  auto file = in_folder_of(files_, temporary, [&] { return files_.create(temporary); });
  if (!file.ok()) return file.status();
  auto writer =
      std::make_unique<FileWriter>(files_, path, temporary, header, std::move(file.value()));
  if (Status started = writer->start(); !started.ok()) return started;
  return std::unique_ptr<ShardWriter>(std::move(writer));
}

Result<std::unique_ptr<ShardReader>> LocalStore::get(const PartId& part, const ShardKey& key) {
  const std::string path = path_in(folder_of(part), shard_name(part, key));
  auto shard = open_shard(files_, path);
  if (!shard.ok()) return shard.status();
  if (shard->header.part != part || shard->header.number != key.number ||
      shard->header.coding != key.coding) {
    return about(path, damaged("it is another part's"));
  }
  return std::unique_ptr<ShardReader>(
      std::make_unique<FileReader>(path, std::move(shard->file), std::move(shard->header)));
}

Result<std::vector<ShardHeader>> LocalStore::list(const std::string& store,
                                                  const std::string& job) {
  std::vector<ShardHeader> found;
  Status done = for_each_epoch(store, job, [&](const std::string& folder, const auto& entries) {
    for (const FolderEntry& entry : entries) {
      if (entry.is_folder || !is_shard_name(entry.name)) continue;
      auto shard = open_shard(files_, path_in(folder, entry.name));
      if (!shard.ok()) continue;
      const ShardHeader& header = shard->header;
      const bool is_its_own = folder == folder_of(header.part) &&
                              entry.name == shard_name(header.part, {header.coding, header.number});
      if (is_its_own) found.push_back(std::move(shard->header));
    }
  });
  if (!done.ok()) return done;
  return found;
}

Status LocalStore::remove(const PartId& part, uint64_t kept) {
  const std::string folder = folder_of(part);
  const auto entries = files_.entries(folder);
  if (entries.status().code() == Code::kNotFound) return {};
  if (!entries.ok()) return entries.status();
  Status first;
  const std::string prefix = shard_prefix(part, 0);
  const std::string staying = shard_prefix(part, kept);
  for (const FolderEntry& entry : entries.value()) {
    if (!is_shard_name(entry.name) || !entry.name.starts_with(prefix)) continue;
    if (kept != 0 && entry.name.starts_with(staying)) continue;
    Status removed = files_.remove(path_in(folder, entry.name));
    const bool is_gone = removed.ok() || removed.code() == Code::kNotFound;
    if (!is_gone && first.ok()) first = std::move(removed);
  }
  if (!first.ok()) return first;
  if (Status synced = files_.sync_folder(folder);
      !synced.ok() && synced.code() != Code::kNotFound) {
    return synced;
  }
  remove_empty_folders(files_, folder, kFolderLevels);
  return {};
}

}  // namespace gpusnap::levels
