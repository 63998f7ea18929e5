// SPDX-License-Identifier: Apache-2.0
// Which ranges of a checkpoint a user means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

struct SiteSelector {
  uint64_t call_site = 0;
  std::optional<uint32_t> ordinal;  // empty: all allocations of that site
};
// "HASH" or "HASH:ORDINAL"; the hash in hexadecimal digits.
std::optional<SiteSelector> parse_site(std::string_view text);
// In hexadecimal digits, with or without "0x".
std::optional<uint64_t> parse_address(std::string_view text);

// A range that is chosen in any of these ways is selected. Without a way: everything is.
struct RangeSelection {
  std::optional<uint32_t> rank;     // empty: all
  std::vector<uint64_t> numbers;    // as `gpusnap show` lists them
  std::vector<uint64_t> addresses;  // of any byte of an allocation or variable
  std::vector<SiteSelector> sites;
  std::vector<std::string> names;  // of variables, regions and files

  bool is_everything() const {
    return numbers.empty() && addresses.empty() && sites.empty() && names.empty();
  }
};

struct SelectedRanges {
  const Manifest* rank = nullptr;
  std::vector<uint32_t> ranges;  // their numbers, rising
};

// By rank. kNotFound where there is no such rank, or something that was asked for is nowhere.
Result<std::vector<SelectedRanges>> select_ranges(const CheckpointInfo& checkpoint,
                                                  const RangeSelection& selection);

}  // namespace gpusnap
