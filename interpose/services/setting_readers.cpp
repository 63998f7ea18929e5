// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/setting_readers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <limits>

#include "interpose/services/setting_values.h"

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

// "path" or "path:capacity".
std::string read_ssd_folder(std::string_view item, SsdFolder& folder) {
  const size_t colon = item.rfind(':');
  if (colon != std::string_view::npos) {
    const std::string_view capacity = item.substr(colon + 1);
    if (!parse_size(capacity, folder.capacity)) {
      return "'" + shown(capacity) + "' is no capacity: " + std::string(kSizeForm);
    }
    if (folder.capacity < (1 << 20)) return "'" + shown(item) + "' has too small a capacity";
    item = item.substr(0, colon);
  }
  if (!item.starts_with('/') || item.find(':') != std::string_view::npos) {
    return "'" + shown(item) +
           "' is no folder from / on, without ':', such as /local or /local:64G";
  }
  while (item.size() > 1 && item.ends_with('/')) item.remove_suffix(1);
  folder.path = item;
  return {};
}

struct PassOverWord {
  std::string_view word;
  bool AllowedDifferences::*member;
};
constexpr std::array<PassOverWord, 9> kPassOverWords = {
    {{"program", &AllowedDifferences::program},
     {"arguments", &AllowedDifferences::arguments},
     {"inputs", &AllowedDifferences::inputs},
     {"device", &AllowedDifferences::device},
     {"devices", &AllowedDifferences::devices},
     {"folder", &AllowedDifferences::folder},
     {"driver", &AllowedDifferences::driver},
     {"libraries", &AllowedDifferences::libraries},
     {"data", &AllowedDifferences::data}}};

}  // namespace

std::string read_every(std::string_view value, ParsedSettings& into) {
  Schedule every;
  every.between_failures = into.settings.every.between_failures;
  every.survived = into.settings.every.survived;
  every.stop_signals = into.settings.every.stop_signals;
  std::string wrong = parse_every(value, every);
  if (wrong.empty()) into.settings.every = every;
  return wrong;
}

std::string read_stop_signal(std::string_view value, ParsedSettings& into) {
  return parse_stop_signals(value, into.settings.every.stop_signals);
}

std::string read_survived(std::string_view value, ParsedSettings& into) {
  double share = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), share);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  if (!whole || !(share >= 0 && share <= plan::kMostSurvived)) {
    return "not a share from 0 to 0.9999, such as 0.9";
  }
  into.settings.every.survived = share;
  return {};
}

std::string read_store_every(std::string_view value, ParsedSettings& into) {
  uint64_t count = kStoreEveryAuto;
  const bool is_count = parse_count(value, count) && count >= 1 && count <= kMostStoreEvery;
  if (!is_count && value != "auto") return "not a number from 1, such as 10, nor auto";
  into.settings.store_every = is_count ? count : kStoreEveryAuto;
  return {};
}

std::string read_job(std::string_view value, ParsedSettings& into) {
  if (value.find('@') != std::string_view::npos) return "a job's name cannot contain '@'";
  into.settings.job = value;
  return {};
}

std::string read_organisation(std::string_view value, ParsedSettings& into) {
  SnapshotMode organisation;
  organisation.hints = organisation.device = false;
  bool holding = false, extent = false;
  for (bool more = true; more;) {
    const size_t plus = std::min(value.find('+'), value.size());
    const std::string_view word = value.substr(0, plus);
    more = plus < value.size();
    value.remove_prefix(more ? plus + 1 : plus);
    bool* seen = word == "b" || word == "nb"                    ? &holding
                 : word == "f" || word == "i" || word == "i-fg" ? &extent
                 : word == "h"                                  ? &organisation.hints
                 : word == "d"                                  ? &organisation.device
                                                                : nullptr;
    if (seen == nullptr || *seen) {
      return "not b or nb, then f, i or i-fg, then h and d where wanted, joined by '+', such as "
             "nb+i+h+d";
    }
    *seen = true;
    if (seen == &holding) organisation.blocking = word == "b";
    if (seen == &extent) {
      organisation.incremental = word != "f";
      organisation.fine = word == "i-fg";
    }
  }
  if (!holding || !extent) return "it needs one of b, nb and one of f, i, i-fg, such as nb+i+h+d";
  into.settings.organisation = organisation;
  return {};
}

std::string read_compress(std::string_view value, ParsedSettings& into) {
  const auto setting = parse_compression(value);
  if (!setting.ok()) {
    return "not auto, off or a level from 1 to 19, nor one with a window such as 3:8M (1K to 128M)";
  }
  into.settings.compress = setting.value();
  return {};
}

std::string read_ssd(std::string_view value, ParsedSettings& into) {
  std::vector<SsdFolder> folders;
  for (bool more = true; more;) {
    const size_t comma = std::min(value.find(','), value.size());
    SsdFolder folder;
    std::string wrong = read_ssd_folder(value.substr(0, comma), folder);
    if (!wrong.empty()) return wrong;
    for (const SsdFolder& other : folders) {
      if (other.path == folder.path) return "'" + shown(folder.path) + "' is there twice";
    }
    folders.push_back(std::move(folder));
    more = comma < value.size();
    value.remove_prefix(more ? comma + 1 : comma);
  }
  into.settings.tiers.ssd = std::move(folders);
  return {};
}

std::string read_chunk(std::string_view value, ParsedSettings& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes) || bytes < kLeastChunk || bytes > kMostChunk) {
    return "not a size from 64K to 4G, such as 64M";
  }
  into.settings.tiers.chunk = bytes;
  return {};
}

std::string read_placement(std::string_view value, ParsedSettings& into) {
  const auto policy = parse_policy(value);
  if (!policy) return "not cache-only, ssd-only, hybrid-naive or hybrid-opt";
  into.settings.tiers.policy = *policy;
  return {};
}

std::string read_flushes(std::string_view value, ParsedSettings& into) {
  uint64_t flushes = 0;
  const bool is_auto = value == "auto";
  if (!is_auto && (!parse_count(value, flushes) || flushes == 0 || flushes > kMostFlushes)) {
    return "not auto or a number from 1 to 64";
  }
  into.settings.tiers.flushes.reset();
  if (!is_auto) into.settings.tiers.flushes = static_cast<uint32_t>(flushes);
  return {};
}

std::string read_levels(std::string_view value, ParsedSettings& into) {
  const auto scheme = parse_level_scheme(value);
  if (!scheme && value != "off") {
    return "not off, partner or rs:K+M with K from 1 to 32 and M from 1 to 8, such as rs:4+2";
  }
  into.settings.levels.scheme = scheme;
  return {};
}

std::string read_peers(std::string_view value, ParsedSettings& into) {
  std::vector<PeerAddress> peers;
  for (bool more = true; more;) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view item = value.substr(0, comma);
    auto peer = parse_peer(item);
    if (!peer) return "'" + shown(item) + "' is no address such as node1:7400";
    if (std::ranges::find(peers, *peer) != peers.end()) {
      return "'" + shown(item) + "' is there twice";
    }
    peers.push_back(std::move(*peer));
    more = comma < value.size();
    value.remove_prefix(more ? comma + 1 : comma);
  }
  into.settings.levels.peers = std::move(peers);
  return {};
}

std::string read_level_port(std::string_view value, ParsedSettings& into) {
  uint64_t port = 0;
  if (!parse_count(value, port) || port == 0 || port > std::numeric_limits<uint16_t>::max()) {
    return "not a port from 1 to 65535, such as 7400";
  }
  into.settings.levels.port = static_cast<uint16_t>(port);
  return {};
}

std::string read_level_key(std::string_view value, ParsedSettings& into) {
  if (!value.starts_with('/')) return "not a file's path from / on";
  into.settings.levels.key = value;
  return {};
}

std::string read_node(std::string_view value, ParsedSettings& into) {
  constexpr size_t kMost = 255;
  if (value.size() > kMost) return "a node's name has at most 255 characters";
  into.settings.node = value;
  return {};
}

std::string read_restore(std::string_view value, ParsedSettings& into) {
  const size_t at = value.rfind('@');
  const std::string_view epoch = at == std::string_view::npos ? "latest" : value.substr(at + 1);
  uint64_t number = 0;
  if (at == 0 || (epoch != "latest" && !parse_count(epoch, number))) {
    return "not the name of a checkpoint, such as job@3 or job@latest; 'gpusnap list' shows them";
  }
  into.settings.restore = value;
  return {};
}

std::string read_restore_mode(std::string_view value, ParsedSettings& into) {
  constexpr std::string_view kReload = "reload";
  Settings& settings = into.settings;
  settings.reload = value.starts_with(kReload);
  if (value == "replay" || value == kReload) return {};
  constexpr std::string_view kBehind = "reload:";
  if (value.starts_with(kBehind) &&
      parse_count(value.substr(kBehind.size()), settings.reload_behind)) {
    return {};
  }
  return "not replay, reload or reload:N";
}

std::string read_force(std::string_view value, ParsedSettings& into) {
  AllowedDifferences allowed;
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const std::string_view word = value.substr(0, comma);
    const auto* const known = std::ranges::find(kPassOverWords, word, &PassOverWord::word);
    if (known == kPassOverWords.end()) {
      return "not program, arguments, inputs, device, devices, folder, driver, libraries or data, "
             "or several of them joined by commas";
    }
    allowed.*known->member = true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  into.settings.allowed = allowed;
  return {};
}

std::string words_of(const AllowedDifferences& allowed) {
  std::string words;
  for (const PassOverWord& each : kPassOverWords) {
    if (!(allowed.*each.member)) continue;
    if (!words.empty()) words += ',';
    words += each.word;
  }
  return words;
}

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
