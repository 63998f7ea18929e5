// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/fragment_table.h"

#include <algorithm>
#include <cassert>

namespace gpusnap::history {

FragmentTable::FragmentTable(uint64_t capacity, uint64_t alignment)
    : alignment_(alignment), capacity_(capacity & ~(alignment - 1)) {
  assert(alignment != 0 && (alignment & (alignment - 1)) == 0);
  if (capacity_ != 0) fragments_.push_back({0, capacity_, std::nullopt, 0});
}

std::optional<size_t> FragmentTable::find(Version version) const {
  const auto offset = offsets_.find(version);
  if (offset == offsets_.end()) return std::nullopt;
  const auto found = std::ranges::lower_bound(fragments_, offset->second, {}, &Fragment::offset);
  return static_cast<size_t>(found - fragments_.begin());
}

FragmentTable::Run FragmentTable::run_of(Claim claim) const {
  const auto is_of_claim = [claim](const Fragment& each) { return each.claim == claim; };
  const auto first = std::ranges::find_if(fragments_, is_of_claim);
  const auto last = std::find_if_not(first, fragments_.end(), is_of_claim);
  return {static_cast<size_t>(first - fragments_.begin()),
          static_cast<size_t>(last - fragments_.begin())};
}

void FragmentTable::claim(size_t first, size_t last, Claim claim) {
  assert(claim != 0 && first < last && last <= fragments_.size());
  for (size_t i = first; i < last; ++i) {
    assert(fragments_[i].claim == 0);
    fragments_[i].claim = claim;
  }
}

void FragmentTable::release(Claim claim) {
  const Run run = run_of(claim);
  for (size_t i = run.first; i < run.last; ++i) fragments_[i].claim = 0;
  // From the right, so that the indices to the left stay what they are.
  for (size_t i = run.last; i > run.first; --i) join_gaps(i - 1);
}

std::span<const Fragment> FragmentTable::claimed(Claim claim) const {
  const Run run = run_of(claim);
  return std::span(fragments_).subspan(run.first, run.last - run.first);
}

uint64_t FragmentTable::take(Claim claim, Version version, uint64_t bytes) {
  const Run run = run_of(claim);
  assert(run.first < run.last && !offsets_.contains(version));
  const Fragment placed = {fragments_[run.first].offset, rounded(bytes), version, 0};
  const uint64_t end = fragments_[run.last - 1].offset + fragments_[run.last - 1].size;
  const Fragment rest = {placed.offset + placed.size, end - placed.offset - placed.size,
                         std::nullopt, 0};
  assert(placed.size != 0 && placed.offset + placed.size <= end);
  replace(run, placed);
  offsets_[version] = placed.offset;
  if (rest.size != 0) {
    fragments_.insert(fragments_.begin() + static_cast<ptrdiff_t>(run.first) + 1, rest);
    join_gaps(run.first + 1);
  }
  return placed.offset;
}

void FragmentTable::remove(Version version) {
  const std::optional<size_t> index = find(version);
  assert(index.has_value());
  offsets_.erase(version);
  fragments_[*index].version.reset();
  join_gaps(*index);
}

void FragmentTable::replace(Run run, const Fragment& by) {
  for (size_t i = run.first; i < run.last; ++i) {
    if (fragments_[i].version) offsets_.erase(*fragments_[i].version);
  }
  fragments_[run.first] = by;
  fragments_.erase(fragments_.begin() + static_cast<ptrdiff_t>(run.first) + 1,
                   fragments_.begin() + static_cast<ptrdiff_t>(run.last));
}

void FragmentTable::join_gaps(size_t index) {
  if (fragments_[index].version) return;
  const auto joins = [this, index](size_t other) {
    return !fragments_[other].version && fragments_[other].claim == fragments_[index].claim;
  };
  Run run = {index, index + 1};
  if (run.first > 0 && joins(run.first - 1)) --run.first;
  if (run.last < fragments_.size() && joins(run.last)) ++run.last;
  const uint64_t begin = fragments_[run.first].offset;
  const uint64_t end = fragments_[run.last - 1].offset + fragments_[run.last - 1].size;
  replace(run, {begin, end - begin, std::nullopt, fragments_[index].claim});
}

}  // namespace gpusnap::history
