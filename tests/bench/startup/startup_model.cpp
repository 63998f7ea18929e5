// SPDX-License-Identifier: Apache-2.0
//
//   startup_model < CONFIGURATIONS
//
// Each line of the input has words KEY=VALUE, as `kWords` names them; for each, one line of JSON is
// printed, in the same order. The same line always gives the same result.
#include <charconv>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/bench/startup/node.h"

namespace gpusnap::startup {

namespace {

bool parse_number(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end && value >= 0;
}

bool parse_way(std::string_view text, Configuration& into) {
  if (text == "direct") {
    into.way = Way::kDirect;
  } else if (text == "concurrent") {
    into.way = Way::kConcurrent;
  } else if (text == "ours") {
    into.way = Way::kOurs;
  } else {
    return false;
  }
  return true;
}

using Set = std::function<void(Configuration&, double)>;
const std::map<std::string_view, Set> kWords = {
    {"interval_ms", [](Configuration& c, double value) { c.interval = value / 1e3; }},
    {"processes",
     [](Configuration& c, double value) { c.processes = static_cast<unsigned>(value); }},
    {"checkpoints",
     [](Configuration& c, double value) { c.checkpoints = static_cast<unsigned>(value); }},
    {"size", [](Configuration& c, double value) { c.size = value; }},
    {"device_cache", [](Configuration& c, double value) { c.device_cache = value; }},
    {"host_cache", [](Configuration& c, double value) { c.host_cache = value; }},
    {"threads", [](Configuration& c, double value) { c.threads = static_cast<unsigned>(value); }},
    {"pauses", [](Configuration& c, double value) { c.pauses = value != 0; }},
    {"copy", [](Configuration& c, double value) { c.machine.copy = value; }},
    {"link", [](Configuration& c, double value) { c.machine.link = value; }},
    {"unpinned", [](Configuration& c, double value) { c.machine.unpinned = value; }},
    {"touch", [](Configuration& c, double value) { c.machine.touch = value; }},
    {"registering", [](Configuration& c, double value) { c.machine.registering = value; }},
    {"fresh_registering",
     [](Configuration& c, double value) { c.machine.fresh_registering = value; }},
    {"shares_registering",
     [](Configuration& c, double value) { c.machine.shares_registering = value != 0; }},
    {"competing", [](Configuration& c, double value) { c.machine.competing = value; }},
};

bool parse_word(const std::string& word, Configuration& into) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return false;
  const std::string_view name = std::string_view(word).substr(0, equals);
  const std::string_view value = std::string_view(word).substr(equals + 1);
  if (name == "way") return parse_way(value, into);
  const auto found = kWords.find(name);
  double number = 0;
  if (found == kWords.end() || !parse_number(value, number)) return false;
  found->second(into, number);
  return true;
}

// Empty, or why it would never end.
std::string fault_of(const Configuration& configuration) {
  if (configuration.processes == 0 || configuration.processes > 8) return "1 to 8 processes";
  if (configuration.threads == 0 || configuration.interval <= 0) return "a number above 0";
  const Machine& machine = configuration.machine;
  for (const double rate : {machine.copy, machine.link, machine.unpinned, machine.touch,
                            machine.registering, machine.fresh_registering, machine.competing}) {
    if (rate <= 0) return "rates above 0";
  }
  const double all = configuration.size * configuration.checkpoints;
  if (all > configuration.device_cache + configuration.host_cache) return "caches that hold all";
  return {};
}

int run() {
  std::string line;
  while (std::getline(std::cin, line)) {
    Configuration configuration;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      if (parse_word(word, configuration)) continue;
      std::cerr << "startup_model: cannot read '" << word << "'\n";
      return 2;
    }
    if (const std::string fault = fault_of(configuration); !fault.empty()) {
      std::cerr << "startup_model: it takes " << fault << ": " << line << '\n';
      return 2;
    }
    const Outcome outcome = Node(configuration).run();
    std::cout << "{\"checkpoint_wait_s\": " << outcome.checkpoints
              << ", \"restore_wait_s\": " << outcome.restores
              << ", \"touched\": " << outcome.touched << "}" << std::endl;
  }
  return 0;
}

}  // namespace

}  // namespace gpusnap::startup

int main() {
  return gpusnap::startup::run();
}
