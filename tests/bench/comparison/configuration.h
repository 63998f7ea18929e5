// SPDX-License-Identifier: Apache-2.0
//
// A scenario as a line of words.
#pragma once

#include <optional>
#include <string>

#include "tests/bench/comparison/scenario.h"

namespace gpusnap::comparison {

struct Configuration {
  Scenario scenario;
  bool reports_model = false;  // model=0|1: the SSD's curve, and the model of it
};

// Defaults are those of Scenario, with the paper's machine. Without a value, `error` says which
// word is wrong.
//
//   approach=hybrid-opt|hybrid-naive|ssd-only|cache-only   a policy
//   approach=ideal         the cache holds all chunks, and flushes are as many as the store is best
//   at approach=synchronous   writers write to the store themselves flushes=each|N|auto
//   order=written|cache-first
std::optional<Configuration> parse_configuration(const std::string& line, std::string& error);

}  // namespace gpusnap::comparison
