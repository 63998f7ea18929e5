// SPDX-License-Identifier: Apache-2.0
// How values of settings are written: sizes, durations, numbers, words. Each reader stores what it
// read, or says in a few words what would be right; nothing is guessed.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace gpusnap {

inline constexpr std::string_view kSizeForm = "a number and K, M, G or T, such as 64K or 4G";

// A value that a user typed, fit for one line.
std::string shown(std::string_view value);

// True when all of `text` was read.
bool parse_count(std::string_view text, uint64_t& count);
// 4096, 64K, 4M, 16G, 2T; also 64KiB, 64KB.
bool parse_size(std::string_view text, uint64_t& bytes);
// 200us, 500ms, 10s, 10m, 2h.
bool parse_duration(std::string_view text, std::chrono::nanoseconds& time);

// Empty when ok, else what is wrong, as all readers below.
std::string read_text(std::string_view value, std::string& into);
std::string read_size(std::string_view value, uint64_t least, uint64_t most, uint64_t& into);
// `range_text` describes what would be right: "4K to 2M, such as 64K".
std::string read_power(std::string_view value, uint64_t least, uint64_t most,
                       std::string_view range_text, uint64_t& into);
// `least_text`: the same as a user would write it.
std::string read_duration(std::string_view value, std::chrono::nanoseconds least,
                          std::string_view least_text, std::chrono::nanoseconds& into);

// `form` describes what would be right: "number from 1 to 64, such as 8".
template <std::unsigned_integral Number>
std::string read_count(std::string_view value, std::type_identity_t<Number> least,
                       std::type_identity_t<Number> most, std::string_view form, Number& into) {
  uint64_t count = 0;
  if (!parse_count(value, count) || count < least || count > most) {
    return "not a " + std::string(form);
  }
  into = static_cast<Number>(count);
  return {};
}

template <class Value>
struct Word {
  std::string_view word;
  Value value;
};

// One of `words`; a null `into` only checks it.
template <class Value>
std::string read_word(std::string_view value,
                      std::initializer_list<Word<std::type_identity_t<Value>>> words,
                      Value* into = nullptr) {
  std::string right = "not ";
  for (const Word<Value>& each : words) {
    if (each.word == value) {
      if (into != nullptr) *into = each.value;
      return {};
    }
    if (&each != words.begin()) right += &each + 1 == words.end() ? " or " : ", ";
    right += each.word;
  }
  return right;
}

}  // namespace gpusnap
