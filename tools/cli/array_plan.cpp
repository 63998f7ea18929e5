// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/array_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tiers/names.h"

namespace gpusnap {
namespace {

constexpr size_t kMostDimensions = 32;  // as in every NumPy

// Empty where the product is beyond 64 bits.
std::optional<uint64_t> bytes_of(const std::vector<uint64_t>& shape, uint32_t element) {
  uint64_t bytes = element;
  for (const uint64_t dimension : shape) {
    if (bytes > std::numeric_limits<uint64_t>::max() / dimension) return std::nullopt;
    bytes *= dimension;
  }
  return bytes;
}

Status does_not_fit(const ExtractedArray& array, const std::string& what) {
  return {Code::kInvalid,
          fmt::format("range {} of rank {} has {} bytes{}: {}", array.range, array.rank->rank,
                      array.saved().size,
                      array.offset == 0 ? ""
                                        : fmt::format(", {} of them from --offset on",
                                                      array.saved().size - array.offset),
                      what)};
}

Result<ExtractedArray> plan_array(const Manifest& rank, uint32_t range,
                                  const ArrayOptions& options) {
  ExtractedArray array;
  array.rank = &rank;
  array.range = range;
  array.type = options.type;
  array.offset = std::min(options.offset, array.saved().size);
  const uint64_t left = array.saved().size - array.offset;
  if (options.offset > array.saved().size) {
    return does_not_fit(array, fmt::format("--offset {} lies behind them", options.offset));
  }
  if (options.shape.empty()) {
    if (left % array.type->bytes != 0) {
      return does_not_fit(array, fmt::format("no whole number of {}; give another --dtype or a "
                                             "--shape",
                                             array.type->name));
    }
    array.shape = {left / array.type->bytes};
    array.bytes = left;
    return array;
  }
  const std::optional<uint64_t> bytes = bytes_of(options.shape, array.type->bytes);
  if (!bytes || *bytes > left) {
    return does_not_fit(
        array, fmt::format("--shape {} of {} needs {}", show_shape(options.shape), array.type->name,
                           bytes ? std::to_string(*bytes) : "more than 64 bits"));
  }
  array.shape = options.shape;
  array.bytes = *bytes;
  return array;
}

}  // namespace

std::optional<std::vector<uint64_t>> parse_shape(std::string_view text) {
  std::vector<uint64_t> shape;
  for (;;) {
    const size_t end = std::min(text.find('x'), text.size());
    const std::optional<uint64_t> dimension = parse_number(text.substr(0, end));
    if (!dimension || *dimension == 0 || shape.size() == kMostDimensions) return std::nullopt;
    shape.push_back(*dimension);
    if (end == text.size()) return shape;
    text.remove_prefix(end + 1);
  }
}

std::string show_shape(const std::vector<uint64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

std::string ExtractedArray::name() const {
  return fmt::format("r{}-{}", rank->rank, range);
}

Result<std::vector<ExtractedArray>> plan_arrays(const std::vector<SelectedRanges>& selected,
                                                const ArrayOptions& options) {
  std::vector<ExtractedArray> arrays;
  for (const SelectedRanges& of_rank : selected) {
    for (const uint32_t range : of_rank.ranges) {
      Result<ExtractedArray> array = plan_array(*of_rank.rank, range, options);
      if (!array.ok()) return array.status();
      arrays.push_back(std::move(array.value()));
    }
  }
  return arrays;
}

}  // namespace gpusnap
