// SPDX-License-Identifier: Apache-2.0
//
// Simulates checkpointing to a node's tiers and to a store that nodes share, on a virtual clock,
// with the decisions of gpusnap::Placement. Nothing moves but numbers.
//
//   comparison < CONFIGURATIONS
//
// Each line of the input is a configuration of words KEY=VALUE; see configuration.h. For each, one
// line of JSON is printed, in the same order. The same line always gives the same result.
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/comparison/configuration.h"
#include "tests/bench/json_line.h"

namespace gpusnap::comparison {

namespace {

// The throughput of the SSD by the number of writers, from 1 on, and what the model makes of it.
void report_model(bench::JsonLine& json, const Scenario& scenario) {
  const Curve& ssd = scenario.machine.ssd;
  const ThroughputModel model = model_of(ssd, scenario.writers);
  std::vector<ThroughputSample> all;
  std::vector<double> rates, predicted;
  for (uint32_t writers = 1; writers <= scenario.writers; ++writers) {
    all.push_back({writers, ssd(writers)});
    rates.push_back(ssd(writers));
    predicted.push_back(model.total(writers));
  }
  const ThroughputModel::Error error = model.error_against(all);
  json.number("model_error_mean", error.mean);
  json.number("model_error_most", error.most);
  json.number("model_error_most_at", error.most_at);
  json.numbers("ssd_rates", rates);
  json.numbers("ssd_predicted", predicted);
}

std::string report(const std::string& line, const Configuration& configuration,
                   const Outcome& outcome) {
  const Scenario& scenario = configuration.scenario;
  bench::JsonLine json;
  json.text("configuration", line);
  json.text("wrong", outcome.wrong);
  json.number("local_s", outcome.local_s);
  json.number("complete_s", outcome.complete_s);
  json.number("increase_s", outcome.increase_s);
  json.number("ssd_chunks", outcome.placed[1]);
  json.number("chunks", static_cast<double>(scenario.chunks_of_node()) * scenario.nodes);
  json.number("cache_peak", static_cast<double>(outcome.peaks[0]));
  json.number("flush_bandwidth", outcome.flush_bandwidth);
  if (scenario.flushing.is_adaptive || scenario.flushing.is_product)
    json.number("flushes", outcome.flushes);
  if (configuration.reports_model) report_model(json, scenario);
  return json.end();
}

int run(std::istream& input) {
  for (std::string line; std::getline(input, line);) {
    std::string error;
    const std::optional<Configuration> configuration = parse_configuration(line, error);
    if (!configuration) {
      std::cerr << "comparison: " << error << "\n";
      return 64;
    }
    std::cout << report(line, *configuration, simulate(configuration->scenario)) << std::endl;
  }
  return 0;
}

}  // namespace

}  // namespace gpusnap::comparison

int main() {
  return gpusnap::comparison::run(std::cin);
}
