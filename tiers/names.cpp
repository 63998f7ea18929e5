// SPDX-License-Identifier: Apache-2.0
#include "tiers/names.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "tiers/store.h"

namespace gpusnap {

namespace {

constexpr size_t kLongestJob = 128;
constexpr size_t kLongestRun = 64;
constexpr size_t kMostDigits = 18;

// As in the C locale, whatever the program has set.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_job_character(char c) {
  return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_back(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::optional<uint32_t> parse_small_number(std::string_view text) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number || *number > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

std::string name_of_part(const SegmentName& part, const char* suffix) {
  return "r" + std::to_string(part.rank) + "-" + part.run + "-" + std::to_string(part.number) +
         suffix;
}

std::optional<SegmentName> parse_name_of_part(std::string_view name, std::string_view suffix) {
  if (!take(name, "r") || !take_back(name, suffix)) return std::nullopt;
  const size_t first = name.find('-');
  const size_t last = name.rfind('-');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const std::optional<uint32_t> rank = parse_small_number(name.substr(0, first));
  const std::optional<uint32_t> number = parse_small_number(name.substr(last + 1));
  const std::string_view run = name.substr(first + 1, last - first - 1);
  if (!rank || !number || !is_run(run)) return std::nullopt;
  return SegmentName{*rank, std::string(run), *number};
}

}  // namespace

std::string sanitise_job(const std::string& name) {
  std::string folder = name.substr(0, kLongestJob);
  std::replace_if(
      folder.begin(), folder.end(), [](char c) { return !is_job_character(c); }, '_');
  if (folder.empty()) return "_";
  if (folder.front() == '.') folder.front() = '_';
  return folder;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  if (text.empty() || text.size() > kMostDigits ||
      !std::all_of(text.begin(), text.end(), is_digit)) {
    return std::nullopt;
  }
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_job_folder(const std::string& name) {
  return sanitise_job(name) == name;
}

bool is_run(std::string_view run) {
  return !run.empty() && run.size() <= kLongestRun &&
         std::all_of(run.begin(), run.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string epoch_folder(uint64_t epoch) {
  return "e" + std::to_string(epoch);
}

std::optional<uint64_t> parse_epoch_folder(std::string_view name) {
  return take(name, "e") ? parse_number(name) : std::nullopt;
}

std::string manifest_name(uint32_t rank) {
  return "r" + std::to_string(rank) + ".manifest";
}

std::optional<uint32_t> parse_manifest_name(std::string_view name) {
  if (!take(name, "r") || !take_back(name, ".manifest")) return std::nullopt;
  return parse_small_number(name);
}

std::string temporary_manifest_name(uint32_t rank, const std::string& run) {
  return manifest_name(rank) + "." + run + ".tmp";
}

std::optional<uint32_t> parse_temporary_manifest_name(std::string_view name) {
  if (!take_back(name, ".tmp")) return std::nullopt;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !is_run(name.substr(dot + 1))) return std::nullopt;
  return parse_manifest_name(name.substr(0, dot));
}

std::string segment_name(const SegmentName& segment) {
  return name_of_part(segment, ".segment");
}
std::optional<SegmentName> parse_segment_name(std::string_view name) {
  return parse_name_of_part(name, ".segment");
}
std::string block_log_name(const SegmentName& log) {
  return name_of_part(log, ".blocks");
}
std::optional<SegmentName> parse_block_log_name(std::string_view name) {
  return parse_name_of_part(name, ".blocks");
}
std::string chunk_name(const SegmentName& chunk) {
  return name_of_part(chunk, ".chunk");
}
std::optional<SegmentName> parse_chunk_name(std::string_view name) {
  return parse_name_of_part(name, ".chunk");
}

std::optional<uint32_t> rank_of_part_file(std::string_view name) {
  if (const auto segment = parse_segment_name(name)) return segment->rank;
  if (const auto log = parse_block_log_name(name)) return log->rank;
  return parse_temporary_manifest_name(name);
}

std::string user_folder(const std::string& ssd_folder) {
  return ssd_folder + "/gpusnap-" + std::to_string(::geteuid());
}

std::string merge_lock_name(uint32_t rank) {
  return "r" + std::to_string(rank) + ".merge";
}

bool is_journal_name(std::string_view name) {
  if (!take_back(name, ".journal")) return false;
  const size_t dash = name.find("-r");
  return dash != std::string_view::npos && is_run(name.substr(0, dash)) &&
         parse_small_number(name.substr(dash + 2)).has_value();
}

}  // namespace gpusnap
