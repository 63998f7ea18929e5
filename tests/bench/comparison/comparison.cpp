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

#include "tests/bench/comparison/configuration.h"
#include "tests/bench/json_line.h"

namespace gpusnap::comparison {

namespace {

std::string report(const std::string& line, const Scenario& scenario, const Outcome& outcome) {
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
  if (scenario.flushing.is_adaptive) json.number("flushes", outcome.flushes);
  return json.end();
}

int run(std::istream& input) {
  for (std::string line; std::getline(input, line);) {
    std::string error;
    const std::optional<Scenario> scenario = parse_configuration(line, error);
    if (!scenario) {
      std::cerr << "comparison: " << error << "\n";
      return 64;
    }
    std::cout << report(line, *scenario, simulate(*scenario)) << std::endl;
  }
  return 0;
}

}  // namespace

}  // namespace gpusnap::comparison

int main() {
  return gpusnap::comparison::run(std::cin);
}
