// SPDX-License-Identifier: Apache-2.0
//
// One node of the machine of the GPU cache and prefetch paper (section 5.1): GPUs that share links
// to the host by pairs, and drives that all of them share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tests/bench/shots/network.h"

namespace gpusnap::shots {

// Bandwidths in bytes per second.
struct Machine {
  double device = 1e12;    // within a GPU (section 5.1)
  double link = 25e9;      // of two GPUs to the host, in each direction (section 5.1)
  double drives = 16e9;    // four of 4 GB/s, for reads and writes together (section 5.1)
  double host_memory = 0;  // of the NUMA domain of two GPUs; 0: no limit
  double pinning = 4e9;    // of each process's host cache (section 4.1.4); 0: pinned before
  // Managed memory of one GPU, in each direction. Measured on an A100 with a link of its own:
  double migrations = 23e9;  // cudaMemPrefetchAsync, evictions
  double faults = 4.7e9;     // on demand
  unsigned gpus_per_node = 8;
  unsigned gpus_per_link = 2;
};

// Where bytes are. The memory of the application is on the device, too.
enum class Medium : uint8_t { kApplication, kDevice, kHost, kDrives };

enum class Migration : uint8_t { kPrefetch, kFaults };

class Node {
 public:
  Node(Clock& clock, const Machine& machine);
  // `gpu`: its index in the node.
  void move(unsigned gpu, Medium from, Medium to, uint64_t bytes, Clock::Event done);
  // Managed memory between the device and the host.
  void migrate(unsigned gpu, Medium from, Medium to, Migration how, uint64_t bytes,
               Clock::Event done);

 private:
  // The driver's limits for one GPU, as resources.
  struct Driver {
    size_t to_host = 0, from_host = 0, faults = 0;
  };
  Network::Route route(unsigned gpu, Medium from, Medium to) const;
  const Driver& driver(unsigned gpu);

  const Machine machine_;
  Network network_;
  size_t drives_ = 0;
  std::vector<size_t> devices_;                              // by GPU
  std::vector<size_t> to_host_, from_host_, host_memories_;  // by link
  std::map<unsigned, Driver> drivers_;                       // by GPU, of those that have migrated
};

}  // namespace gpusnap::shots
