// SPDX-License-Identifier: Apache-2.0
//
// The machines of two papers, as their tables have them, and the points that their texts state.
//
// "GPU Snapshot: Checkpoint Offloading for GPU-Dense Systems" (ICS 2019): tables 1 and 2.
// "Parallel Compression Checkpointing for Socket-Level Heterogeneous Systems" (PCCR): Tianhe-1.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/plan/machine.h"
#include "tiers/plan/models.h"

namespace gpusnap::plan {

// A column of table 1: totals of the machine in GB/s and failures/s.
struct PublishedSystem {
  double exaflops;
  double gpus_per_cpu;
  double gpus, cpus, nodes;
  double pcie, memory, ssd, pfs;
  double gpu_failures, cpu_failures, node_failures, system_failures;
};
std::span<const PublishedSystem> published_systems();

// A machine of table 1. Where the table has no such column, its GPUs follow from the exaflops, the
// bandwidths from table 2, the PFS from 1.3 times for each doubling, and failure rates of one
// component from the column of 3.6 exaflops with 16 GPUs per CPU.
Machine snapshot_machine(double exaflops, double gpus_per_cpu);

// "snapshot-ics19": 3.6 exaflops and 16 GPUs per CPU; "snapshot-ics19:1.8:32" has another scale and
// density. kNotFound for another name, kInvalid for a scale out of bounds. "tianhe-1": sizes from
// the PCCR paper; rates and bandwidths, which it does not give, are assumed: see
// docs/planner-papers.md.
std::vector<std::string> machine_names();
Result<Machine> published_machine(std::string_view name);

// Device-optimised GPU Snapshot: "most applications exhibit over 20x reduction in checkpoint time".
inline constexpr double kSnapshotStall = 1.0 / 20;

// A statement of the paper about the machine at 3.6 exaflops with 16 GPUs per CPU.
struct PublishedPoint {
  const char* what;
  double efficiency;
  bool at_most;         // the paper gives a bound: "less than"
  double gpu_failures;  // times the machine's own
  double stall;         // of a checkpoint to memory
  size_t free_levels;
};
std::span<const PublishedPoint> published_points();
double efficiency_of(const PublishedPoint& point, Model model);

}  // namespace gpusnap::plan
