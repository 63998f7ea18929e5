// An environment of any content is read without harm, and what is said of it is one line each.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "interpose/services/settings.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_line(const std::string& line) {
  check(!line.empty() && line.size() < 600);
  for (const char character : line) check(static_cast<unsigned char>(character) >= 0x20);
}

}  // namespace

// The input's lines are the environment.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> entries(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      entries.emplace_back();
    } else {
      entries.back() += static_cast<char>(data[i]);
    }
  }
  std::vector<const char*> environment;
  environment.reserve(entries.size() + 1);
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  const gpusnap::ParsedSettings parsed = gpusnap::parse_settings(environment.data());
  for (const std::string& line : parsed.errors) check_line(line);
  for (const std::string& line : parsed.warnings) check_line(line);
  const gpusnap::Settings& settings = parsed.settings;
  check(settings.zone >= 4096 && settings.zone <= (2 << 20));
  check((settings.zone & (settings.zone - 1)) == 0);
  check(settings.keep >= 1 && settings.host_cache >= (1 << 20));
  check(settings.every.interval.count() >= 0 && settings.every.signal >= 0);
  const gpusnap::TierSettings& tiers = settings.tiers;
  check(tiers.chunk >= gpusnap::kLeastChunk && tiers.chunk <= gpusnap::kMostChunk);
  for (const gpusnap::SsdFolder& folder : tiers.ssd) check(folder.path.starts_with('/'));
  check(settings.backend_idle.count() > 0 && settings.node.size() < 256);
  check(settings.drain.count() > 0 && settings.max_stall.count() > 0);
  return 0;
}
