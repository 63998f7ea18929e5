// VeloC's checkpointing benchmark (section V.B of the paper) in virtual time: producers that write
// their chunks one after the other to where Placement sends them, a cache, an SSD, and I/O threads
// that flush to an external store. Devices share their throughput evenly among those who use them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tiers/placement/placement.h"

namespace gpusnap::test {

inline constexpr double kChunkBytes = 64 << 20;

struct StoreSpeed {
  double from_s = 0;
  double bytes_per_second = 0;  // of all flushes together
};

struct Scenario {
  std::string name;
  uint32_t producers = 1;
  uint64_t chunks_each = 1;
  uint64_t cache_chunks = 32;
  std::function<double(double)> cache;  // bytes per second of so many writers together
  std::function<double(double)> ssd;
  std::vector<StoreSpeed> store;  // by time; the first from 0
  size_t flush_threads = 16;
  double flush_weight = 0;      // how much of a writer a flush is to the SSD that it reads from
  bool knows_the_store = true;  // from checkpoints before: the average does not begin with nothing
};

struct Outcome {
  double local_s = 0;     // until the last chunk is written to a tier
  double complete_s = 0;  // until the last one is flushed
  uint64_t ssd_chunks = 0;
  std::string wrong;  // an invariant that did not hold; empty where all did
};

// Models are fitted to the samples that a calibration would take.
Outcome simulate(const Scenario& scenario, PlacementPolicy policy);

}  // namespace gpusnap::test
