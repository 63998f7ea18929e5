// SPDX-License-Identifier: Apache-2.0
//
// Counts the reads of bulk files that have ended, whatever came of them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/forwarding_file_system.h"

namespace gpusnap::test {

class CountingFileSystem : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override {
    auto file = ForwardingFileSystem::open_bulk(path);
    if (!file.ok()) return file;
    return std::unique_ptr<BulkFile>(std::make_unique<Counted>(*this, std::move(file.value())));
  }
  std::atomic<size_t> reads_ended{0};

 private:
  class Counted final : public BulkFile {
   public:
    Counted(CountingFileSystem& files, std::unique_ptr<BulkFile> file)
        : files_(files), file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      file_->write(offset, bytes, std::move(done));
    }
    void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
      file_->read(offset, bytes, [this, done = std::move(done)](const Status& status) {
        CountingFileSystem& files = files_;
        done(status);  // after which this may be gone
        ++files.reads_ended;
      });
    }
    Status sync() override { return file_->sync(); }

   private:
    CountingFileSystem& files_;
    const std::unique_ptr<BulkFile> file_;
  };
};

}  // namespace gpusnap::test
