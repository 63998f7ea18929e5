// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace gpusnap::plan {
namespace {

constexpr double kMost = 1e15;
constexpr double kAboveZero = 1e-15;

constexpr Input kInputs[] = {
    {"nodes", &Machine::nodes, 1, 1e9, true, "nodes of the job"},
    {"gpus_per_node", &Machine::gpus_per_node, 1, 1e6, true, "GPUs of a node"},
    {"cpus_per_node", &Machine::cpus_per_node, 0, 1e6, false, "CPUs of a node (1)"},
    {"memory.gpu", &Machine::gpu_memory, kAboveZero, kMost, true,
     "GB of each GPU that a checkpoint holds"},
    {"memory.cpu", &Machine::cpu_memory, 0, kMost, false,
     "GB of each CPU that a checkpoint holds (0)"},
    {"memory.dirty", &Machine::gpu_dirty, 0, 1, false,
     "share of it that changes between checkpoints (1: full checkpoints)"},
    {"memory.stored", &Machine::stored, kAboveZero, 1, false,
     "share that compression leaves of what goes to SSD and PFS (1: none)"},
    {"link.gpu", &Machine::gpu_link, kAboveZero, kMost, true, "GB/s from one GPU to its host"},
    {"link.node", &Machine::node_link, kAboveZero, kMost, true,
     "GB/s from all GPUs of a node to its host"},
    {"link.memory", &Machine::node_memory, kAboveZero, kMost, true,
     "GB/s into the memory of a node"},
    {"ssd.write", &Machine::ssd_write, 0, kMost, true,
     "GB/s to the SSDs of a node; 0: it has none"},
    {"ssd.read", &Machine::ssd_read, 0, kMost, false, "GB/s from them (as ssd.write)"},
    {"pfs.write", &Machine::pfs_write, kAboveZero, kMost, true, "GB/s of the machine to the PFS"},
    {"pfs.read", &Machine::pfs_read, kAboveZero, kMost, false, "GB/s from it (as pfs.write)"},
    {"stall.memory", &Machine::memory_stall, 0, 1, false,
     "share of a checkpoint to memory that holds the program (1: blocking)"},
    {"stall.ssd", &Machine::ssd_stall, 0, 1, false, "the same of one to the SSD (1)"},
    {"stall.pfs", &Machine::pfs_stall, 0, 1, false, "the same of one to the PFS (1)"},
    {"stall.seconds", &Machine::stall_seconds, 0, kMost, false,
     "seconds that any checkpoint holds the program, measured; replaces stall.memory (0: unknown)"},
    {"restart.extra", &Machine::restart_extra, 0, kMost, false,
     "seconds that any restart takes before it reads (0)"},
    {"rates.gpu", &Machine::gpu_rate, 0, 1e6, true, "failures/s of one GPU"},
    {"rates.cpu", &Machine::cpu_rate, 0, 1e6, false, "failures/s of one CPU (0)"},
    {"rates.node", &Machine::node_rate, 0, 1e6, true, "failures/s of one node"},
    {"rates.system", &Machine::system_rate, 0, 1e6, true, "failures/s of the whole machine"},
    {"failures.gpu", &Machine::gpu_failures, 0, 1e9, false, "times rates.gpu (1)"},
    {"failures.cpu", &Machine::cpu_failures, 0, 1e9, false, "times rates.cpu (1)"},
    {"failures.node", &Machine::node_failures, 0, 1e9, false, "times rates.node (1)"},
    {"failures.system", &Machine::system_failures, 0, 1e9, false, "times rates.system (1)"},
    {"compression.size", &Machine::process_size, 0, kMost, false,
     "GB that one process saves, for the cost model of compression (0: not asked for)"},
    {"compression.processes", &Machine::processes, 0, 1e12, false, "processes of the job"},
    {"compression.collect", &Machine::collect_s, 0, kMost, false, "seconds to collect them"},
    {"compression.compress", &Machine::compress_s, 0, kMost, false, "seconds to compress them"},
    {"compression.ratio", &Machine::compression_ratio, kAboveZero, 1e3, false,
     "compressed over uncompressed bytes (0.65)"},
    {"compression.rate", &Machine::process_rate, 0, kMost, false,
     "GB/s that one process can store"},
};

const Input* find_input(std::string_view key) {
  for (const Input& input : kInputs) {
    if (key == input.key) return &input;
  }
  return nullptr;
}

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

bool parse_number(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

Status unknown_key(std::string_view key) {
  std::string keys;
  for (const Input& input : kInputs) keys += std::string(keys.empty() ? "" : ", ") + input.key;
  return {Code::kInvalid, "unknown input " + quoted(key) + ": there are " + keys};
}

}  // namespace

std::span<const Input> inputs() {
  return kInputs;
}

Status set_input(Machine& machine, std::string_view key, std::string_view value) {
  const Input* const input = find_input(key);
  if (input == nullptr) return unknown_key(key);
  const bool times = value.ends_with('x');
  double number = 0;
  if (!parse_number(value.substr(0, value.size() - (times ? 1 : 0)), number)) {
    return {Code::kInvalid,
            std::string(input->key) + ": " + quoted(value) + " is no number such as 12.5, or 2x"};
  }
  double& member = machine.*input->member;
  if (times) number *= member;
  if (!(number >= input->least && number <= input->most)) {
    const bool open = input->least == kAboveZero;
    return {Code::kInvalid, std::string(input->key) + ": " + quoted(value) + " is not " +
                                (open ? "above 0" : "from " + short_number(input->least)) +
                                (open ? " and up to " : " to ") + short_number(input->most)};
  }
  member = number;
  return {};
}

std::vector<Level> levels_of(const Machine& machine) {
  const double gpu_whole = machine.gpus_per_node * machine.gpu_memory;  // GB of a node
  const double cpu_whole = machine.cpus_per_node * machine.cpu_memory;
  const double whole = gpu_whole + cpu_whole;
  const double written = whole * machine.gpu_dirty * machine.stored;
  const double read = whole * machine.stored;
  const double gpu_rate = std::min(machine.gpus_per_node * machine.gpu_link, machine.node_link);
  // CPU memory is copied within the host after what the GPUs send.
  const auto memory_s = [&](double share) {
    return share *
           (gpu_whole / std::min(gpu_rate, machine.node_memory) + cpu_whole / machine.node_memory);
  };
  // A measured stall is part of checkpoints to every level.
  const bool measured = machine.stall_seconds > 0;
  const auto level = [&](const char* name, double write_s, double stall, double read_s,
                         double failures_per_s) {
    const double held_s = write_s * stall + machine.stall_seconds;
    return Level{name, held_s, std::max(0.0, write_s - held_s), machine.restart_extra + read_s,
                 failures_per_s};
  };
  std::vector<Level> levels = {level("memory", memory_s(machine.gpu_dirty),
                                     measured ? 0 : machine.memory_stall, memory_s(1),
                                     machine.gpus() * machine.gpu_rate * machine.gpu_failures +
                                         machine.cpus() * machine.cpu_rate * machine.cpu_failures)};
  double lost_nodes = machine.nodes * machine.node_rate * machine.node_failures;
  if (machine.ssd_write > 0 && machine.ssd_read > 0) {
    levels.push_back(level("ssd", written / machine.ssd_write, machine.ssd_stall,
                           read / machine.ssd_read, lost_nodes));
    lost_nodes = 0;
  }
  levels.push_back(level("pfs", machine.nodes * written / machine.pfs_write, machine.pfs_stall,
                         machine.nodes * read / machine.pfs_read,
                         lost_nodes + machine.system_rate * machine.system_failures));
  return levels;
}

Result<CompressionCosts> compression_costs(const Machine& machine) {
  constexpr double kGigabyte = 1e9;
  if (machine.process_size == 0) return Status(Code::kNotFound, "no compression.size");
  const CompressionCosts costs = {machine.process_size * kGigabyte,
                                  machine.collect_s,
                                  machine.compress_s,
                                  machine.compression_ratio,
                                  machine.process_rate * kGigabyte,
                                  machine.pfs_write * kGigabyte};
  const Status good = check(costs);
  if (!good.ok()) return good;
  return costs;
}

Machine with_job(Machine machine, const JobCosts& job) {
  constexpr double kGigabyte = 1e9;
  machine.nodes = job.nodes;
  machine.gpus_per_node = job.gpus / job.nodes;
  machine.gpu_memory = job.bytes / job.gpus / kGigabyte;
  machine.cpu_memory = 0;
  machine.gpu_dirty = job.dirty;
  machine.stall_seconds = job.stall_seconds;
  machine.ssd_stall = machine.pfs_stall = 0;
  return machine;
}

std::vector<Level> with_free_levels(std::vector<Level> levels, size_t count) {
  for (size_t i = 0; i < std::min(count, levels.size()); ++i) {
    levels[i].stall_s = levels[i].latency_s = levels[i].restart_s = 0;
  }
  return levels;
}

Machine blocking(Machine machine) {
  machine.memory_stall = machine.ssd_stall = machine.pfs_stall = machine.gpu_dirty = 1;
  machine.stall_seconds = 0;
  return machine;
}

}  // namespace gpusnap::plan
