// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/nearest_name.h"

#include <algorithm>
#include <vector>

namespace gpusnap {
namespace {

// Levenshtein's distance, over short names.
size_t distance(std::string_view left, std::string_view right) {
  std::vector<size_t> row(right.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t replaced = diagonal + (left[i] != right[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  constexpr size_t kFurthest = 3;
  constexpr size_t kLongest = 40;
  if (name.size() > kLongest) return {};
  size_t best = kFurthest + 1;
  std::string_view found;
  for (const std::string_view each : names) {
    const size_t far = distance(name, each);
    // A short name is another one sooner.
    if (far < best && far * 2 <= each.size()) {
      best = far;
      found = each;
    }
  }
  return found;
}

}  // namespace gpusnap
