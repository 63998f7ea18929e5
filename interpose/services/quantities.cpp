// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/quantities.h"

#include <limits>
#include <optional>

#include "interpose/services/settings.h"

namespace gpusnap {

namespace {

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
  time = std::chrono::nanoseconds(static_cast<int64_t>(*number * unit));
  return true;
}

}  // namespace gpusnap
