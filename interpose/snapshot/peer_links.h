// SPDX-License-Identifier: Apache-2.0
//
// Links from the device of one context to other devices of the process, as load balancing uses them
// (balancer.h): a stream for each, and the bandwidth that copies have been seen to have.
//
// Copies go by these streams into memory that is mapped for the sending device (cuMemSetAccess), so
// they are direct, and the program's own peer access (cuCtxEnablePeerAccess) stays as it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

// Times copies of one stream by the device's clock. One thread, the context current; rate() may be
// called by any.
class LinkClock {
 public:
  // `guess`: the rate until a copy has been timed, in bytes a second.
  LinkClock(const Driver& driver, uint64_t guess) : driver_(driver), rate_(guess) {}

  // Before and after a copy is enqueued. At most one copy is timed at a time; others, and copies
  // too short to tell the bandwidth, are passed over.
  void start(CUstream stream, uint64_t bytes);
  void stop(CUstream stream);
  // Takes the time of the copy if it is done.
  void look();
  // Bytes a second, a moving average; at least 1.
  uint64_t rate() const { return rate_.load(std::memory_order_relaxed); }

 private:
  enum class State : uint8_t { kIdle, kStarted, kFlying };
  const Driver& driver_;
  CUevent begin_ = nullptr, end_ = nullptr;  // they live as long as the context
  State state_ = State::kIdle;
  uint64_t bytes_ = 0;
  bool is_measured_ = false;
  std::atomic<uint64_t> rate_;
};

struct PeerLink {
  PeerLink(const Driver& driver, CUstream background, CUstream awaited, uint64_t guess)
      : stream(background), gate(awaited), clock(driver, guess) {}
  // Both of the sending context: of the least priority, and of the greatest for what calls wait
  // for.
  const CUstream stream, gate;
  LinkClock clock;
};

// Thread-safe.
class PeerLinks {
 public:
  explicit PeerLinks(const Driver& driver) : driver_(driver) {}

  // Makes the link between two devices, unless it is there, or the driver says that there is none.
  // The current context is one of `from`, always the same.
  void connect(int from, int to);
  // Null: there is none. It lives as long as this object.
  PeerLink* to(int device);
  // The devices to which there is a link, in order.
  std::vector<int> devices();

 private:
  uint64_t guess_rate(int from, int to) const;

  const Driver& driver_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<PeerLink>> links_;  // null: it cannot be had
};

}  // namespace gpusnap
