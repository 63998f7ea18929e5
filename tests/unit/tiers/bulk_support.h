// Bulk transfers that a test waits for.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/io/io_engine.h"

namespace gpusnap::test {

using Bytes = std::vector<std::byte>;

inline Bytes noise(size_t size, uint64_t seed) {
  Bytes bytes(size);
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
  }
  return bytes;
}

// Counts transfers and keeps what became of them. Thread-safe.
class Outcomes {
 public:
  BulkFile::Done next() {
    const std::lock_guard lock(mutex_);
    const size_t number = ended_.size();
    ended_.push_back(0);
    return [this, number](const Status& status) {
      const std::lock_guard guard(mutex_);
      ++ended_[number];
      order_.push_back(number);
      if (!status.ok()) failures_.push_back(status);
      changed_.notify_all();
    };
  }
  // Until all have ended; the first failure.
  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return order_.size() >= ended_.size(); });
    for (const int times : ended_) EXPECT_EQ(times, 1);
    return failures_.empty() ? Status() : failures_.front();
  }
  size_t failed() const {
    const std::lock_guard lock(mutex_);
    return failures_.size();
  }
  size_t ended() const {
    const std::lock_guard lock(mutex_);
    return order_.size();
  }
  std::vector<size_t> order() const {  // by the number of their next()
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> ended_;
  std::vector<size_t> order_;
  std::vector<Status> failures_;
};

// Memory at a multiple of 4 KiB, and `skew` bytes beside it.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size, size_t skew = 0) : storage_(size + skew + kPage) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    bytes_ = std::span(storage_).subspan((kPage - address % kPage) % kPage + skew, size);
  }
  std::span<std::byte> get() { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  Bytes storage_;
  std::span<std::byte> bytes_;
};

class Folder {
 public:
  explicit Folder(const std::string& where) {
    std::string name = where + "/gpusnap-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void expect_says(const Status& status, const std::string& part) {
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

}  // namespace gpusnap::test
