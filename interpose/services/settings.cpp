#include "interpose/services/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <optional>

#include "interpose/services/program_mark.h"
#include "interpose/services/ranks.h"

namespace gpusnap {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kPrefix = "GPUSNAP_";
constexpr std::string_view kDurationForm =
    "a number and us, ms, s, m or h, such as 500ms, 10s or 10m";
constexpr std::string_view kSizeForm = "a number and K, M, G or T, such as 64K or 4G";

// A value that a user typed, fit for one line.
std::string shown(std::string_view value) {
  constexpr size_t kMost = 80;
  std::string text(value.substr(0, kMost));
  for (char& character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) character = '?';
  }
  return value.size() > kMost ? text + "..." : text;
}

// Digits at the front of `text`, which loses them.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    const auto digit = static_cast<uint64_t>(text[digits] - '0');
    if (number > (std::numeric_limits<uint64_t>::max() - digit) / 10) return std::nullopt;
    number = number * 10 + digit;
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool parse_count(std::string_view text, uint64_t& count) {
  const auto number = take_number(text);
  if (!number || !text.empty()) return false;
  count = *number;
  return true;
}

// Only signals whose default does no harm when it comes before our handler is there, and which
// nothing in the system sends by itself for other ends.
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

// The program needs its processors itself.
uint32_t default_compress_workers() {
  constexpr long kProcessorsForOne = 8;
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<uint32_t>(std::clamp<long>(processors / kProcessorsForOne, 1, 4));
}

// `shares`: processes of this node that have staging memory of their own.
uint64_t default_host_cache(uint32_t shares) {
  const auto pages = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  return std::clamp<uint64_t>(pages * page_bytes / 8 / shares, 64ULL << 20, 4ULL << 30);
}

// Reads one variable's value into the settings; what is wrong with it otherwise.
using Reader = std::string (*)(std::string_view value, ParsedSettings& into);

std::string read_size(std::string_view value, uint64_t least, uint64_t most, uint64_t& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes)) return "not " + std::string(kSizeForm);
  if (bytes < least) return "too small: the least is " + std::to_string(least >> 10) + "K";
  if (bytes > most) return "too large: the most is " + std::to_string(most >> 40) + "T";
  into = bytes;
  return {};
}

std::string read_duration(std::string_view value, nanoseconds& into,
                          nanoseconds least = std::chrono::milliseconds(1)) {
  nanoseconds time{0};
  if (!parse_duration(value, time)) return "not " + std::string(kDurationForm);
  if (time < least) {
    return "too short: the least is " +
           std::string(least < std::chrono::milliseconds(1) ? "1us" : "1ms");
  }
  into = time;
  return {};
}

std::string read_pfs(std::string_view value, ParsedSettings& into) {
  into.settings.pfs = value;
  return {};
}

std::string read_every(std::string_view value, ParsedSettings& into) {
  Schedule every;
  every.between_failures = into.settings.every.between_failures;
  std::string wrong = parse_every(value, every);
  if (wrong.empty()) into.settings.every = every;
  return wrong;
}

std::string read_mtbf(std::string_view value, ParsedSettings& into) {
  return read_duration(value, into.settings.every.between_failures);
}

std::string read_zone(std::string_view value, ParsedSettings& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes) || bytes < (4 << 10) || bytes > (2 << 20) ||
      (bytes & (bytes - 1)) != 0) {
    return "not a power of two from 4K to 2M, such as 64K";
  }
  into.settings.zone = bytes;
  return {};
}

std::string read_slot(std::string_view value, ParsedSettings& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes) || bytes < (2 << 20) || bytes > (64 << 20) ||
      (bytes & (bytes - 1)) != 0) {
    return "not a power of two from 2M to 64M, such as 4M";
  }
  into.settings.slot = bytes;
  return {};
}

std::string read_host_cache(std::string_view value, ParsedSettings& into) {
  return read_size(value, 1ULL << 20, 64ULL << 40, into.settings.host_cache);
}

std::string read_device_cache(std::string_view value, ParsedSettings& into) {
  return read_size(value, 0, 1ULL << 40, into.settings.device_cache);
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

std::string read_dirty(std::string_view value, ParsedSettings& into) {
  if (value != "fingerprint" && value != "calls") return "not fingerprint or calls";
  into.settings.dirty_from_calls = value == "calls";
  return {};
}

template <bool Settings::*kMember>
std::string read_switch(std::string_view value, ParsedSettings& into) {
  if (value != "on" && value != "off") return "not on or off";
  into.settings.*kMember = value == "on";
  return {};
}

std::string read_wait(std::string_view value, ParsedSettings& into) {
  if (value != "durable" && value != "memory") return "not durable or memory";
  into.settings.wait_durable = value == "durable";
  return {};
}

std::string read_pin(std::string_view value, ParsedSettings& into) {
  using enum Pinning;
  if (value != "stepwise" && value != "concurrent" && value != "at-once") {
    return "not stepwise, concurrent or at-once";
  }
  into.settings.pin = value == "stepwise" ? kStepwise : value == "at-once" ? kAtOnce : kConcurrent;
  return {};
}

std::string read_chain(std::string_view value, ParsedSettings& into) {
  constexpr uint64_t kMost = 256;
  uint64_t chain = 0;
  if (!parse_count(value, chain) || chain > kMost) return "not a number from 0 to 256, such as 16";
  into.settings.chain = chain;
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

std::string read_compress_workers(std::string_view value, ParsedSettings& into) {
  uint64_t workers = 0;
  if (!parse_count(value, workers) || workers == 0 || workers > kMostCompressWorkers) {
    return "not a number of threads from 1 to 8";
  }
  into.settings.compress_workers = static_cast<uint32_t>(workers);
  return {};
}

std::string read_writes(std::string_view value, ParsedSettings& into) {
  uint64_t writes = 0;
  if (!parse_count(value, writes) || writes == 0 || writes > kMostWrites) {
    return "not a number from 1 to 64, such as 8";
  }
  into.settings.writes = static_cast<uint32_t>(writes);
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

std::string read_level_encrypt(std::string_view value, ParsedSettings& into) {
  if (value != "on" && value != "off") return "not on or off";
  into.settings.levels.encrypts = value == "on";
  return {};
}

std::string read_level_rate(std::string_view value, ParsedSettings& into) {
  return read_size(value, 1ULL << 20, 1ULL << 40, into.settings.levels.rate);
}

std::string read_backend(std::string_view value, ParsedSettings& into) {
  if (value != "process" && value != "thread") return "not process or thread";
  into.settings.backend_process = value == "process";
  return {};
}

std::string read_node(std::string_view value, ParsedSettings& into) {
  constexpr size_t kMost = 255;
  if (value.size() > kMost) return "a node's name has at most 255 characters";
  into.settings.node = value;
  return {};
}

std::string read_backend_idle(std::string_view value, ParsedSettings& into) {
  return read_duration(value, into.settings.backend_idle);
}

std::string read_hints(std::string_view value, ParsedSettings& into) {
  return read_duration(value, into.settings.hints, std::chrono::microseconds(1));
}

std::string read_keep(std::string_view value, ParsedSettings& into) {
  uint64_t keep = 0;
  if (!parse_count(value, keep) || keep < 1 || keep > 1'000'000) {
    return "not a number from 1 to 1000000, such as 2";
  }
  into.settings.keep = keep;
  return {};
}

std::string read_journal(std::string_view value, ParsedSettings& into) {
  return read_size(value, 1ULL << 20, 1ULL << 50, into.settings.journal);
}

std::string read_max_stall(std::string_view value, ParsedSettings& into) {
  return read_duration(value, into.settings.max_stall);
}

std::string read_drain(std::string_view value, ParsedSettings& into) {
  return read_duration(value, into.settings.drain);
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

std::string read_direct(std::string_view value, ParsedSettings& into) {
  constexpr std::array<std::string_view, 3> kWords = {"off", "auto", "always"};
  const auto* const found = std::ranges::find(kWords, value);
  if (found == kWords.end()) return "not auto, off or always";
  into.settings.direct = static_cast<DirectUse>(found - kWords.begin());
  return {};
}

std::string read_balance(std::string_view value, ParsedSettings& into) {
  constexpr std::array<std::string_view, 3> kWords = {"off", "on", "node"};
  const auto* const found = std::ranges::find(kWords, value);
  if (found == kWords.end()) return "not on, off or node";
  into.settings.balance = static_cast<Balance>(found - kWords.begin());
  return {};
}

std::string read_replay_output(std::string_view value, ParsedSettings&) {
  return value == "once" || value == "again" ? "" : "not once or again";
}

// Read when the process begins, in nondeterminism/checkpoint.cpp.
std::string read_outside(std::string_view value, ParsedSettings&) {
  return value == "journal" || value == "real" ? "" : "not journal or real";
}

// The tool's own.
std::string read_nothing(std::string_view, ParsedSettings&) {
  return {};
}

std::string read_job(std::string_view value, ParsedSettings& into) {
  if (value.find('@') != std::string_view::npos) return "a job's name cannot contain '@'";
  into.settings.job = value;
  return {};
}

std::string read_log(std::string_view value, ParsedSettings& into) {
  constexpr std::array<std::string_view, 5> kNames = {"error", "warn", "info", "debug", "trace"};
  const auto* const found = std::find(kNames.begin(), kNames.end(), value);
  if (found == kNames.end()) return "not error, warn, info, debug or trace";
  into.settings.log = static_cast<LogLevel>(found - kNames.begin());
  return {};
}

std::string read_strict(std::string_view value, ParsedSettings& into) {
  if (value != "0" && value != "1") return "not 0 or 1";
  into.settings.strict = value == "1";
  return {};
}

struct Variable {
  std::string_view name;
  Reader read;
};
constexpr std::array<Variable, 50> kVariables = {
    {{"GPUSNAP_PFS", read_pfs},
     {"GPUSNAP_EVERY", read_every},
     {"GPUSNAP_MTBF", read_mtbf},
     {"GPUSNAP_ZONE", read_zone},
     {"GPUSNAP_HOST_CACHE", read_host_cache},
     {"GPUSNAP_DEVICE_CACHE", read_device_cache},
     {"GPUSNAP_BALANCE", read_balance},
     {"GPUSNAP_ARENA", read_switch<&Settings::arena>},
     {"GPUSNAP_ORG", read_organisation},
     {"GPUSNAP_DIRTY", read_dirty},
     {"GPUSNAP_SPECULATE", read_switch<&Settings::speculate>},
     {"GPUSNAP_WAIT", read_wait},
     {"GPUSNAP_PIN", read_pin},
     {"GPUSNAP_CHAIN", read_chain},
     {"GPUSNAP_COMPRESS", read_compress},
     {"GPUSNAP_COMPRESS_WORKERS", read_compress_workers},
     {"GPUSNAP_SSD", read_ssd},
     {"GPUSNAP_WRITES", read_writes},
     {"GPUSNAP_SLOT", read_slot},
     {"GPUSNAP_CHUNK", read_chunk},
     {"GPUSNAP_PLACEMENT", read_placement},
     {"GPUSNAP_FLUSHES", read_flushes},
     {"GPUSNAP_DIRECT", read_direct},
     {"GPUSNAP_LEVELS", read_levels},
     {"GPUSNAP_PEERS", read_peers},
     {"GPUSNAP_LEVEL_PORT", read_level_port},
     {"GPUSNAP_LEVEL_KEY", read_level_key},
     {"GPUSNAP_LEVEL_ENCRYPT", read_level_encrypt},
     {"GPUSNAP_LEVEL_RATE", read_level_rate},
     {"GPUSNAP_BACKEND", read_backend},
     {"GPUSNAP_NODE", read_node},
     {"GPUSNAP_BACKEND_IDLE", read_backend_idle},
     {"GPUSNAP_HINTS", read_hints},
     {"GPUSNAP_KEEP", read_keep},
     {"GPUSNAP_JOURNAL", read_journal},
     {"GPUSNAP_MAX_STALL", read_max_stall},
     {"GPUSNAP_DRAIN", read_drain},
     {"GPUSNAP_RESTORE", read_restore},
     {"GPUSNAP_RESTORE_MODE", read_restore_mode},
     {"GPUSNAP_RESTORE_FORCE", read_force},
     {kRestoredProgram, read_nothing},
     {kRestoredPending, read_nothing},
     {kPadding, read_nothing},
     {kOneMore, read_nothing},
     {"GPUSNAP_READ_AHEAD", read_switch<&Settings::read_ahead>},
     {"GPUSNAP_REPLAY_OUTPUT", read_replay_output},
     {"GPUSNAP_OUTSIDE", read_outside},
     {"GPUSNAP_JOB", read_job},
     {"GPUSNAP_LOG", read_log},
     {"GPUSNAP_STRICT", read_strict}}};

// Levenshtein's distance, over short names.
size_t distance(std::string_view left, std::string_view right) {
  std::vector<size_t> row(right.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t replaced = diagonal + (left[i] != right[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest_name(std::string_view name) {
  constexpr size_t kFurthest = 3;
  constexpr size_t kLongest = 40;
  if (name.size() > kLongest) return {};
  size_t best = kFurthest + 1;
  std::string_view found;
  for (const Variable& variable : kVariables) {
    const size_t far = distance(name, variable.name);
    if (far < best) {
      best = far;
      found = variable.name;
    }
  }
  return std::string(found);
}

void warn_unknown(std::string_view name, ParsedSettings& into) {
  std::string line = shown(name) + ": no such setting, passed over";
  const std::string near = nearest_name(name);
  if (!near.empty()) line += "; did you mean " + near + "?";
  into.warnings.push_back(std::move(line));
  into.ignored.emplace_back(name);
}

}  // namespace

std::string words_of(const AllowedDifferences& allowed) {
  std::string words;
  for (const PassOverWord& each : kPassOverWords) {
    if (!(allowed.*each.member)) continue;
    if (!words.empty()) words += ',';
    words += each.word;
  }
  return words;
}

bool parse_size(std::string_view text, uint64_t& bytes) {
  const auto number = take_number(text);
  if (!number) return false;
  unsigned shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "KMGT";
    const char unit = text[0] >= 'a' && text[0] <= 'z' ? static_cast<char>(text[0] - 32) : text[0];
    const size_t index = kUnits.find(unit);
    if (index == std::string_view::npos) return false;
    shift = static_cast<unsigned>(10 * (index + 1));
    text.remove_prefix(1);
    if (!text.empty() && text != "B" && text != "iB") return false;
  }
  if (shift != 0 && *number >> (64 - shift) != 0) return false;
  bytes = *number << shift;
  return true;
}

bool parse_duration(std::string_view text, std::chrono::nanoseconds& time) {
  const auto number = take_number(text);
  uint64_t unit = 0;
  if (text == "us") unit = 1'000;
  if (text == "ms") unit = 1'000'000;
  if (text == "s") unit = 1'000'000'000;
  if (text == "m") unit = 60'000'000'000;
  if (text == "h") unit = 3'600'000'000'000;
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!number || unit == 0 || *number > kMost / unit) return false;
  time = nanoseconds(static_cast<int64_t>(*number * unit));
  return true;
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

ParsedSettings parse_settings(const char* const* environment) {
  ParsedSettings parsed;
  std::vector<std::string_view> seen;
  for (const char* const* next = environment; next != nullptr && *next != nullptr; ++next) {
    const std::string_view entry(*next);
    if (!entry.starts_with(kPrefix)) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string_view value = entry.substr(equals + 1);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    const auto* const variable =
        std::find_if(kVariables.begin(), kVariables.end(),
                     [name](const Variable& known) { return known.name == name; });
    if (variable == kVariables.end()) {
      warn_unknown(name, parsed);
      continue;
    }
    const std::string wrong = variable->read(value, parsed);
    if (!wrong.empty()) {
      parsed.errors.push_back(std::string(name) + "=" + shown(value) + ": " + wrong);
    }
  }
  const TierSettings& tiers = parsed.settings.tiers;
  if (tiers.policy == PlacementPolicy::kSsdOnly && tiers.ssd.empty()) {
    parsed.errors.emplace_back("GPUSNAP_PLACEMENT=ssd-only: it needs a folder in GPUSNAP_SSD");
  }
  const LevelSettings& levels = parsed.settings.levels;
  std::string problem = problem_of(levels, !tiers.ssd.empty());
  if (problem.empty() && levels.scheme && !parsed.settings.backend_process) {
    problem = "GPUSNAP_LEVELS=" + name_of(*levels.scheme) + ": it needs GPUSNAP_BACKEND=process";
  }
  if (!problem.empty()) parsed.errors.push_back(std::move(problem));
  if (parsed.settings.host_cache == 0) {
    const bool shared = parsed.settings.backend_process;
    parsed.settings.host_cache = default_host_cache(shared ? 1 : ranks_on_node(environment));
  }
  if (parsed.settings.compress_workers == 0) {
    parsed.settings.compress_workers = default_compress_workers();
  }
  return parsed;
}

}  // namespace gpusnap
