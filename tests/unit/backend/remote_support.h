// A backend that keeps all that it is given, for tests of who gives it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/tiers/staging_support.h"
#include "tiers/staging/server.h"

namespace gpusnap::test {

struct Received {
  StreamKind kind{};
  std::string text;
  struct Slot {
    std::vector<Piece> pieces;
    std::vector<std::byte> bytes;
  };
  std::vector<Slot> slots;
  bool sealed = false;
  bool abandoned = false;
};

class KeepingBackend {
 public:
  // The outcome of a stream when it is sealed.
  using Outcome = std::function<Status(const Received&)>;
  explicit KeepingBackend(StagingMemory& memory, Outcome outcome = {})
      : server_(memory), outcome_(std::move(outcome)), thread_([this] { run(); }) {}
  KeepingBackend(const KeepingBackend&) = delete;
  KeepingBackend& operator=(const KeepingBackend&) = delete;
  ~KeepingBackend() {
    stop_ = true;
    thread_.join();
  }

  // Slots that arrive stay filled.
  void hold(bool hold) { hold_ = hold; }
  // Ends the streams that are open, whatever they are.
  void fail(const Status& status) {
    const std::lock_guard lock(mutex_);
    fail_ = status;
  }
  // All streams so far, in the order in which they were opened.
  std::vector<Received> received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  void run() {
    while (!stop_) {
      const uint32_t seen = server_.changes();
      look();
      server_.wait(seen, std::chrono::milliseconds(5));
    }
  }

  void look() {
    const auto news = server_.look();
    const std::lock_guard lock(mutex_);
    for (const uint32_t stream : news.opened) {
      of_stream_[stream] = received_.size();
      received_.push_back({server_.kind(stream), std::string(server_.text(stream)), {}, {}, {}});
    }
    for (const auto& arrival : news.arrived) {
      const auto pieces = server_.pieces(arrival.slot);
      const auto bytes = server_.bytes(arrival.slot);
      received_.at(of_stream_.at(arrival.stream))
          .slots.push_back({{pieces.begin(), pieces.end()}, {bytes.begin(), bytes.end()}});
      held_.push_back(arrival.slot);
    }
    if (!hold_) {
      for (const uint32_t slot : held_) server_.release(slot);
      held_.clear();
    }
    for (const uint32_t stream : news.abandoned) {
      received_.at(of_stream_.at(stream)).abandoned = true;
      end(stream, {Code::kInvalid, "abandoned"});
    }
    for (const uint32_t stream : news.sealed) {
      Received& received = received_.at(of_stream_.at(stream));
      received.sealed = true;
      end(stream, outcome_ ? outcome_(received) : Status());
    }
    if (!fail_) return;
    while (!of_stream_.empty()) end(of_stream_.begin()->first, *fail_);
  }

  void end(uint32_t stream, const Status& status) {
    of_stream_.erase(stream);
    server_.end(stream, status);
  }

  StagingServer server_;
  const Outcome outcome_;
  mutable std::mutex mutex_;
  std::vector<Received> received_;
  std::map<uint32_t, size_t> of_stream_;
  std::vector<uint32_t> held_;
  std::optional<Status> fail_;
  std::atomic<bool> hold_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gpusnap::test
