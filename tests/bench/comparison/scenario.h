// SPDX-License-Identifier: Apache-2.0
//
// The simulated workload: the asynchronous checkpointing benchmark of the VeloC paper (V.B), or
// a program that computes between checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/comparison/flushing.h"
#include "tests/bench/comparison/machine.h"
#include "tiers/placement/placement.h"

namespace gpusnap::comparison {

struct Scenario {
  Machine machine;
  PlacementPolicy policy = PlacementPolicy::kHybridOpt;
  Flushing flushing;
  uint32_t nodes = 1;
  uint32_t writers = 16;        // of a node
  uint64_t chunks = 4;          // of a writer and a checkpoint
  uint64_t cache_chunks = 32;   // of a node
  uint64_t ssd_chunks = 1907;   // 128 GB (section V.A)
  uint32_t staging_slots = 0;   // so many writes to the SSD at the same time; 0: as many as writers
  bool is_synchronous = false;  // writers write to the store themselves, no policy
  // AvgFlushBW before the first flush, as in tiers/backend; 0: not known.
  double first_flush_bandwidth = 5e9;

  uint32_t checkpoints = 1;
  double compute_s = 0;        // before each checkpoint
  double period_s = 0;         // else checkpoints begin at its multiples, from 0 on, if possible
  double compute_after_s = 0;  // after the last one
  uint32_t warm_up = 0;        // checkpoints that do not count for `increase_s`; fewer than all
  double slowdown = 0;         // of the computation of a node that flushes, as a part of its speed

  uint64_t seed = 1;  // of the interference

  uint64_t chunks_of_node() const { return writers * chunks; }  // in a checkpoint
};

struct Outcome {
  // Times of the last checkpoint from its begin until the last chunk is on a tier, and until
  // the last one is in the store.
  double local_s = 0;
  double complete_s = 0;
  double increase_s = 0;        // of the program's run time by all checkpoints
  std::vector<double> placed;   // chunks of the last checkpoint by tier, of all nodes
  std::vector<uint64_t> peaks;  // most chunks in a tier of a node at the same time
  double written_bytes = 0;     // to tiers, or straight to the store
  double flushed_bytes = 0;     // to the store
  double flushes = 0;           // allowed at the same time in the end; mean over nodes
  double flush_bandwidth = 0;   // AvgFlushBW in the end; mean over nodes
  std::string wrong;            // an invariant that did not hold; empty if all did
};

Outcome simulate(const Scenario& scenario);

// As a calibration of the device with up to so many writers gives it.
ThroughputModel model_of(const Curve& curve, uint32_t writers);

}  // namespace gpusnap::comparison
