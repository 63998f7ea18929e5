// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/configuration.h"

#include <functional>
#include <map>

#include "tests/bench/words.h"

namespace gpusnap::shots {

namespace {

using bench::Names;
using bench::set_flag;
using bench::set_name;
using bench::set_number;

const Names<history::Evictor> kEvictors = {
    {"score", history::Evictor::kScore},   {"as-printed", history::Evictor::kAsPrinted},
    {"fifo", history::Evictor::kFifo},     {"lru", history::Evictor::kLru},
    {"no-device", history::Evictor::kLru}, {"managed", history::Evictor::kLru}};
const Names<Hints> kHints = {
    {"none", Hints::kNone}, {"single", Hints::kSingle}, {"all", Hints::kAll}};
const Names<Order> kOrders = {{"sequential", Order::kSequential},
                              {"reverse", Order::kReverse},
                              {"irregular", Order::kIrregular}};
const Names<Sizes> kSizes = {{"uniform", Sizes::kUniform}, {"variable", Sizes::kVariable}};

bool set(Configuration& to, const std::string& key, const std::string& value) {
  constexpr double kMib = 1 << 20, kMs = 1e6;
  const std::map<std::string, std::function<bool()>> setters = {
      {"approach",
       [&] {
         to.has_device_cache = value != "no-device";
         to.is_managed = value == "managed";
         return set_name(kEvictors, value, to.evictor);
       }},
      {"hints", [&] { return set_name(kHints, value, to.behaviour.hints); }},
      {"order", [&] { return set_name(kOrders, value, to.order); }},
      {"sizes", [&] { return set_name(kSizes, value, to.sizes); }},
      {"wait", [&] { return set_flag(value, to.behaviour.waits_for_flushes); }},
      {"interval_ms", [&] { return set_number(value, to.behaviour.interval_ns, kMs); }},
      {"discard", [&] { return set_flag(value, to.discards_consumed); }},
      {"barrier", [&] { return set_flag(value, to.has_barrier); }},
      {"seed", [&] { return set_number(value, to.seed); }},
      {"gpus", [&] { return set_number(value, to.gpus, 1, 1); }},
      {"checkpoints", [&] { return set_number(value, to.checkpoints, 1, 1); }},
      {"size_mib", [&] { return set_number(value, to.size, kMib, 1 / kMib); }},
      {"device_cache_mib", [&] { return set_number(value, to.device_cache, kMib); }},
      {"host_cache_mib", [&] { return set_number(value, to.host_cache, kMib); }},
      {"device", [&] { return set_number(value, to.machine.device, 1, 1); }},
      {"link", [&] { return set_number(value, to.machine.link, 1, 1); }},
      {"drives", [&] { return set_number(value, to.machine.drives, 1, 1); }},
      {"host_memory", [&] { return set_number(value, to.machine.host_memory); }},
      {"pinning", [&] { return set_number(value, to.machine.pinning); }},
      {"migrations", [&] { return set_number(value, to.machine.migrations, 1, 1); }},
      {"faults", [&] { return set_number(value, to.machine.faults, 1, 1); }},
      {"batch", [&] { return set_number(value, to.managed.batch, 1, 1); }},
      {"flushes_by_hints", [&] { return set_flag(value, to.managed.flushes_by_hints); }},
      {"moves_consumed", [&] { return set_flag(value, to.managed.moves_consumed); }},
      {"iterations", [&] { return set_flag(value, to.reports_iterations); }}};
  const auto found = setters.find(key);
  return found != setters.end() && found->second();
}

}  // namespace

std::optional<Configuration> parse_configuration(const std::string& line, std::string& error) {
  Configuration configuration;
  configuration.behaviour.interval_ns = 10'000'000;
  const auto set_word = [&configuration](const std::string& key, const std::string& value) {
    return set(configuration, key, value);
  };
  if (!bench::read_words(line, set_word, error)) return std::nullopt;
  if (!configuration.has_device_cache) configuration.behaviour.hints = Hints::kNone;
  return configuration;
}

}  // namespace gpusnap::shots
