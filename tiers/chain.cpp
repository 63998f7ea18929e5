// SPDX-License-Identifier: Apache-2.0
#include "tiers/chain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>

namespace gpusnap {

namespace {

constexpr uint32_t kNoRange = std::numeric_limits<uint32_t>::max();

// For each range of `child` its index in `parent`, kNoRange for a fresh one.
Result<std::vector<uint32_t>> match_ranges(const Manifest& child, const Manifest& parent) {
  const auto key = [](const SavedRange& range) {
    return std::tuple(range.address, range.size, range.life);
  };
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> places;
  for (uint32_t i = 0; i < parent.ranges.size(); ++i) places.emplace(key(parent.ranges[i]), i);
  std::vector<uint32_t> matches(child.ranges.size(), kNoRange);
  for (size_t i = 0; i < child.ranges.size(); ++i) {
    if (child.ranges[i].fresh) continue;
    const auto found = places.find(key(child.ranges[i]));
    if (found == places.end()) {
      return damaged("range " + std::to_string(i) + " of " + std::to_string(child.ranges[i].size) +
                     " bytes is to be in its parent and is not");
    }
    matches[i] = found->second;
  }
  return matches;
}

// Goes from the newest manifest of a chain to the oldest and takes from each what no newer one has.
class Placer {
 public:
  explicit Placer(const std::vector<Manifest>& chain) : chain_(chain) {}

  Result<std::vector<PlacedExtent>> run() {
    const Manifest& newest = chain_.front();
    gaps_.resize(newest.ranges.size());
    here_.resize(newest.ranges.size());
    std::iota(here_.begin(), here_.end(), 0U);
    for (size_t i = 0; i < gaps_.size(); ++i) {
      if (newest.ranges[i].size > 0) gaps_[i].push_back({0, newest.ranges[i].size});
    }
    for (uint32_t member = 0; member < chain_.size(); ++member) {
      take_from(member);
      if (member + 1 == chain_.size()) break;
      if (Status gone = go_on(chain_[member], chain_[member + 1]); !gone.ok()) return gone;
    }
    for (size_t i = 0; i < gaps_.size(); ++i) {
      if (!gaps_[i].empty()) {
        return damaged("range " + std::to_string(i) + " is saved nowhere at byte " +
                       std::to_string(gaps_[i].front().begin));
      }
    }
    sort();
    return std::move(placed_);
  }

 private:
  // Bytes of a range that have not been found yet.
  struct Gap {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // A member's extents by range and offset.
  static std::vector<uint32_t> in_order(const Manifest& m) {
    std::vector<uint32_t> order(m.extents.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(m.extents[a].range, m.extents[a].offset) <
             std::pair(m.extents[b].range, m.extents[b].offset);
    });
    return order;
  }

  void take_from(uint32_t member) {
    const Manifest& m = chain_[member];
    const std::vector<uint32_t> order = in_order(m);
    std::vector<size_t> first(m.ranges.size() + 1);  // by range, in `order`
    for (const Extent& extent : m.extents) ++first[extent.range + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (uint32_t range = 0; range < here_.size(); ++range) {
      const uint32_t at = here_[range];
      if (at == kNoRange || gaps_[range].empty()) continue;
      take(member, std::span(order).subspan(first[at], first[at + 1] - first[at]), range);
    }
  }

  // `extents` are those of the range, in order; so are the gaps.
  void take(uint32_t member, std::span<const uint32_t> extents, uint32_t range) {
    const std::vector<Extent>& all = chain_[member].extents;
    std::vector<Gap> left;
    auto next = extents.begin();
    for (Gap gap : gaps_[range]) {
      while (next != extents.end() && all[*next].offset + all[*next].size <= gap.begin) ++next;
      for (auto it = next; it != extents.end() && all[*it].offset < gap.end; ++it) {
        const Extent& extent = all[*it];
        const uint64_t begin = std::max(gap.begin, extent.offset);
        const uint64_t end = std::min(gap.end, extent.offset + extent.size);
        if (begin > gap.begin) left.push_back({gap.begin, begin});
        placed_.push_back({member, *it, begin - extent.offset, range, begin, end - begin});
        gap.begin = end;
      }
      if (gap.begin < gap.end) left.push_back(gap);
    }
    gaps_[range] = std::move(left);
  }

  // From the ranges of a member to those of its parent.
  Status go_on(const Manifest& member, const Manifest& parent) {
    const Result<std::vector<uint32_t>> matches = match_ranges(member, parent);
    if (!matches.ok()) return matches.status();
    for (uint32_t& at : here_) {
      if (at != kNoRange) at = matches.value()[at];
    }
    return {};
  }

  // As the bytes lie in the files.
  void sort() {
    const auto place = [this](const PlacedExtent& piece) {
      const Extent& extent = chain_[piece.member].extents[piece.extent];
      return std::tuple(piece.member, extent.segment, extent.segment_offset, piece.extent,
                        piece.within);
    };
    std::sort(placed_.begin(), placed_.end(),
              [&](const PlacedExtent& a, const PlacedExtent& b) { return place(a) < place(b); });
  }

  const std::vector<Manifest>& chain_;
  std::vector<std::vector<Gap>> gaps_;  // by range of chain_[0]
  std::vector<uint32_t> here_;          // their indices in the member at hand
  std::vector<PlacedExtent> placed_;
};

}  // namespace

Status check_link(const Manifest& child, const Manifest& parent, uint64_t checksum) {
  const bool merged = parent.replaces != 0 && parent.replaces == child.parent_checksum;
  if (checksum != child.parent_checksum && !merged) {
    return damaged("it was made on another checkpoint than the one that has its parent's number, " +
                   std::to_string(child.parent));
  }
  return match_ranges(child, parent).status();
}

Status check_length(const Manifest& manifest, uint64_t ancestors) {
  if (ancestors <= manifest.chain) return {};
  return damaged("it has " + std::to_string(ancestors) + " ancestors instead of " +
                 std::to_string(manifest.chain));
}

Result<std::vector<PlacedExtent>> place_extents(const std::vector<Manifest>& chain) {
  return Placer(chain).run();
}

std::span<const PlacedExtent> leading_extent(std::span<const PlacedExtent> pieces) {
  const PlacedExtent& first = pieces.front();
  const auto end = std::find_if(pieces.begin(), pieces.end(), [&](const PlacedExtent& piece) {
    return piece.member != first.member || piece.extent != first.extent;
  });
  return {pieces.begin(), end};
}

uint64_t read_bytes(std::span<const Manifest> chain, std::span<const PlacedExtent> pieces) {
  uint64_t bytes = 0;
  // Where what was counted last lies: a part of an extent, or a block.
  std::optional<std::tuple<uint32_t, uint32_t, uint64_t>> counted;
  const auto count = [&](uint32_t member, const Extent& extent, uint64_t place, uint64_t size) {
    const std::tuple at(member, extent.segment, place);
    if (counted != at) bytes += size;
    counted = at;
  };
  for (const PlacedExtent& piece : pieces) {
    const Extent& extent = chain[piece.member].extents[piece.extent];
    if (extent.form != Form::kStored) {
      count(piece.member, extent, extent.segment_offset, extent.block_bytes);
      continue;
    }
    const size_t last = extent.part_at(piece.within + piece.size - 1);
    for (size_t number = extent.part_at(piece.within); number <= last; ++number) {
      const Extent::Part part = extent.part(number);
      count(piece.member, extent, extent.segment_offset + part.begin, part.end - part.begin);
    }
  }
  return bytes;
}

}  // namespace gpusnap
