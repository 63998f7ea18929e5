// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/setting_values.h"

#include <limits>

namespace gpusnap {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kDurationForm =
    "a number and us, ms, s, m or h, such as 500ms, 10s or 10m";

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

}  // namespace

std::string shown(std::string_view value) {
  constexpr size_t kMost = 80;
  std::string text(value.substr(0, kMost));
  for (char& character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) character = '?';
  }
  return value.size() > kMost ? text + "..." : text;
}

bool parse_count(std::string_view text, uint64_t& count) {
  const auto number = take_number(text);
  if (!number || !text.empty()) return false;
  count = *number;
  return true;
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

std::string read_text(std::string_view value, std::string& into) {
  into = value;
  return {};
}

std::string read_size(std::string_view value, uint64_t least, uint64_t most, uint64_t& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes)) return "not " + std::string(kSizeForm);
  if (bytes < least) return "too small: the least is " + std::to_string(least >> 10) + "K";
  if (bytes > most) return "too large: the most is " + std::to_string(most >> 40) + "T";
  into = bytes;
  return {};
}

std::string read_power(std::string_view value, uint64_t least, uint64_t most,
                       std::string_view range_text, uint64_t& into) {
  uint64_t bytes = 0;
  if (!parse_size(value, bytes) || bytes < least || bytes > most || (bytes & (bytes - 1)) != 0) {
    return "not a power of two from " + std::string(range_text);
  }
  into = bytes;
  return {};
}

std::string read_duration(std::string_view value, nanoseconds least, std::string_view least_text,
                          nanoseconds& into) {
  nanoseconds time{0};
  if (!parse_duration(value, time)) return "not " + std::string(kDurationForm);
  if (time < least) return "too short: the least is " + std::string(least_text);
  into = time;
  return {};
}

}  // namespace gpusnap
