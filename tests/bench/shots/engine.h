// SPDX-License-Identifier: Apache-2.0
//
// One process's checkpoints: the planner decides, and its transfers take their time on the node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/shots/runtime.h"

namespace gpusnap::shots {

using history::Planner;
using history::Transfer;

// The contents of a cache, by the transfers into it. Finds room that is given away twice or that
// the cache does not have, independently of the planner's tables.
class Occupancy {
 public:
  explicit Occupancy(const history::TierCache::Options& options) : options_(options) {}
  // False if the planner is wrong.
  bool place(const Transfer& transfer);
  uint64_t peak() const { return peak_; }

 private:
  struct Room {
    uint64_t offset = 0, size = 0;
  };
  const history::TierCache::Options options_;
  std::map<uint64_t, uint64_t> ends_;  // by offset
  std::map<Version, Room> rooms_;
  uint64_t used_ = 0, peak_ = 0;
};

class Engine final : public Runtime {
 public:
  struct Options {
    Planner::Options planner;
    std::vector<Medium> tiers;  // of each cache, and of the last tier
    double pinning = 0;         // bytes per second, from the beginning on; 0: pinned before
  };
  // `gpu`: its index in the node.
  Engine(Clock& clock, Node& node, unsigned gpu, Options options);

  void write(Version version, uint64_t bytes, Done done) override;
  void restore(Version version, Done done) override;
  void when_flushed(Clock::Event then) override;
  void hint(Version version) override;
  void start_prefetching() override;

  bool is_on_device(Version version) const override;
  Medium read_from(Version version) const override { return sources_.at(version); }
  uint64_t peak(size_t cache) const override { return occupancies_.at(cache).peak(); }
  const std::string& fault() const override { return fault_; }
  PredictorErrors predictor_errors() const override { return {flushes_.errors, restores_.errors}; }

 private:
  struct Forecast {
    int64_t made_ns = 0, expected_ns = 0;
  };
  struct Forecasts {
    std::map<std::pair<Version, int>, Forecast> open;  // by copy
    std::vector<double> errors;
  };

  void plan();
  void begin(const Transfer& transfer);
  void finish(const Transfer& transfer, int64_t begun_ns);
  void answer();
  int64_t pinned_at_ns(const Transfer& transfer) const;
  Medium medium(int tier) const;
  bool is_cache(int tier) const { return tier >= 0 && tier < planner_.last_tier(); }
  void note_forecasts(const Transfer& transfer);
  void forecast(Forecasts& forecasts, Version version, int tier);
  void compare(Forecasts& forecasts, Version version, int tier);

  Clock& clock_;
  Node& node_;
  const unsigned gpu_;
  const Options options_;
  Planner planner_;
  std::vector<Occupancy> occupancies_;
  Done done_;
  Clock::Event flushed_;
  int64_t last_restore_ns_ = -1;
  int64_t answered_ns_ = 0;         // when the application's last request ended
  std::optional<Version> awaited_;  // by the last restore
  std::map<Version, Medium> sources_;
  Forecasts flushes_, restores_;
  std::string fault_;
};

}  // namespace gpusnap::shots
