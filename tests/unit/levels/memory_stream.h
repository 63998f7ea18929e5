// SPDX-License-Identifier: Apache-2.0
// Two ends of a connection in memory, and somebody in between.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tiers/levels/channel.h"

namespace gpusnap::levels::test {

// One direction. Thread-safe.
class Wire {
 public:
  // Gives the bytes to pass on for bytes that are sent, given those sent before.
  using Meddle = std::function<std::vector<std::byte>(size_t at, std::span<const std::byte>)>;

  // It ends after so many bytes.
  explicit Wire(Meddle meddle = {}, size_t cut_at = SIZE_MAX)
      : meddle_(std::move(meddle)), cut_at_(cut_at) {}

  void put(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    const size_t at = sent_.size();
    sent_.insert(sent_.end(), bytes.begin(), bytes.end());
    std::vector<std::byte> passed(bytes.begin(), bytes.end());
    if (meddle_) passed = meddle_(at, bytes);
    if (sent_.size() > cut_at_) {
      passed.resize(at < cut_at_ ? std::min(cut_at_ - at, passed.size()) : 0);
      ended_ = true;
    }
    bytes_.insert(bytes_.end(), passed.begin(), passed.end());
    changed_.notify_all();
  }
  Status take(std::span<std::byte> to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || bytes_.size() >= to.size(); });
    if (bytes_.size() < to.size()) {
      return {bytes_.empty() ? Code::kNotFound : Code::kIo, "the connection has ended"};
    }
    std::copy_n(bytes_.begin(), to.size(), to.begin());
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(to.size()));
    return {};
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  std::vector<std::byte> sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const Meddle meddle_;
  const size_t cut_at_;
  std::deque<std::byte> bytes_;
  std::vector<std::byte> sent_;
  bool ended_ = false;
};

class MemoryStream final : public ByteStream {
 public:
  MemoryStream(std::shared_ptr<Wire> in, std::shared_ptr<Wire> out)
      : in_(std::move(in)), out_(std::move(out)) {}
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;
  ~MemoryStream() override {
    out_->end();
    in_->end();
  }
  Status write(std::span<const std::byte> bytes) override {
    out_->put(bytes);
    return {};
  }
  Status read(std::span<std::byte> bytes) override { return in_->take(bytes); }

 private:
  const std::shared_ptr<Wire> in_;
  const std::shared_ptr<Wire> out_;
};

}  // namespace gpusnap::levels::test
