// SPDX-License-Identifier: Apache-2.0
//
// Simulates shots on a virtual clock: processes that write checkpoints and read them back, with the
// decisions of gpusnap::history::Planner, or in managed memory. Nothing moves but numbers.
//
//   shots < CONFIGURATIONS
//
// Each line of the input is a configuration of words KEY=VALUE; see Configuration. For each, one
// line of JSON is printed, in the same order. The same line always gives the same result.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/shots/configuration.h"
#include "tests/bench/shots/engine.h"
#include "tests/bench/shots/report.h"
#include "tests/bench/shots/shot.h"

namespace gpusnap::shots {

namespace {

Planner::Options planner_options(const Configuration& configuration) {
  using history::Evictor;
  Planner::Options options;
  const Evictor evictor = configuration.evictor;
  if (configuration.has_device_cache) {
    options.caches.push_back({configuration.device_cache, 256, evictor});
  }
  options.caches.push_back({configuration.host_cache, 4096, evictor});
  options.discard_consumed = configuration.discards_consumed;
  return options;
}

// All processes of a job.
class Job {
 public:
  explicit Job(const Configuration& configuration)
      : configuration_(configuration), barrier_(clock_, configuration.gpus) {
    const unsigned per_node = configuration.machine.gpus_per_node;
    for (unsigned gpu = 0; gpu < configuration.gpus; ++gpu) {
      if (gpu % per_node == 0) {
        nodes_.push_back(std::make_unique<Node>(clock_, configuration.machine));
      }
      add_process(gpu);
    }
  }

  void run() {
    for (const auto& shot : shots_) shot->start();
    clock_.run();
  }

  std::vector<Process> processes() const {
    std::vector<Process> processes;
    for (size_t i = 0; i < shots_.size(); ++i)
      processes.push_back({*runtimes_[i], shots_[i]->result()});
    return processes;
  }

 private:
  void add_process(unsigned gpu) {
    const unsigned in_node = gpu % configuration_.machine.gpus_per_node;
    runtimes_.push_back(configuration_.is_managed ? make_managed(in_node) : make_planned(in_node));
    Work work = make_work(configuration_.sizes, configuration_.order, configuration_.checkpoints,
                          configuration_.size, configuration_.seed, gpu);
    shots_.push_back(std::make_unique<Shot>(clock_, *runtimes_.back(), std::move(work),
                                            configuration_.behaviour,
                                            configuration_.has_barrier ? &barrier_ : nullptr));
  }

  std::unique_ptr<Runtime> make_planned(unsigned gpu) {
    Engine::Options options = {.planner = planner_options(configuration_),
                               .tiers = {Medium::kHost, Medium::kDrives},
                               .pinning = configuration_.machine.pinning};
    if (configuration_.has_device_cache) {
      options.tiers.insert(options.tiers.begin(), Medium::kDevice);
    }
    return std::make_unique<Engine>(clock_, *nodes_.back(), gpu, std::move(options));
  }

  std::unique_ptr<Runtime> make_managed(unsigned gpu) {
    ManagedEngine::Options options = configuration_.managed;
    options.device_cache = configuration_.device_cache;
    options.host_cache = configuration_.host_cache;
    options.pinning = configuration_.machine.pinning;
    options.discards_consumed = configuration_.discards_consumed;
    return std::make_unique<ManagedEngine>(clock_, *nodes_.back(), gpu, options);
  }

  const Configuration configuration_;
  Clock clock_;
  Barrier barrier_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Runtime>> runtimes_;
  std::vector<std::unique_ptr<Shot>> shots_;
};

int run(std::istream& input) {
  for (std::string line; std::getline(input, line);) {
    std::string error;
    const std::optional<Configuration> configuration = parse_configuration(line, error);
    if (!configuration) {
      std::cerr << "shots: " << error << "\n";
      return 64;
    }
    Job job(*configuration);
    job.run();
    std::cout << report(line, *configuration, job.processes()) << std::endl;
  }
  return 0;
}

}  // namespace

}  // namespace gpusnap::shots

int main() {
  return gpusnap::shots::run(std::cin);
}
