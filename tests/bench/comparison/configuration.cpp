// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/configuration.h"

#include <functional>
#include <map>

#include "tests/bench/words.h"

namespace gpusnap::comparison {

namespace {

using bench::Names;
using bench::set_flag;
using bench::set_name;
using bench::set_number;

const Names<Flushing::Order> kOrders = {{"written", Flushing::Order::kWritten},
                                        {"cache-first", Flushing::Order::kCacheFirst},
                                        {"product", Flushing::Order::kProduct}};

// Words from which a scenario is made once all are read.
struct Words {
  Configuration configuration;
  bool is_ideal = false;
  double memory = 20e9, memory_of_one = 0;
  SsdCurve ssd;
};

bool set_approach(Words& to, const std::string& value) {
  to.is_ideal = value == "ideal";
  to.configuration.scenario.is_synchronous = value == "synchronous";
  if (to.is_ideal || to.configuration.scenario.is_synchronous) {
    to.configuration.scenario.policy = PlacementPolicy::kCacheOnly;
    return true;
  }
  const std::optional<PlacementPolicy> policy = parse_policy(value);
  if (policy) to.configuration.scenario.policy = *policy;
  return policy.has_value();
}

bool set_flushes(Flushing& to, const std::string& value) {
  to.is_adaptive = value == "auto";
  to.is_product = value == "product";
  if (to.is_adaptive || to.is_product) return true;
  if (value != "each") return set_number(value, to.threads, 1, 1);
  to.threads = 0;
  return true;
}

bool set(Words& to, const std::string& key, const std::string& value) {
  Scenario& scenario = to.configuration.scenario;
  Store& store = scenario.machine.store;
  const auto number = [&value](auto& field, double least = 0) {
    return [&value, &field, least] { return set_number(value, field, 1, least); };
  };
  const std::map<std::string, std::function<bool()>> setters = {
      {"approach", [&] { return set_approach(to, value); }},
      {"flushes", [&] { return set_flushes(scenario.flushing, value); }},
      {"order", [&] { return set_name(kOrders, value, scenario.flushing.order); }},
      {"waits", [&] { return set_flag(value, scenario.flushing.counts_waits); }},
      {"period_s", number(scenario.period_s)},
      {"nodes", number(scenario.nodes, 1)},
      {"writers", number(scenario.writers, 1)},
      {"chunks", number(scenario.chunks, 1)},
      {"cache_chunks", number(scenario.cache_chunks, 1)},
      {"staging_slots", number(scenario.staging_slots)},
      {"first_flush", number(scenario.first_flush_bandwidth)},
      {"checkpoints", number(scenario.checkpoints, 1)},
      {"compute_s", number(scenario.compute_s)},
      {"compute_after_s", number(scenario.compute_after_s)},
      {"warm_up", number(scenario.warm_up)},
      {"slowdown", number(scenario.slowdown)},
      {"model", [&] { return set_flag(value, to.configuration.reports_model); }},
      {"seed", number(scenario.seed)},
      {"memory", number(to.memory, 1)},
      {"memory_of_one", number(to.memory_of_one)},
      {"ssd", number(to.ssd.peak, 1)},
      {"ssd_best", number(to.ssd.best, 1)},
      {"ssd_rise", number(to.ssd.rise)},
      {"ssd_decline", number(to.ssd.decline)},
      {"read_weight", number(scenario.machine.read_weight)},
      {"store", number(store.of_node, 1)},
      {"store_files", number(store.best_files, 1)},
      {"store_decline", number(store.decline)},
      {"store_total", number(store.total, 1)},
      {"store_left", number(store.least_left, 0.01)},
      {"interval_s", number(store.interval_s, 0.1)}};
  const auto found = setters.find(key);
  return found != setters.end() && found->second();
}

}  // namespace

std::optional<Configuration> parse_configuration(const std::string& line, std::string& error) {
  Words words;
  const auto set_word = [&words](const std::string& key, const std::string& value) {
    return set(words, key, value);
  };
  if (!bench::read_words(line, set_word, error)) return std::nullopt;
  Scenario& scenario = words.configuration.scenario;
  if (scenario.slowdown >= 1 || scenario.machine.store.least_left > 1 ||
      scenario.warm_up >= scenario.checkpoints) {
    error = "slowdown is less than 1, store_left at most 1, and warm_up less than checkpoints";
    return std::nullopt;
  }
  scenario.machine.memory = memory_curve(words.memory, words.memory_of_one);
  scenario.machine.ssd = words.ssd;
  if (words.is_ideal) {
    scenario.cache_chunks = scenario.chunks_of_node() * scenario.checkpoints;
    scenario.flushing = {.threads = static_cast<uint32_t>(scenario.machine.store.best_files)};
  }
  return words.configuration;
}

}  // namespace gpusnap::comparison
