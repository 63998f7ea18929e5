// SPDX-License-Identifier: Apache-2.0
//
//   auto_model < CONFIGURATIONS
//
// Each line of the input has words KEY=VALUE, as set_word() names them; for each, one line of JSON
// is printed, in the same order. The same line always gives the same result.
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/auto/job.h"
#include "tests/bench/json_line.h"
#include "tests/bench/words.h"

namespace gpusnap::bench {
namespace {

// Apart by commas.
bool set_times(const std::string& value, std::vector<double>& to) {
  std::istringstream words(value);
  for (std::string word; std::getline(words, word, ',');) {
    if (!set_number(word, to.emplace_back())) return false;
  }
  return true;
}

bool set_word(const std::string& key, const std::string& value, JobConfiguration& into) {
  const Names<double*> numbers = {
      {"work_s", &into.work_s},
      {"mtbf_s", &into.between_failures_s},
      {"said_mtbf_s", &into.said_between_failures_s},
      {"restart_s", &into.restart_s},
      {"stall_s", &into.costs.stall_s},
      {"latency_s", &into.costs.latency_s},
      {"interval_s", &into.interval_s},
      {"later_stall_s", &into.later.stall_s},
      {"later_latency_s", &into.later.latency_s},
      {"changes_at", &into.changes_at},
      {"first_costs", &into.first_costs},
      {"full_costs", &into.full_costs},
      {"deviation", &into.deviation},
      {"survived", &into.survived},
      {"memory_stall_s", &into.memory.stall_s},
      {"memory_latency_s", &into.memory.latency_s},
      {"memory_restart_s", &into.memory_restart_s},
  };
  if (key == "failures_s") return set_times(value, into.failures_s);
  if (key == "seed") return set_number(value, into.seed);
  double* number = nullptr;
  return set_name(numbers, key, number) && set_number(value, *number);
}

// Empty, or why it cannot be simulated.
std::string fault_of(const JobConfiguration& job) {
  if (job.work_s <= 0 || job.between_failures_s <= 0) return "work and mtbf above 0";
  if (job.changes_at > 1) return "changes_at up to 1";
  if (job.survived < 0 || job.survived > plan::kMostSurvived) return "survived from 0 to 0.9999";
  for (const Costs& costs : {job.costs, job.later}) {
    if (costs.stall_s <= 0) return "stalls above 0";
  }
  return {};
}

void print(const JobConfiguration& job) {
  const JobOutcome outcome = run_job(job);
  JsonLine line;
  line.number("work_s", job.work_s);
  line.number("total_s", outcome.total_s);
  line.number("stall_s", outcome.stall_s);
  line.number("restart_s", outcome.restart_s);
  line.number("lost_s", outcome.lost_s);
  line.number("failures", static_cast<double>(outcome.failures));
  line.number("checkpoints", static_cast<double>(outcome.checkpoints));
  line.number("kept", static_cast<double>(outcome.kept));
  line.number("restored", static_cast<double>(outcome.restored));
  line.number("interval_s", outcome.interval_s);
  line.number("predicted_s", predicted_total_s(job));
  line.number("known_s", known_interval_s(job, job.costs));
  line.text("wrong", outcome.has_ended ? "" : "it does not end");
  std::cout << line.end() << std::endl;
}

int run() {
  for (std::string line; std::getline(std::cin, line);) {
    JobConfiguration job;
    std::string error;
    const auto set = [&](const std::string& key, const std::string& value) {
      return set_word(key, value, job);
    };
    if (read_words(line, set, error)) error = fault_of(job);
    if (!error.empty()) {
      std::cerr << "auto_model: " << error << ": " << line << '\n';
      return 2;
    }
    print(job);
  }
  return 0;
}

}  // namespace
}  // namespace gpusnap::bench

int main() {
  return gpusnap::bench::run();
}
