// SPDX-License-Identifier: Apache-2.0
//
// The load balancing of one snapshot over the devices of this process: which lane may send how much
// to which peer at present, and which lanes still have to expect something from their peers.
//
// A plan (peer_plan.h) is made when a lane asks for the first time, and again when a lane has used
// up its shares: by then pending zones, free blocks and measured bandwidths have changed. A share
// is an upper limit. The host link takes whatever is pending in the meantime, so a plan from wrong
// bandwidths costs time and nothing else.
//
// No driver calls. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "interpose/snapshot/peer_plan.h"

namespace gpusnap {

class Balancer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Plans are not made more often than this, apart from the first one, and take at most a tenth of
  // the time: a look at very many ranges is slow.
  static constexpr std::chrono::nanoseconds kPlanInterval = std::chrono::microseconds(500);

  // Both are called with the lock held, by the threads that call take(): they call nothing of this
  // object. `look`: the state of each lane; as many lanes as `links` has devices.
  struct Source {
    std::function<std::vector<LaneState>()> look;
    std::function<balance::Problem()> links;
  };
  // `links`: which lanes reach which, with any bandwidth. Errors of a plan go to `on_error`, once;
  // then nothing more is sent.
  Balancer(Source source, const balance::Problem& links, uint64_t zone_bytes,
           std::function<void(const Status&)> on_error);

  bool reaches(size_t from, size_t to) const { return reaches_[from * lanes_ + to]; }

  // Bytes that lane `from` may send to `to` now, of at most `most`; 0: none. The result is taken
  // from the share, and counts as on its way to `to` until land() is called for it.
  uint64_t take(size_t from, size_t to, uint64_t most, Time now);
  // `taken`: as take() returned it; `sent`: bytes of it that have arrived and are in the hands of
  // lane `to`. The rest was not sent.
  void land(size_t to, uint64_t taken, uint64_t sent);
  // This lane sends nothing more.
  void leave(size_t from);
  // No lane begins to send anything more.
  void stop();

  // Whether this lane may still be sent something, or something is on its way to it.
  bool expects(size_t to) const;
  // Bytes that have arrived at peers.
  uint64_t sent() const;

 private:
  void plan(Time now);

  const Source source_;
  const size_t lanes_;
  const uint64_t zone_bytes_;
  const std::function<void(const Status&)> on_error_;
  std::vector<bool> reaches_;
  mutable std::mutex mutex_;  // of what follows
  PeerShares shares_;
  bool is_planned_ = false;
  bool is_stopped_ = false;
  Time planned_{};
  std::chrono::nanoseconds interval_ = kPlanInterval;  // until the next plan
  std::vector<bool> left_;                             // by lane
  std::vector<uint64_t> flying_;  // bytes that were taken and have not landed, by receiver
  uint64_t sent_ = 0;
};

}  // namespace gpusnap
