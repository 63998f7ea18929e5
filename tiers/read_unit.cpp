// SPDX-License-Identifier: Apache-2.0
#include "tiers/read_unit.h"

#include <tuple>
#include <utility>

#include "tiers/format.h"
#include "tiers/page_memory.h"
#include "tiers/segment.h"

namespace gpusnap {

namespace {

// Less than that between two extents costs less to read than another read. In a chain that is what
// newer ones have replaced, in zones of 64 KiB: half a zone, so that none is read for nothing.
constexpr uint64_t kGap = 32 << 10;

uint64_t page_of(uint64_t offset) {
  return offset / kPageBytes * kPageBytes;
}

// Large enough that there are few, small enough to fill what is read at once.
constexpr uint64_t kMostItemBytes = 256 << 10;

// Calls with each item of an extent.
template <class F>
void for_each_item(const Extent& extent, std::span<const PlacedExtent> pieces, F f) {
  if (extent.parts.empty()) return f(ReadItem{&extent, 0, extent.size, pieces});
  const auto is_wanted = [&](size_t part) {
    const auto [begin, end, checksum] = extent.part(part);
    while (!pieces.empty() && pieces[0].within + pieces[0].size <= begin) {
      pieces = pieces.subspan(1);
    }
    return !pieces.empty() && pieces[0].within < end;
  };
  const bool all = pieces.empty();
  for (size_t part = 0; part < extent.parts.size();) {
    if (!all && !is_wanted(part)) {
      if (pieces.empty()) return;
      part = extent.part_at(pieces[0].within);
      continue;
    }
    const std::span<const PlacedExtent> first = pieces;
    ReadItem item{&extent, extent.part(part).begin, 0, {}};
    do {
      item.size = extent.part(part++).end - item.from;
    } while (item.size < kMostItemBytes && part < extent.parts.size() && (all || is_wanted(part)));
    size_t count = 0;
    while (count < first.size() && first[count].within < item.from + item.size) ++count;
    item.pieces = first.first(count);
    f(item);
  }
}

bool same_block(const Extent& a, const Extent& b) {
  return std::tuple(a.form, a.segment_offset, a.block_stored, a.block_bytes) ==
         std::tuple(b.form, b.segment_offset, b.block_stored, b.block_bytes);
}

}  // namespace

void UnitPlan::begin_segment(ReadSegment segment) {
  segments_.push_back(std::move(segment));
  begin(0);
  units_.back().end = kSegmentHeaderBytes;
  units_.back().is_header = true;
  open_ = false;
}

void UnitPlan::add(const Extent& extent, std::span<const PlacedExtent> pieces) {
  for_each_item(extent, pieces, [this](const ReadItem& item) { add_item(item); });
}

void UnitPlan::add_item(const ReadItem& item) {
  const NearChunk* const copy = copy_of(item);
  if (!joins(item) || units_.back().copy != copy) begin(item.begin());
  ReadUnit& unit = units_.back();
  unit.copy = copy;
  unit.end = std::max(unit.end, item.end());
  unit.items.push_back(item);
}

void UnitPlan::add_padding(uint64_t from, uint64_t to) {
  while (from < to) {
    if (!open_ || from + kPageBytes >= page_of(units_.back().begin) + most_) begin(from);
    ReadUnit& unit = units_.back();
    const uint64_t end = std::min(to, page_of(unit.begin) + most_ - kPageBytes);
    unit.gaps.push_back({from, end});
    unit.end = end;
    from = end;
  }
}

ReadUnits UnitPlan::take() {
  leave_out_headers();
  for (ReadUnit& unit : units_) {
    const ReadSegment& segment = segments_[unit.segment];
    // Unused bytes of a header are padding like any other.
    unit.bytes = unit.is_header ? kSegmentHeaderUsedBytes : unit.end - unit.begin;
    // Whole pages go past the page cache.
    unit.begin = page_of(unit.begin);
    unit.end = std::min(page_of(unit.end + kPageBytes - 1), segment.size);
  }
  return {std::move(segments_), std::move(units_)};
}

const NearChunk* UnitPlan::copy_of(const ReadItem& item) const {
  if (near_ == nullptr || near_->empty()) return nullptr;
  return near_->find(segments_.back().path(), item.begin(), item.end() - item.begin());
}

// A segment of which all is elsewhere is not opened.
void UnitPlan::leave_out_headers() {
  std::vector<bool> is_read(segments_.size(), near_ == nullptr);
  for (const ReadUnit& unit : units_) {
    if (!unit.is_header && unit.copy == nullptr) is_read[unit.segment] = true;
  }
  std::erase_if(units_,
                [&](const ReadUnit& unit) { return unit.is_header && !is_read[unit.segment]; });
}

bool UnitPlan::joins(const ReadItem& item) const {
  if (!open_) return false;
  const ReadUnit& last = units_.back();
  if (item.is_block() || last.is_block()) {
    return !last.items.empty() && same_block(*item.extent, *last.items.back().extent);
  }
  return item.begin() >= last.begin && item.begin() <= last.end + kGap &&
         item.end() + kPageBytes - page_of(last.begin) <= most_;
}

void UnitPlan::begin(uint64_t from) {
  ReadUnit unit;
  unit.segment = last_segment();
  unit.begin = unit.end = from;
  units_.push_back(std::move(unit));
  open_ = true;
}

Status UnitChecker::check(const ReadSegment& segment, const ReadUnit& unit,
                          std::span<const std::byte> raw, std::span<std::byte> plain) {
  if (unit.is_header) {
    return check_segment_header(raw, segment.path(), job_folder_name_, *segment.manifest,
                                segment.index);
  }
  if (unit.is_block()) {
    const Extent& extent = *unit.items.front().extent;
    const auto stored = raw.subspan(extent.segment_offset - unit.begin, extent.block_stored);
    if (Status whole = decompress(segment, extent, stored, plain); !whole.ok()) return whole;
  }
  for (const ReadItem& item : unit.items) {
    const auto bytes = plain.subspan(place_of(unit, *item.extent, item.from), item.size);
    Status right = check_parts(segment.path(), *item.extent, item.from, bytes);
    if (!right.ok()) return right;
  }
  return zeros(segment, unit, raw);
}

Status UnitChecker::decompress(const ReadSegment& segment, const Extent& extent,
                               std::span<const std::byte> stored, std::span<std::byte> plain) {
  if (most_ < extent.block_bytes) {
    auto made = Decompressor::make(extent.block_bytes);
    if (!made.ok()) return made.status();
    decompressor_ = std::move(made.value());
    most_ = extent.block_bytes;
  }
  Status whole = decompressor_->decompress(extent.form, stored, plain);
  const bool foreign = whole.code() == Code::kDamaged || whole.code() == Code::kUnsupported;
  if (!foreign) return whole;
  return wrong_content(segment.path(), extent.segment_offset,
                       extent.segment_offset + extent.block_stored, whole.message());
}

Status UnitChecker::zeros(const ReadSegment& segment, const ReadUnit& unit,
                          std::span<const std::byte> raw) {
  for (const ReadUnit::Gap& gap : unit.gaps) {
    const auto bytes = raw.subspan(gap.begin - unit.begin, gap.end - gap.begin);
    if (std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == std::byte{0}; })) {
      continue;
    }
    return {Code::kDamaged, "segment " + segment.path() + " is damaged between bytes " +
                                std::to_string(gap.begin) + " and " + std::to_string(gap.end) +
                                ": padding is not zero"};
  }
  return {};
}

}  // namespace gpusnap
