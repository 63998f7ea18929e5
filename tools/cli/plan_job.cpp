// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/plan_job.h"

#include <algorithm>
#include <map>

namespace gpusnap {
namespace {

// A rank lists the devices up to the last one that it used. Ranks that each use the first device
// that they see count as one device each.
void count_devices(const CheckpointInfo& checkpoint, plan::JobCosts& costs) {
  struct Host {
    size_t ranks = 0, most_devices = 1;
  };
  std::map<std::string, Host> hosts;
  for (const Manifest& rank : checkpoint.ranks) {
    Host& host = hosts[rank.host];
    ++host.ranks;
    host.most_devices = std::max(host.most_devices, rank.program.devices.size());
  }
  size_t gpus = 0;
  for (const auto& [name, host] : hosts) {
    gpus += host.most_devices > 1 ? host.most_devices : host.ranks;
  }
  costs.nodes = static_cast<double>(hosts.size());
  costs.gpus = static_cast<double>(gpus);
}

}  // namespace

Result<plan::JobCosts> costs_of_job(const std::vector<CheckpointInfo>& checkpoints,
                                    const std::string& job) {
  plan::JobCosts costs;
  const CheckpointInfo* newest = nullptr;
  double complete = 0, stall_ns = 0, increments = 0, dirty = 0;
  for (const CheckpointInfo& checkpoint : checkpoints) {
    const bool usable = checkpoint.state == CheckpointState::kComplete && checkpoint.bytes > 0 &&
                        !checkpoint.ranks.empty();
    if (!usable) continue;
    if (newest == nullptr || checkpoint.epoch > newest->epoch) newest = &checkpoint;
    complete += 1;
    stall_ns += static_cast<double>(checkpoint.stall_ns);
    if (checkpoint.chain == 0) continue;
    increments += 1;
    dirty += static_cast<double>(checkpoint.own_bytes) / static_cast<double>(checkpoint.bytes);
  }
  if (newest == nullptr) {
    return Status(Code::kNotFound,
                  "job '" + job + "' has no complete checkpoint of device memory to plan from");
  }
  count_devices(*newest, costs);
  costs.bytes = static_cast<double>(newest->bytes);
  costs.stall_seconds = stall_ns / complete / 1e9;
  if (increments > 0) costs.dirty = std::min(1.0, dirty / increments);
  return costs;
}

}  // namespace gpusnap
