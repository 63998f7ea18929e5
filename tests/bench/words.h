// SPDX-License-Identifier: Apache-2.0
//
// A line of words KEY=VALUE, as simulations are configured.
#pragma once

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <string>

namespace gpusnap::bench {

template <typename T>
using Names = std::map<std::string, T>;

// Each returns false if the value cannot be read.
template <typename T>
bool set_name(const Names<T>& names, const std::string& value, T& to) {
  const auto found = names.find(value);
  if (found == names.end()) return false;
  to = found->second;
  return true;
}

template <typename T>
bool set_number(const std::string& value, T& to, double unit = 1, double least = 0) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !std::isfinite(number) || number < least) return false;
  to = static_cast<T>(number * unit);
  return true;
}

inline bool set_flag(const std::string& value, bool& to) {
  if (value != "0" && value != "1") return false;
  to = value == "1";
  return true;
}

// Calls `set` with each word's key and value. False if one cannot be read; `error` says which.
inline bool read_words(const std::string& line,
                       const std::function<bool(const std::string&, const std::string&)>& set,
                       std::string& error) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t sign = word.find('=');
    if (sign == std::string::npos || !set(word.substr(0, sign), word.substr(sign + 1))) {
      error = "cannot read " + word;
      return false;
    }
  }
  return true;
}

}  // namespace gpusnap::bench
