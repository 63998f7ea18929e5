// The real file system, told of each of its operations before and after.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap::test {

// Called by any thread.
using Watch = std::function<void()>;

class WatchedFileSystem final : public FileSystem {
 public:
  WatchedFileSystem(FileSystem& files, Watch watch) : files_(files), watch_(std::move(watch)) {}

  template <class Work>
  auto around(Work work) {
    watch_();
    auto result = work();
    watch_();
    return result;
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    auto file = around([&] { return files_.create(path); });
    if (!file.ok()) return file;
    return std::unique_ptr<WritableFile>(
        std::make_unique<Writable>(*this, std::move(file.value())));
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return around([&] { return files_.open(path); });
  }
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    return watched(around([&] { return files_.create_bulk(path, reserve); }));
  }
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override {
    return watched(around([&] { return files_.open_bulk(path); }));
  }
  Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) override {
    return watched(around([&] { return files_.continue_bulk(path); }));
  }
  Status shorten(const std::string& path, uint64_t size) override {
    return around([&] { return files_.shorten(path, size); });
  }
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override {
    return around([&] { return files_.entries(folder); });
  }
  Status make_folder(const std::string& folder) override {
    return around([&] { return files_.make_folder(folder); });
  }
  Status rename(const std::string& from, const std::string& to) override {
    return around([&] { return files_.rename(from, to); });
  }
  Status replace(const std::string& from, const std::string& to) override {
    return around([&] { return files_.replace(from, to); });
  }
  Status sync_folder(const std::string& folder) override {
    return around([&] { return files_.sync_folder(folder); });
  }
  Status remove(const std::string& path) override {
    return around([&] { return files_.remove(path); });
  }
  Status remove_folder(const std::string& folder) override {
    return around([&] { return files_.remove_folder(folder); });
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return around([&] { return files_.lock(path); });
  }

 private:
  class Writable final : public WritableFile {
   public:
    Writable(WatchedFileSystem& files, std::unique_ptr<WritableFile> file)
        : files_(files), file_(std::move(file)) {}
    Status append(std::span<const std::byte> bytes) override {
      return files_.around([&] { return file_->append(bytes); });
    }
    Status sync() override {
      return files_.around([&] { return file_->sync(); });
    }

   private:
    WatchedFileSystem& files_;
    std::unique_ptr<WritableFile> file_;
  };

  class Bulk final : public BulkFile {
   public:
    Bulk(WatchedFileSystem& files, std::unique_ptr<BulkFile> file)
        : files_(files), file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      files_.watch_();
      file_->write(offset, bytes, [this, done = std::move(done)](const Status& status) {
        files_.watch_();
        done(status);
      });
    }
    void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
      file_->read(offset, bytes, std::move(done));
    }
    Status sync() override {
      return files_.around([&] { return file_->sync(); });
    }

   private:
    WatchedFileSystem& files_;
    std::unique_ptr<BulkFile> file_;
  };

  Result<std::unique_ptr<BulkFile>> watched(Result<std::unique_ptr<BulkFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(*this, std::move(file.value())));
  }

  FileSystem& files_;
  const Watch watch_;
};

}  // namespace gpusnap::test
