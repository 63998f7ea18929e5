// SPDX-License-Identifier: Apache-2.0
//
// One process's checkpoints, as its shot sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/shots/clock.h"
#include "tests/bench/shots/node.h"
#include "tiers/history/planner.h"

namespace gpusnap::shots {

using history::Version;

// Relative errors: what was expected when a copy had arrived in a cache, beside the time until the
// copy was flushed, or consumed.
struct PredictorErrors {
  std::vector<double> flushes, restores;
};

// Not thread-safe; all happens in events of one clock.
class Runtime {
 public:
  // Called once, possibly before the call that it was given to returns. False: the request failed.
  using Done = std::function<void(bool)>;

  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // The application's thread has one request at a time.
  virtual void write(Version version, uint64_t bytes, Done done) = 0;
  virtual void restore(Version version, Done done) = 0;
  virtual void when_flushed(Clock::Event then) = 0;
  // The application will restore the checkpoint after all that it hinted before.
  virtual void hint(Version version) = 0;
  virtual void start_prefetching() = 0;

  virtual bool is_on_device(Version version) const = 0;
  // The slowest medium that the checkpoint was read from, by prefetches and its restore. To be
  // asked after the restore.
  virtual Medium read_from(Version version) const = 0;
  // The most bytes that the cache has held. 0 is the fastest cache.
  virtual uint64_t peak(size_t cache) const = 0;
  // A mistake of the runtime; empty if there is none.
  virtual const std::string& fault() const = 0;
  virtual PredictorErrors predictor_errors() const { return {}; }
};

}  // namespace gpusnap::shots
