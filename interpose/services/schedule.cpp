// SPDX-License-Identifier: Apache-2.0
//
// Reads what makes a checkpoint due: GPUSNAP_EVERY and GPUSNAP_STOP_SIGNAL.
#include <algorithm>
#include <csignal>

#include "interpose/services/settings.h"
#include "interpose/services/value_text.h"

namespace gpusnap {
namespace {

using std::chrono::nanoseconds;

// Signals that nothing in the system sends by itself for other ends.
int signal_number(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  if (name == "USR1") return SIGUSR1;
  if (name == "USR2") return SIGUSR2;
  if (name == "HUP") return SIGHUP;
  if (name == "URG") return SIGURG;
  if (name == "WINCH") return SIGWINCH;
  if (name.starts_with("RTMIN")) {
    name.remove_prefix(5);
    if (name.empty()) return SIGRTMIN;
    uint64_t offset = 0;
    if (name[0] == '+' && parse_count(name.substr(1), offset) && offset <= 15) {
      return SIGRTMIN + static_cast<int>(offset);
    }
  }
  return 0;
}

// Also signals by which batch systems and users end programs.
int stop_signal_number(std::string_view name) {
  if (const int number = signal_number(name); number != 0) return number;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  if (name == "TERM") return SIGTERM;
  if (name == "INT") return SIGINT;
  if (name == "XCPU") return SIGXCPU;
  return 0;
}

std::string parse_every_item(std::string_view item, Schedule& every) {
  const size_t colon = item.find(':');
  if (item == "off") return "off stands alone";
  if (item == "auto") {
    every.automatic = true;
    return {};
  }
  if (colon == std::string_view::npos) {
    nanoseconds interval{0};
    if (!parse_duration(item, interval) || interval.count() <= 0) {
      return "'" + shown(item) +
             "' is none of 10m, 30s, 500ms, auto, syncs:50, barriers:100, "
             "signal:USR1, off";
    }
    every.interval = interval;
    return {};
  }
  const std::string_view kind = item.substr(0, colon);
  const std::string_view value = item.substr(colon + 1);
  if (kind == "signal") {
    every.signal = signal_number(value);
    return every.signal != 0
               ? std::string()
               : "'" + shown(item) +
                     "' names no signal that can be used; right "
                     "would be signal:USR1, USR2, HUP, URG, WINCH or RTMIN to RTMIN+15";
  }
  if (kind != "syncs" && kind != "barriers") {
    return "'" + shown(item) + "' starts with neither syncs:, barriers: nor signal:";
  }
  uint64_t count = 0;
  if (!parse_count(value, count) || count == 0) {
    return "'" + shown(item) + "' needs a number from 1, such as " + std::string(kind) + ":50";
  }
  if (kind == "syncs") {
    every.synchronisations = count;
  } else {
    every.barriers = count;
  }
  return {};
}

}  // namespace

std::string parse_every(std::string_view text, Schedule& every) {
  if (text == "off") return {};
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string wrong = parse_every_item(text.substr(0, comma), every);
    if (wrong.empty() && every.automatic && every.interval.count() != 0) {
      wrong = "auto chooses the time itself: leave one of auto and the time out";
    }
    if (!wrong.empty() || comma == text.size()) return wrong;
    text.remove_prefix(comma + 1);
  }
}

std::string parse_stop_signals(std::string_view text, uint64_t& signals) {
  uint64_t found = 0;
  for (bool more = true; more;) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const int number = stop_signal_number(item);
    if (number == 0) {
      return "'" + shown(item) +
             "' names no signal that can be used; right would be USR1, USR2, TERM, INT, HUP, XCPU, "
             "URG, WINCH or RTMIN to RTMIN+15, joined by commas";
    }
    found |= signal_bit(number);
    more = comma < text.size();
    text.remove_prefix(more ? comma + 1 : comma);
  }
  signals = found;
  return {};
}

}  // namespace gpusnap
