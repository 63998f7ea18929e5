// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "interpose/services/nearest_name.h"
#include "interpose/services/program_mark.h"
#include "interpose/services/ranks.h"
#include "interpose/services/setting_readers.h"
#include "interpose/services/setting_values.h"

namespace gpusnap {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kPrefix = "GPUSNAP_";

struct Variable {
  std::string_view name;
  // Reads a value into the settings. Empty, or what is wrong with the value.
  std::string (*read)(std::string_view value, ParsedSettings& into);
};
constexpr Variable kVariables[] = {
#include "interpose/services/settings_rows.inc"
};

// Set by the tool for the programs that it starts; no setting of the user.
constexpr std::array<std::string_view, 4> kOfTheTool = {kRestoredProgram, kRestoredPending,
                                                        kPadding, kOneMore};

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

void warn_unknown(std::string_view name, ParsedSettings& into) {
  std::array<std::string_view, std::size(kVariables)> names;
  std::ranges::transform(kVariables, names.begin(), &Variable::name);
  std::string line = shown(name) + ": no such setting, passed over";
  const std::string_view near = nearest_name(name, names);
  if (!near.empty()) line += "; did you mean " + std::string(near) + "?";
  into.warnings.push_back(std::move(line));
  into.ignored.emplace_back(name);
}

void read_variable(std::string_view name, std::string_view value, ParsedSettings& into) {
  if (std::ranges::find(kOfTheTool, name) != kOfTheTool.end()) return;
  const Variable* const variable = std::ranges::find(kVariables, name, &Variable::name);
  if (variable == std::end(kVariables)) return warn_unknown(name, into);
  const std::string wrong = variable->read(value, into);
  if (wrong.empty()) return;
  into.errors.push_back(std::string(name) + "=" + shown(value) + ": " + wrong);
}

void check_store_every(ParsedSettings& parsed) {
  Settings& settings = parsed.settings;
  settings.every.chooses_levels = settings.store_every == kStoreEveryAuto;
  if (settings.has_memory_level() && !settings.backend_process) {
    parsed.errors.emplace_back("GPUSNAP_STORE_EVERY: it needs GPUSNAP_BACKEND=process");
  }
  if (settings.every.chooses_levels && !settings.every.automatic) {
    parsed.errors.emplace_back("GPUSNAP_STORE_EVERY=auto: it needs GPUSNAP_EVERY=auto");
  }
}

// Settings that are right alone, but not together.
void check_together(ParsedSettings& parsed) {
  const TierSettings& tiers = parsed.settings.tiers;
  if (tiers.policy == PlacementPolicy::kSsdOnly && tiers.ssd.empty()) {
    parsed.errors.emplace_back("GPUSNAP_PLACEMENT=ssd-only: it needs a folder in GPUSNAP_SSD");
  }
  check_store_every(parsed);
  const LevelSettings& levels = parsed.settings.levels;
  std::string problem = problem_of(levels, !tiers.ssd.empty());
  if (problem.empty() && levels.scheme && !parsed.settings.backend_process) {
    problem = "GPUSNAP_LEVELS=" + name_of(*levels.scheme) + ": it needs GPUSNAP_BACKEND=process";
  }
  if (!problem.empty()) parsed.errors.push_back(std::move(problem));
}

}  // namespace

ParsedSettings parse_settings(const char* const* environment) {
  ParsedSettings parsed;
  std::vector<std::string_view> seen;
  for (const char* const* next = environment; next != nullptr && *next != nullptr; ++next) {
    const std::string_view entry(*next);
    if (!entry.starts_with(kPrefix)) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string_view name = entry.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    read_variable(name, entry.substr(equals + 1), parsed);
  }
  check_together(parsed);
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
