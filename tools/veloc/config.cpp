// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/config.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "interpose/services/setting_values.h"
#include "interpose/services/settings.h"

namespace gpusnap::veloc {

namespace {

// Returns what is wrong with the value; empty: nothing.
using Reader = std::string (*)(std::string_view value, Config& into);

std::string read_path(std::string_view value, std::string& into) {
  if (value.empty()) return "needs a folder";
  into = value;
  return {};
}

std::string read_size(std::string_view value, uint64_t& into) {
  return parse_size(value, into) ? "" : "needs a size, such as 512M or 4G";
}

std::string read_switch(std::string_view value, bool& into) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (value == yes) return into = true, "";
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (value == no) return into = false, "";
  }
  return "needs true or false";
}

std::string read_versions(std::string_view value, uint32_t& into) {
  const char* const end = value.data() + value.size();
  const auto [read, error] = std::from_chars(value.data(), end, into);
  return error == std::errc() && read == end ? "" : "needs a number, 0 to keep all";
}

std::string read_mode(std::string_view value, Config& into) {
  if (value != "sync" && value != "async") return "needs sync or async";
  into.is_synchronous = value == "sync";
  return {};
}

std::string read_evictor(std::string_view value, Config& into) {
  const std::map<std::string_view, history::Evictor> evictors = {
      {"score", history::Evictor::kScore},
      {"fifo", history::Evictor::kFifo},
      {"lru", history::Evictor::kLru}};
  const auto found = evictors.find(value);
  if (found == evictors.end()) return "needs score, fifo or lru";
  into.evictor = found->second;
  return {};
}

std::string read_compression(std::string_view value, Config& into) {
  const Result<CompressionSetting> setting = parse_compression(value);
  if (!setting.ok()) return "needs auto, off or a level from 1 to 19";
  into.compression = setting.value();
  return {};
}

const std::map<std::string_view, Reader>& readers() {
  static const std::map<std::string_view, Reader> all = {
      {"scratch", [](auto value, Config& into) { return read_path(value, into.scratch); }},
      {"persistent", [](auto value, Config& into) { return read_path(value, into.persistent); }},
      {"gpu_cache", [](auto value, Config& into) { return read_size(value, into.gpu_cache); }},
      {"host_cache", [](auto value, Config& into) { return read_size(value, into.host_cache); }},
      {"mode", read_mode},
      {"max_versions",
       [](auto value, Config& into) { return read_versions(value, into.max_versions); }},
      {"discard_consumed",
       [](auto value, Config& into) { return read_switch(value, into.discard_consumed); }},
      {"evictor", read_evictor},
      {"hints", [](auto value, Config& into) { return read_switch(value, into.uses_hints); }},
      {"compress", read_compression},
  };
  return all;
}

// VeloC's, which mean nothing here: what they ask for is not done, or always.
constexpr std::array<std::string_view, 9> kWithoutMeaning = {
    "axl_config",          "axl_type",         "chksum",
    "ec_interval",         "failure_domain",   "meta",
    "persistent_interval", "scratch_versions", "watchdog_interval"};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string known_keys() {
  std::string text;
  for (const auto& [key, reader] : readers()) {
    if (!text.empty()) text += ", ";
    text += key;
  }
  return text;
}

// Returns what is wrong with the line; empty: nothing.
std::string read_line(std::string_view line, ParsedConfig& into) {
  if (line.empty() || line.front() == '#' || line.front() == ';' || line.front() == '[') return {};
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return "'" + std::string(line) + "' is no key = value";
  const std::string_view key = trimmed(line.substr(0, equals));
  const auto reader = readers().find(key);
  if (reader != readers().end()) {
    const std::string wrong = reader->second(trimmed(line.substr(equals + 1)), into.config);
    return wrong.empty() ? "" : std::string(key) + " " + wrong;
  }
  if (std::ranges::find(kWithoutMeaning, key) == kWithoutMeaning.end()) {
    into.warnings.push_back("unknown key '" + std::string(key) + "' is passed over; there are " +
                            known_keys());
  }
  return {};
}

}  // namespace

Result<ParsedConfig> parse_config(std::string_view text, const std::string& file) {
  ParsedConfig parsed;
  parsed.config.gpu_cache = parsed.config.host_cache = Config::kByDefault;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string wrong = read_line(trimmed(text.substr(0, end)), parsed);
    if (!wrong.empty()) {
      return Status(Code::kInvalid, file + ", line " + std::to_string(number) + ": " + wrong);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (parsed.config.persistent.empty()) {
    return Status(Code::kInvalid, file +
                                      " names no folder for checkpoints: add a line "
                                      "'persistent = FOLDER' that all nodes share");
  }
  if (parsed.config.scratch == parsed.config.persistent) parsed.config.scratch.clear();
  return parsed;
}

Result<ParsedConfig> read_config(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream || stream.bad()) {
    return Status(Code::kNotFound, "cannot read " + file + ": " + std::strerror(errno));
  }
  return parse_config(text.str(), file);
}

}  // namespace gpusnap::veloc
