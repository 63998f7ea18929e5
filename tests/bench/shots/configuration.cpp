// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/configuration.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>

namespace gpusnap::shots {

namespace {

template <typename T>
using Names = std::map<std::string, T>;

const Names<history::Evictor> kEvictors = {{"score", history::Evictor::kScore},
                                           {"as-printed", history::Evictor::kAsPrinted},
                                           {"fifo", history::Evictor::kFifo},
                                           {"lru", history::Evictor::kLru},
                                           {"no-device", history::Evictor::kLru}};
const Names<Hints> kHints = {
    {"none", Hints::kNone}, {"single", Hints::kSingle}, {"all", Hints::kAll}};
const Names<Order> kOrders = {{"sequential", Order::kSequential},
                              {"reverse", Order::kReverse},
                              {"irregular", Order::kIrregular}};
const Names<Sizes> kSizes = {{"uniform", Sizes::kUniform}, {"variable", Sizes::kVariable}};

// Each returns false if the value cannot be read.
template <typename T>
bool set_name(const Names<T>& names, const std::string& value, T& to) {
  const auto found = names.find(value);
  if (found == names.end()) return false;
  to = found->second;
  return true;
}

template <typename T>
bool set_number(const std::string& value, T& to, double unit = 1, double least = 0) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !std::isfinite(number) || number < least) return false;
  to = static_cast<T>(number * unit);
  return true;
}

bool set_flag(const std::string& value, bool& to) {
  if (value != "0" && value != "1") return false;
  to = value == "1";
  return true;
}

bool set(Configuration& to, const std::string& key, const std::string& value) {
  constexpr double kMib = 1 << 20, kMs = 1e6;
  const std::map<std::string, std::function<bool()>> setters = {
      {"approach",
       [&] {
         to.has_device_cache = value != "no-device";
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
      {"iterations", [&] { return set_flag(value, to.reports_iterations); }}};
  const auto found = setters.find(key);
  return found != setters.end() && found->second();
}

}  // namespace

std::optional<Configuration> parse_configuration(const std::string& line, std::string& error) {
  Configuration configuration;
  configuration.behaviour.interval_ns = 10'000'000;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t sign = word.find('=');
    if (sign == std::string::npos ||
        !set(configuration, word.substr(0, sign), word.substr(sign + 1))) {
      error = "cannot read " + word;
      return std::nullopt;
    }
  }
  if (!configuration.has_device_cache) configuration.behaviour.hints = Hints::kNone;
  return configuration;
}

}  // namespace gpusnap::shots
