// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/level_settings.h"

#include <algorithm>
#include <limits>

#include "tiers/names.h"

namespace gpusnap {

namespace {

std::optional<uint32_t> parse_bounded(std::string_view text, uint64_t least, uint64_t most) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

}  // namespace

std::string name_of(const LevelScheme& scheme) {
  if (scheme == LevelScheme{}) return "partner";
  return "rs:" + std::to_string(scheme.data) + "+" + std::to_string(scheme.parity);
}

std::optional<LevelScheme> parse_level_scheme(std::string_view name) {
  constexpr std::string_view kPrefix = "rs:";
  if (name == "partner") return LevelScheme{};
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t plus = name.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  const auto data = parse_bounded(name.substr(0, plus), 1, kMostDataShards);
  const auto parity = parse_bounded(name.substr(plus + 1), 1, kMostParityShards);
  if (!data || !parity) return std::nullopt;
  return LevelScheme{*data, *parity};
}

std::string name_of(const PeerAddress& peer) {
  const bool is_v6 = peer.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + peer.host + "]" : peer.host;
  return host + ":" + std::to_string(peer.port);
}

std::optional<PeerAddress> parse_peer(std::string_view text) {
  constexpr size_t kLongestHost = 255;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  const auto port = parse_bounded(text.substr(colon + 1), 1, std::numeric_limits<uint16_t>::max());
  const bool is_plain = std::ranges::all_of(host, [](char c) { return c > ' ' && c < 0x7f; });
  if (!port || host.empty() || host.size() > kLongestHost || !is_plain) return std::nullopt;
  return PeerAddress{std::string(host), static_cast<uint16_t>(*port)};
}

std::string problem_of(const LevelSettings& settings, bool has_ssd) {
  if (!settings.scheme) return {};
  const std::string what = "GPUSNAP_LEVELS=" + name_of(*settings.scheme);
  if (!has_ssd) return what + ": it needs a folder in GPUSNAP_SSD";
  if (settings.key.empty()) return what + ": it needs the job's key in GPUSNAP_LEVEL_KEY";
  if (settings.peers.size() < settings.scheme->shards()) {
    return what + ": it needs " + std::to_string(settings.scheme->shards()) +
           " nodes in GPUSNAP_PEERS, which has " + std::to_string(settings.peers.size());
  }
  return {};
}

}  // namespace gpusnap
