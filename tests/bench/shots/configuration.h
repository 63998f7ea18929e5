// SPDX-License-Identifier: Apache-2.0
//
// The simulated run. Defaults are those of the GPU cache and prefetch paper (section 5.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/bench/shots/managed_engine.h"
#include "tests/bench/shots/node.h"
#include "tests/bench/shots/shot.h"
#include "tests/bench/shots/work.h"

namespace gpusnap::shots {

struct Configuration {
  // approach=score|as-printed|fifo|lru, or no-device: without a device cache and without
  // prefetches, on-demand copies between the application and the host cache; or managed: managed
  // memory (ManagedEngine).
  history::Evictor evictor = history::Evictor::kScore;
  bool has_device_cache = true;
  bool is_managed = false;
  // batch=N (blocks), flushes_by_hints=0|1, moves_consumed=0|1. The rest comes from elsewhere.
  ManagedEngine::Options managed;
  Order order = Order::kReverse;   // order=sequential|reverse|irregular
  Sizes sizes = Sizes::kUniform;   // sizes=uniform|variable
  Behaviour behaviour;             // hints=none|single|all, wait=0|1, interval_ms=N
  bool discards_consumed = false;  // discard=0|1
  bool has_barrier = false;        // barrier=0|1
  uint64_t seed = 1;
  unsigned gpus = 8;
  size_t checkpoints = 384;
  uint64_t size = uint64_t{128} << 20;        // size_mib=N: of a checkpoint, or their median
  uint64_t device_cache = uint64_t{4} << 30;  // device_cache_mib=N, of each process
  uint64_t host_cache = uint64_t{32} << 30;   // host_cache_mib=N
  Machine machine;  // device, link, drives, host_memory, pinning, migrations, faults=N
  bool reports_iterations = false;  // iterations=0|1
};

// Without a value, `error` says which word is wrong.
std::optional<Configuration> parse_configuration(const std::string& line, std::string& error);

}  // namespace gpusnap::shots
