// SPDX-License-Identifier: Apache-2.0
//
// A node: its writers, its tiers, and the flushes to the store.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/comparison/flushing.h"
#include "tests/bench/comparison/lane.h"
#include "tests/bench/comparison/scenario.h"
#include "tests/bench/comparison/share.h"
#include "tiers/placement/placement.h"

namespace gpusnap::comparison {

// Which tier a chunk goes to is decided by Placement, as in gpusnapd. Unlike there, a writer asks
// before it writes, and writes to the tier itself, as in the paper (algorithm 1).
class Node {
 public:
  static constexpr size_t kTiers = 2;  // the cache, the SSD

  // `models`: of the tiers, see Placement. `scenario` outlives the node.
  Node(const Scenario& scenario, const std::array<ThroughputModel, kTiers>& models);

  // A node is as it was when advance() was called last. It goes on with the rates of that moment,
  // so that only needs to be called before something changes.
  void advance(double now_s);
  // When something ends, with these rates. Infinity where nothing goes on.
  double next_s() const { return now_s_ + seconds_to_next(); }

  // The following are of the moment of the last advance().
  void begin_checkpoint();
  void compute(double seconds) { compute_left_s_ = seconds; }

  // Bandwidth that the flushes of each tier could use if the store had no other nodes.
  const std::array<Demand, kTiers>& demands() const { return demands_; }
  // `level`: what a flush gets of the store at most.
  void set_rates(double level);
  bool has_rates_of(double level) const;
  void set_store_factor(double factor);

  // Handles what has ended.
  void settle();
  // Tells Placement how long flushes have taken until now, as gpusnapd does while writers wait.
  void tick();
  bool has_waiting() const { return !requests_.empty(); }

  bool is_computed() const { return compute_left_s_ <= kNoTime; }
  bool is_local() const { return written_ == begun_; }
  bool is_flushed() const { return flushed_ == begun_; }

  // Chunks by tier, of the last checkpoint.
  const std::array<uint64_t, kTiers>& placed() const { return placed_; }
  const std::array<uint64_t, kTiers>& peaks() const { return peaks_; }
  double written_bytes() const;
  double flushed_bytes() const { return flushes_[0].moved() + flushes_[1].moved(); }
  uint32_t flush_limit() const { return limit_.now(); }
  double flush_bandwidth() const { return placement_->flush_bandwidth(); }
  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr double kNoTime = 1e-9;  // seconds

  // Flushes whose time has begun and not ended.
  struct SoFar {
    double chunks = 0;
    double begun_s = 0;  // sum
    void begin(double now_s) {
      ++chunks;
      begun_s += now_s;
    }
    void end(double from_s) {
      --chunks;
      begun_s -= from_s;
    }
    double seconds(double now_s) const { return chunks * now_s - begun_s; }
  };

  void fail(const std::string& what);
  double seconds_to_next() const;
  void request(uint64_t producer);
  void take(const Result<Placement::Grants>& grants);
  void place(uint64_t producer, size_t tier);
  void begin_staged();
  void begin_flushes();
  void end_writes();
  void end_flushes();
  void end_synchronous();
  void set_demands();
  void check();
  bool is_flushing() const { return flushes_[0].size() + flushes_[1].size() > 0; }

  const Scenario& scenario_;
  std::unique_ptr<Placement> placement_;
  FlushLimit limit_;
  FlushQueue queue_;
  std::vector<uint64_t> left_;     // chunks, by producer
  std::deque<uint64_t> requests_;  // producers that wait for a tier
  std::deque<uint64_t> staged_;    // that wait for a slot to the SSD
  std::array<Lane, kTiers> writes_, flushes_;
  std::array<Demand, kTiers> demands_;
  std::array<double, kTiers> device_shares_{};  // of one user; bytes per second
  double now_s_ = 0;
  double store_factor_ = 1;
  double compute_left_s_ = 0;
  uint64_t begun_ = 0, written_ = 0, flushed_ = 0;  // chunks
  SoFar so_far_;
  std::array<uint64_t, kTiers> placed_{}, peaks_{};
  std::string wrong_;
};

}  // namespace gpusnap::comparison
