// SPDX-License-Identifier: Apache-2.0
//
// A history's configuration file: one "key = value" a line, as VeloC's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/compression/setting.h"
#include "tiers/history/eviction.h"
#include "tiers/status.h"

namespace gpusnap::veloc {

struct Config {
  std::string scratch;          // folder of this node; empty: none
  std::string persistent;       // folder that all nodes share
  uint64_t gpu_cache = 0;       // bytes; kByDefault
  uint64_t host_cache = 0;      // bytes; kByDefault
  bool is_synchronous = false;  // a checkpoint returns when it is on the persistent folder
  uint32_t max_versions = 0;    // complete ones that are kept; 0: all
  bool discard_consumed = false;
  history::Evictor evictor = history::Evictor::kScore;
  bool uses_hints = true;
  CompressionSetting compression;

  static constexpr uint64_t kByDefault = UINT64_MAX;
};

struct ParsedConfig {
  Config config;
  std::vector<std::string> warnings;  // one line each: keys that are not known
};

// kInvalid names the line and what would be right. `file` is for messages.
Result<ParsedConfig> parse_config(std::string_view text, const std::string& file);
Result<ParsedConfig> read_config(const std::string& file);

}  // namespace gpusnap::veloc
