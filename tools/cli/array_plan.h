// SPDX-License-Identifier: Apache-2.0
// The plan of an extraction: which bytes of which ranges, as which arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/status.h"
#include "tools/cli/element_type.h"
#include "tools/cli/range_selection.h"

namespace gpusnap {

// "100x200"; no dimension is 0.
std::optional<std::vector<uint64_t>> parse_shape(std::string_view text);
std::string show_shape(const std::vector<uint64_t>& shape);

struct ArrayOptions {
  const ElementType* type = find_element_type("u8");
  std::vector<uint64_t> shape;  // empty: one dimension, all elements from `offset` on
  uint64_t offset = 0;          // bytes from the range's start
};

struct ExtractedArray {
  const Manifest* rank = nullptr;
  uint32_t range = 0;  // its number in that rank
  const ElementType* type = nullptr;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;  // bytes from the range's start
  uint64_t bytes = 0;

  const SavedRange& saved() const { return rank->ranges[range]; }
  std::string name() const;  // "r0-12": of its file, or within the file of all
};

// kInvalid where a type or shape does not fit one of the ranges.
Result<std::vector<ExtractedArray>> plan_arrays(const std::vector<SelectedRanges>& selected,
                                                const ArrayOptions& options);

}  // namespace gpusnap
