// SPDX-License-Identifier: Apache-2.0
//
// A machine and a job that fills it: sizes, bandwidths and failure rates, each an input with a name
// that a machine file and `gpusnap plan --set` use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/plan/compression.h"
#include "tiers/plan/level.h"
#include "tiers/status.h"

namespace gpusnap::plan {

// Sizes are in GB and bandwidths in GB/s, with 1 GB = 10^9 bytes; rates are failures a second.
struct Machine {
  std::string name;

  double nodes = 1, gpus_per_node = 1, cpus_per_node = 1;

  double gpu_memory = 0;  // GB of one GPU that a checkpoint holds
  double cpu_memory = 0;  // GB of one CPU's own memory that it holds besides
  double gpu_dirty = 1;   // share of it that changes between checkpoints, and so is written

  double stored = 1;  // share that compression leaves of what goes to SSD and PFS

  double gpu_link = 0;                 // GB/s from one GPU to the host, each way
  double node_link = 0;                // GB/s from all GPUs of a node together
  double node_memory = 0;              // GB/s into the host memory of a node
  double ssd_write = 0, ssd_read = 0;  // GB/s of a node; 0: there is none
  double pfs_write = 0, pfs_read = 0;  // GB/s of the whole machine

  // The share of a checkpoint's time that holds the program; the rest passes in the background.
  double memory_stall = 1, ssd_stall = 1, pfs_stall = 1;
  // Above 0: seconds that any checkpoint holds the program, measured; memory_stall is not used, and
  // the shares of SSD and PFS count in addition.
  double stall_seconds = 0;
  double restart_extra = 0;  // seconds before any restart reads: a new node, the start of the job

  double gpu_rate = 0, cpu_rate = 0, node_rate = 0;  // of one
  double system_rate = 0;                            // of the machine
  // Times these rates.
  double gpu_failures = 1, cpu_failures = 1, node_failures = 1, system_failures = 1;

  // PCCR's model, where process_size is above 0; it stores with pfs_write.
  double process_size = 0;  // GB that one process saves
  double processes = 0;     // of the job
  double collect_s = 0, compress_s = 0;
  double compression_ratio = 0.65;
  double process_rate = 0;  // GB/s that one process can store

  double gpus() const { return nodes * gpus_per_node; }
  double cpus() const { return nodes * cpus_per_node; }
};

// One number of a machine.
struct Input {
  const char* key;  // "ssd.write"
  double Machine::*member;
  double least, most;
  bool required;  // in a machine file
  const char* help;
};

std::span<const Input> inputs();

// Changes one input: "12.5", or "2x" for twice what it is. kInvalid, with one line that names the
// key, for an unknown key, for no number, and for one out of bounds.
Status set_input(Machine& machine, std::string_view key, std::string_view value);

// Memory for failures of GPUs and CPUs, the SSD for lost nodes, the PFS for the system. A level
// without bandwidth is left out; the next one serves its failures.
std::vector<Level> levels_of(const Machine& machine);

// The machine's inputs to PCCR's model, in bytes. kNotFound: it has none. kInvalid: see check().
Result<CompressionCosts> compression_costs(const Machine& machine);

// Costs of a job's own checkpoints, as gpusnap measured them.
struct JobCosts {
  double nodes = 1;
  double gpus = 1;           // of all nodes
  double bytes = 0;          // of a checkpoint, all GPUs
  double dirty = 1;          // share of them that an increment saves
  double stall_seconds = 0;  // that a checkpoint holds the program
};

// The machine with this job instead of one that fills it. Copies to SSD and PFS pass in the
// background, as those of gpusnap do.
Machine with_job(Machine machine, const JobCosts& job);

// Levels as if they cost nothing, from the first: the limits of figures 3 and 12.
std::vector<Level> with_free_levels(std::vector<Level> levels, size_t count);

// The machine with full checkpoints that hold the program all the time.
Machine blocking(Machine machine);

}  // namespace gpusnap::plan
