// SPDX-License-Identifier: Apache-2.0
//
// The parts of which the values of settings are made: numbers, and text that goes into a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnap {

// A value that a user typed, fit for one line.
inline std::string shown(std::string_view value) {
  constexpr size_t kMost = 80;
  std::string text(value.substr(0, kMost));
  for (char& character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) character = '?';
  }
  return value.size() > kMost ? text + "..." : text;
}

// Digits at the front of `text`, which loses them.
inline std::optional<uint64_t> take_number(std::string_view& text) {
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

inline bool parse_count(std::string_view text, uint64_t& count) {
  const auto number = take_number(text);
  if (!number || !text.empty()) return false;
  count = *number;
  return true;
}

}  // namespace gpusnap
