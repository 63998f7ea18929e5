// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/published.h"

#include <charconv>
#include <cmath>

namespace gpusnap::plan {
namespace {

// Table 1, column by column. CPU bandwidths are of host memory; "Local" is the SSDs of all nodes.
constexpr PublishedSystem kSystems[] = {
    {0.45, 16, 57600, 3600, 1800, 2.30e5, 6.13e5, 3.87e3, 3.45e3, 6.56e-5, 1.14e-6, 2.60e-7,
     1.77e-7},
    {0.90, 16, 115200, 7200, 3600, 4.61e5, 1.23e6, 7.74e3, 4.49e3, 1.31e-4, 2.28e-6, 5.20e-7,
     1.77e-7},
    {1.8, 16, 230400, 14400, 7200, 9.22e5, 2.45e6, 1.55e4, 5.84e3, 2.62e-4, 4.56e-6, 1.04e-6,
     1.77e-7},
    {3.6, 2, 460800, 230400, 115200, 3.69e6, 3.92e7, 2.48e5, 7.65e3, 5.25e-4, 6.36e-5, 1.66e-5,
     1.77e-7},
    {3.6, 4, 460800, 115200, 57600, 3.69e6, 1.96e7, 1.24e5, 7.61e3, 5.25e-4, 3.31e-5, 8.31e-6,
     1.77e-7},
    {3.6, 8, 460800, 57600, 28800, 3.69e6, 9.81e6, 6.19e4, 7.60e3, 5.25e-4, 1.73e-5, 4.16e-6,
     1.77e-7},
    {3.6, 16, 460800, 28800, 14400, 1.84e6, 4.90e6, 3.10e4, 7.59e3, 5.25e-4, 9.13e-6, 2.08e-6,
     1.77e-7},
    {3.6, 32, 460800, 14400, 7200, 9.22e5, 2.45e6, 1.55e4, 7.58e3, 5.25e-4, 4.84e-6, 1.04e-6,
     1.77e-7},
    {7.2, 16, 921600, 57600, 28800, 3.69e6, 9.81e6, 6.19e4, 9.86e3, 1.05e-3, 1.83e-5, 4.16e-6,
     1.77e-7},
};

// Table 2, and what section 5.1 and table 1 imply: 32 lanes of PCIe 4.0 for each CPU, and no more
// than 8 GB/s for a GPU.
constexpr double kGpuMemory = 32;    // GB
constexpr double kGpuLink = 8;       // GB/s
constexpr double kCpuLink = 64;      // GB/s
constexpr double kNodeMemory = 340;  // GB/s
constexpr double kNodeSsd = 2.15;    // GB/s
constexpr double kCpusPerNode = 2;
constexpr double kGpusPerExaflop = 128000;  // 460800 for 3.6
constexpr double kPfsPerDoubling = 1.3;

Machine from_column(const PublishedSystem& system) {
  Machine machine;
  machine.nodes = system.nodes;
  machine.gpus_per_node = system.gpus / system.nodes;
  machine.cpus_per_node = system.cpus / system.nodes;
  machine.gpu_memory = kGpuMemory;
  machine.gpu_link = kGpuLink;
  machine.node_link = kCpuLink * kCpusPerNode;
  machine.node_memory = system.memory / system.nodes;
  machine.ssd_write = machine.ssd_read = system.ssd / system.nodes;
  machine.pfs_write = machine.pfs_read = system.pfs;
  machine.gpu_rate = system.gpu_failures / system.gpus;
  machine.cpu_rate = system.cpu_failures / system.cpus;
  machine.node_rate = system.node_failures / system.nodes;
  machine.system_rate = system.system_failures;
  return machine;
}

const PublishedSystem* find_system(double exaflops, double gpus_per_cpu) {
  for (const PublishedSystem& system : kSystems) {
    if (system.exaflops == exaflops && system.gpus_per_cpu == gpus_per_cpu) return &system;
  }
  return nullptr;
}

// From the paper: a node has two quad-core CPUs with 32 GB, and a card with two GPU chips of 1 GB
// each on PCIe 2.0; experiments went up to 1024 nodes with a process for each core. The paper gives
// no bandwidths, sizes or failure rates: all others are assumed.
Machine tianhe() {
  Machine machine;
  machine.name = "tianhe-1";
  machine.nodes = 1024;
  machine.gpus_per_node = 2;
  machine.cpus_per_node = 2;
  machine.gpu_memory = 1;
  machine.cpu_memory = 16;
  machine.gpu_link = 4;  // PCIe 2.0 x16, shared by two chips
  machine.node_link = 8;
  machine.node_memory = 25;                   // assumed
  machine.pfs_write = machine.pfs_read = 25;  // assumed: 64 storage targets
  machine.gpu_rate = 1.14e-9;                 // assumed: as in GPU Snapshot's table 1
  machine.cpu_rate = 3.17e-10;                // assumed: the same
  machine.node_rate = 1.44e-10;               // assumed: the same
  machine.system_rate = 1.77e-7;              // assumed: the same
  machine.processes = 8192;
  machine.process_size = 0.1;        // assumed
  machine.collect_s = 0.5;           // assumed
  machine.compress_s = 8;            // assumed
  machine.compression_ratio = 0.65;  // "from 0.5 to 0.8"
  machine.process_rate = 0.04;       // assumed
  return machine;
}

constexpr std::string_view kSnapshotName = "snapshot-ics19";

bool parse_between(std::string_view text, double least, double most, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least &&
         number <= most;
}

// "snapshot-ics19:EXAFLOPS:GPUS_PER_CPU"
Result<Machine> scaled_snapshot_machine(std::string_view name) {
  const std::string_view scale = name.substr(kSnapshotName.size());
  const size_t colon = scale.find(':', 1);
  double exaflops = 0, density = 0;
  if (scale[0] != ':' || colon == std::string_view::npos ||
      !parse_between(scale.substr(1, colon - 1), 0.01, 1000, exaflops) ||
      !parse_between(scale.substr(colon + 1), 1, 256, density)) {
    return Status(Code::kInvalid,
                  "no machine '" + std::string(name) +
                      "': give 0.01 to 1000 exaflops and 1 to 256 GPUs per CPU, as in "
                      "snapshot-ics19:3.6:16");
  }
  Machine machine = snapshot_machine(exaflops, density);
  machine.name = name;
  return machine;
}

constexpr PublishedPoint kPoints[] = {
    {"baseline", 0.849, false, 1, 1, 0},
    {"memory free", 0.927, false, 1, 1, 1},
    {"memory and SSD free", 0.972, false, 1, 1, 2},
    {"a tenth of the GPU failures", 0.90, false, 0.1, 1, 0},
    {"50 times the GPU failures", 0.54, true, 50, 1, 0},
    {"10 times the GPU failures, GPU Snapshot", 0.90, false, 10, kSnapshotStall, 0},
    {"50 times the GPU failures, GPU Snapshot", 0.90, false, 50, kSnapshotStall, 0},
};

}  // namespace

std::span<const PublishedSystem> published_systems() {
  return kSystems;
}

Machine snapshot_machine(double exaflops, double gpus_per_cpu) {
  const PublishedSystem* const published = find_system(exaflops, gpus_per_cpu);
  const PublishedSystem& reference = *find_system(3.6, 16);
  Machine machine = from_column(published != nullptr ? *published : reference);
  if (published == nullptr) {
    const double gpus = exaflops * kGpusPerExaflop;
    machine.nodes = gpus / gpus_per_cpu / kCpusPerNode;
    machine.gpus_per_node = gpus_per_cpu * kCpusPerNode;
    machine.node_memory = kNodeMemory;
    machine.ssd_write = machine.ssd_read = kNodeSsd;
    machine.pfs_write = machine.pfs_read =
        reference.pfs * std::pow(kPfsPerDoubling, std::log2(exaflops / reference.exaflops));
  }
  machine.name = "snapshot-ics19";
  return machine;
}

std::vector<std::string> machine_names() {
  return {"snapshot-ics19", "tianhe-1"};
}

Result<Machine> published_machine(std::string_view name) {
  if (name == kSnapshotName) return snapshot_machine(3.6, 16);
  if (name.starts_with(kSnapshotName)) return scaled_snapshot_machine(name);
  if (name == "tianhe-1") return tianhe();
  std::string names;
  for (const std::string& known : machine_names()) names += (names.empty() ? "" : ", ") + known;
  return Status(Code::kNotFound, "no machine '" + std::string(name) + "': there are " + names);
}

std::span<const PublishedPoint> published_points() {
  return kPoints;
}

double efficiency_of(const PublishedPoint& point, Model model) {
  Machine machine = snapshot_machine(3.6, 16);
  machine.gpu_failures = point.gpu_failures;
  machine.memory_stall = point.stall;
  return optimise(model, with_free_levels(levels_of(machine), point.free_levels)).efficiency;
}

}  // namespace gpusnap::plan
