// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/comparison.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "tools/cli/range_text.h"

namespace gpusnap {
namespace {

// Identifies a range in another checkpoint. The size is 0 if it does not count.
using Identity = std::tuple<uint8_t, uint64_t, uint32_t, uint64_t, std::string, uint64_t>;

Identity identity_of(const SavedRange& range, bool with_size) {
  const bool has_site = range.kind == kSavedAllocation;
  return {range.kind, has_site ? range.call_site : 0, range.ordinal, range.module,
          range.name, with_size ? range.size : 0};
}

class Matcher {
 public:
  Matcher(const std::vector<SavedRange>& one, const std::vector<SavedRange>& other)
      : one_(one), other_(other), of_one_(one.size()), taken_(other.size()) {}

  void by_identity(bool with_size) {
    std::multimap<Identity, uint32_t> there;
    for (uint32_t i = 0; i < other_.size(); ++i) {
      if (!taken_[i]) there.emplace(identity_of(other_[i], with_size), i);
    }
    for (uint32_t i = 0; i < one_.size(); ++i) {
      if (of_one_[i]) continue;
      const auto found = there.find(identity_of(one_[i], with_size));
      if (found == there.end()) continue;
      join({i, found->second, false});
      there.erase(found);
    }
  }

  void by_number() {
    for (uint32_t i = 0; i < std::min(one_.size(), other_.size()); ++i) {
      if (of_one_[i] || taken_[i]) continue;
      if (one_[i].kind != other_[i].kind || one_[i].size != other_[i].size) continue;
      join({i, i, true});
    }
  }

  RangeMatch take() const {
    RangeMatch match;
    for (uint32_t i = 0; i < one_.size(); ++i) {
      if (of_one_[i]) match.both.push_back(*of_one_[i]);
      if (!of_one_[i]) match.only_one.push_back(i);
    }
    for (uint32_t i = 0; i < other_.size(); ++i) {
      if (!taken_[i]) match.only_other.push_back(i);
    }
    return match;
  }

 private:
  void join(const RangePair& pair) {
    of_one_[pair.one] = pair;
    taken_[pair.other] = true;
  }

  const std::vector<SavedRange>& one_;
  const std::vector<SavedRange>& other_;
  std::vector<std::optional<RangePair>> of_one_;
  std::vector<bool> taken_;
};

bool are_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
  return std::memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace

RangeMatch match_ranges(const std::vector<SavedRange>& one, const std::vector<SavedRange>& other) {
  Matcher matcher(one, other);
  matcher.by_identity(true);
  matcher.by_identity(false);
  matcher.by_number();
  return matcher.take();
}

void RangeComparison::add(std::span<const std::byte> one, std::span<const std::byte> other) {
  const uint64_t begin = end_;
  end_ += one.size();
  // Zone by zone: most of them are equal.
  for (uint64_t at = begin; at < end_;) {
    const uint64_t zone = at / units_.zone;
    const uint64_t next = std::min(end_, (zone + 1) * units_.zone);
    const auto part_of_one = one.subspan(at - begin, next - at);
    const auto part_of_other = other.subspan(at - begin, next - at);
    if (!are_equal(part_of_one, part_of_other)) {
      add_differing(at, part_of_one, part_of_other);
      if (zone >= next_zone_) ++zones_;
      next_zone_ = zone + 1;
    }
    at = next;
  }
}

void RangeComparison::add_differing(uint64_t offset, std::span<const std::byte> one,
                                    std::span<const std::byte> other) {
  for (uint64_t at = 0; at < one.size(); at += units_.element) {
    const uint64_t size = std::min<uint64_t>(units_.element, one.size() - at);
    const auto a = one.subspan(at, size);
    const auto b = other.subspan(at, size);
    if (are_equal(a, b)) continue;
    ++elements_;
    for (uint64_t i = 0; i < size; ++i) bytes_ += a[i] != b[i] ? 1 : 0;
    if (first_.size() == units_.most) continue;
    first_.push_back({(offset + at) / units_.element, {a.begin(), a.end()}, {b.begin(), b.end()}});
  }
}

}  // namespace gpusnap
