// SPDX-License-Identifier: Apache-2.0
// The user's settings of the levels between a node's SSD and the store. Knows neither sockets nor
// cryptography: the preloaded library reads these settings, too, and links neither.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnap {

inline constexpr uint32_t kMostDataShards = 32;
inline constexpr uint32_t kMostParityShards = 8;

// A part is cut into `data` shards, to which `parity` more are computed: any `data` of them bring
// it back. One data and one parity shard are a partner copy.
struct LevelScheme {
  uint32_t data = 1;
  uint32_t parity = 1;
  uint32_t shards() const { return data + parity; }
  auto operator<=>(const LevelScheme&) const = default;
};
// "partner", or "rs:4+2".
std::string name_of(const LevelScheme& scheme);
std::optional<LevelScheme> parse_level_scheme(std::string_view name);

// The address of a node's gpusnapd.
struct PeerAddress {
  std::string host;
  uint16_t port = 0;
  bool operator==(const PeerAddress&) const = default;
};
std::string name_of(const PeerAddress& peer);  // "host:port", "[::1]:port"
std::optional<PeerAddress> parse_peer(std::string_view text);

struct LevelSettings {
  std::optional<LevelScheme> scheme;  // GPUSNAP_LEVELS; none: there are no levels
  std::vector<PeerAddress> peers;     // GPUSNAP_PEERS: every node of the job, this one too, in one
                                      // order everywhere
  uint16_t port = 0;                  // GPUSNAP_LEVEL_PORT: this node's; 0: by its addresses
  std::string key;                    // GPUSNAP_LEVEL_KEY: path of the job's key
  bool encrypts = false;              // GPUSNAP_LEVEL_ENCRYPT
  uint64_t rate = 0;                  // GPUSNAP_LEVEL_RATE: bytes per second; 0: not bounded
  bool operator==(const LevelSettings&) const = default;
};

// One line for what is missing or contradicts itself; empty where all is right, or where there are
// no levels. `has_ssd`: GPUSNAP_SSD names a folder.
std::string problem_of(const LevelSettings& settings, bool has_ssd);

}  // namespace gpusnap
