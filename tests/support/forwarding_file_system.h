// Another file system as it is: what a test changes of it, it overrides.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap::test {

// As thread-safe as `files`, which outlives it.
class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& files) : forwarded_(files) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return forwarded_.create(path);
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return forwarded_.open(path);
  }
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    return forwarded_.create_bulk(path, reserve);
  }
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override {
    return forwarded_.open_bulk(path);
  }
  Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) override {
    return forwarded_.continue_bulk(path);
  }
  Status shorten(const std::string& path, uint64_t size) override {
    return forwarded_.shorten(path, size);
  }
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override {
    return forwarded_.entries(folder);
  }
  Status make_folder(const std::string& folder) override { return forwarded_.make_folder(folder); }
  Status rename(const std::string& from, const std::string& to) override {
    return forwarded_.rename(from, to);
  }
  Status replace(const std::string& from, const std::string& to) override {
    return forwarded_.replace(from, to);
  }
  Status sync_folder(const std::string& folder) override { return forwarded_.sync_folder(folder); }
  Status remove(const std::string& path) override { return forwarded_.remove(path); }
  Status remove_folder(const std::string& folder) override {
    return forwarded_.remove_folder(folder);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return forwarded_.lock(path);
  }

 private:
  FileSystem& forwarded_;
};

}  // namespace gpusnap::test
