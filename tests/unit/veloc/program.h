// SPDX-License-Identifier: Apache-2.0
//
// A program that uses a history, with memory of a device that is none and files in memory.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fault_file_system.h"
#include "tools/veloc/client.h"

namespace gpusnap::veloc::test {

using gpusnap::test::FaultFileSystem;

// Host memory that counts as a device's. Thread-safe.
class FakeDevice {
 public:
  std::byte* allocate(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(std::make_unique<std::byte[]>(bytes));
    sizes_[blocks_.back().get()] = bytes;
    return blocks_.back().get();
  }
  bool has(const void* memory) const {
    const std::lock_guard lock(mutex_);
    const auto* const at = static_cast<const std::byte*>(memory);
    const auto next = sizes_.upper_bound(at);
    return next != sizes_.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::map<const std::byte*, uint64_t> sizes_;
};

class FakeCopier final : public Copier {
 public:
  Status follow_program() override { return {}; }
  Status copy(void* to, const void* from, uint64_t bytes) override {
    pending_.push_back({to, from, bytes});
    return {};
  }
  // Late: whoever does not wait for copies gets other bytes.
  Status finish() override {
    for (const Pending& each : pending_) std::memcpy(each.to, each.from, each.bytes);
    pending_.clear();
    return {};
  }

 private:
  struct Pending {
    void* to;
    const void* from;
    uint64_t bytes;
  };
  std::vector<Pending> pending_;
};

class FakeMemory final : public Memory {
 public:
  explicit FakeMemory(FakeDevice& device) : device_(device) {}
  bool has_device() const override { return true; }
  bool is_on_device(const void* memory) const override { return device_.has(memory); }
  uint64_t device_bytes() const override { return 64 << 20; }
  Result<std::unique_ptr<Copier>> copier() override {
    return std::unique_ptr<Copier>(std::make_unique<FakeCopier>());
  }
  Result<std::byte*> allocate_on_device(uint64_t bytes) override { return device_.allocate(bytes); }
  void free_on_device(std::byte*) override {}
  Status pin(std::byte*, uint64_t) override { return {}; }
  void unpin(std::byte*) override {}

 private:
  FakeDevice& device_;
};

// Ranks that are threads. Thread-safe.
class Meeting {
 public:
  explicit Meeting(uint32_t ranks) : ranks_(ranks) {}
  void least(std::vector<int64_t>& numbers) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0) least_ = numbers;
    for (size_t i = 0; i < numbers.size(); ++i) least_[i] = std::min(least_[i], numbers[i]);
    const uint64_t round = round_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++round_;
      result_ = least_;
      met_.notify_all();
    }
    met_.wait(lock, [&] { return round_ != round; });
    numbers = result_;
  }
  uint32_t ranks() const { return ranks_; }

 private:
  const uint32_t ranks_;
  std::mutex mutex_;
  std::condition_variable met_;
  std::vector<int64_t> least_, result_;
  uint32_t arrived_ = 0;
  uint64_t round_ = 0;
};

class ThreadRank final : public Ranks {
 public:
  ThreadRank(Meeting& meeting, uint32_t rank) : meeting_(meeting), rank_(rank) {}
  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return meeting_.ranks(); }
  std::string suffix() const override { return {}; }
  Status least(std::vector<int64_t>& numbers) override {
    meeting_.least(numbers);
    return {};
  }

 private:
  Meeting& meeting_;
  const uint32_t rank_;
};

// Another number each time.
inline int64_t draw() {
  static std::atomic<int64_t> newest{0};
  return ++newest;
}

inline Config small_config() {
  Config config;
  config.scratch = "/scratch";
  config.persistent = "/pfs";
  config.gpu_cache = 64 << 10;
  config.host_cache = 128 << 10;
  return config;
}

inline std::byte byte_of(uint64_t version, uint64_t at) {
  return static_cast<std::byte>((version * 0x9e3779b97f4a7c15 + at * 0x2545f4914f6cdd1d) >> 56);
}

// One process of it, with one region under number 1.
class Program {
 public:
  Program(FaultFileSystem& files, const Config& config, bool is_on_device,
          Meeting* meeting = nullptr, uint32_t rank = 0,
          std::function<int64_t(int64_t)> same_as_recorded = {})
      : most_(40 << 10),
        host_(most_),
        memory_(is_on_device ? device_.allocate(most_) : host_.data()) {
    std::unique_ptr<Ranks> ranks =
        std::make_unique<ThreadRank>(meeting != nullptr ? *meeting : alone_, rank);
    auto created = Client::create(
        config, std::move(ranks),
        {files, monotonic_clock(), [this] { return std::make_unique<FakeMemory>(device_); },
         [] { return Result<int64_t>(draw()); }, std::move(same_as_recorded)});
    EXPECT_TRUE(created.ok()) << created.status().message();
    if (created.ok()) client_ = std::move(created.value());
  }

  Client& client() { return *client_; }
  std::byte* memory() { return memory_; }
  void fill(uint64_t version, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) memory_[i] = byte_of(version, i);
    client_->protect(1, memory_, bytes);
  }
  Status write(int version, uint64_t bytes) {
    fill(static_cast<uint64_t>(version), bytes);
    const Status written = client_->checkpoint("demo", version);
    // The program goes on and changes it.
    std::memset(memory_, 0xee, most_);
    return written;
  }
  // Ok only if all bytes are those of the version.
  Status restore(int version, uint64_t bytes) {
    std::memset(memory_, 0xdd, most_);
    client_->protect(1, memory_, most_);
    const Result<uint64_t> size = client_->size_of("demo", version, 1);
    if (!size.ok()) return size.status();
    if (size.value() != bytes) return {Code::kTorn, "it has another size"};
    client_->protect(1, memory_, bytes);
    if (Status restored = client_->restart("demo", version); !restored.ok()) return restored;
    return holds(static_cast<uint64_t>(version), bytes);
  }
  Status holds(uint64_t version, uint64_t bytes) const {
    for (uint64_t i = 0; i < most_; ++i) {
      if (memory_[i] != (i < bytes ? byte_of(version, i) : std::byte{0xdd})) {
        return {Code::kTorn, "byte " + std::to_string(i) + " is wrong"};
      }
    }
    return {};
  }

 private:
  Meeting alone_{1};
  FakeDevice device_;
  const uint64_t most_;
  std::vector<std::byte> host_;
  std::byte* const memory_;
  std::unique_ptr<Client> client_;
};

}  // namespace gpusnap::veloc::test
