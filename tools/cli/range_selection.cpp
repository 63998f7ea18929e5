// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/range_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "tiers/names.h"
#include "tools/cli/range_text.h"

namespace gpusnap {
namespace {

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

bool holds(const SavedRange& range, uint64_t address) {
  const bool has_address = range.kind < kSavedArray;
  return has_address && address >= range.address && address - range.address < range.size;
}

bool is_of(const SavedRange& range, const SiteSelector& site) {
  return range.kind == kSavedAllocation && range.call_site == site.call_site &&
         (!site.ordinal || range.ordinal == *site.ordinal);
}

bool is_named(const SavedRange& range, const std::string& name) {
  const bool has_name =
      range.kind != kSavedAllocation && range.kind != kSavedArray && range.kind != kSavedPhysical;
  return has_name && range.name == name;
}

std::string text_of(const SiteSelector& site) {
  const std::string hash = fmt::format("call site {:016x}", site.call_site);
  return site.ordinal ? hash + fmt::format(" #{}", *site.ordinal) : hash;
}

// The ranges that were found, over the ranks.
class Finder {
 public:
  Finder(const CheckpointInfo& checkpoint, std::vector<const Manifest*> ranks)
      : checkpoint_(checkpoint), ranks_(std::move(ranks)), found_(ranks_.size()) {}

  // Adds the ranges for which `is_meant(range, number)` is true. `what`: for a message.
  template <class IsMeant>
  Status add(const std::string& what, const IsMeant& is_meant) {
    bool any = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const std::vector<SavedRange>& ranges = ranks_[i]->ranges;
      for (uint32_t number = 0; number < ranges.size(); ++number) {
        if (!is_meant(ranges[number], number)) continue;
        any = true;
        found_[i].insert(number);
      }
    }
    if (any) return {};
    return {Code::kNotFound, "there is no range of " + what + " in " + checkpoint_.id +
                                 "; 'gpusnap show " + checkpoint_.id + "' lists what there is"};
  }

  // Ranks without any range are among them.
  std::vector<SelectedRanges> everything() const {
    std::vector<SelectedRanges> selected;
    for (const Manifest* rank : ranks_) {
      std::vector<uint32_t> all(rank->ranges.size());
      std::iota(all.begin(), all.end(), 0U);
      selected.push_back({rank, std::move(all)});
    }
    return selected;
  }

  std::vector<SelectedRanges> take() const {
    std::vector<SelectedRanges> selected;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!found_[i].empty()) selected.push_back({ranks_[i], {found_[i].begin(), found_[i].end()}});
    }
    return selected;
  }

 private:
  const CheckpointInfo& checkpoint_;
  const std::vector<const Manifest*> ranks_;
  std::vector<std::set<uint32_t>> found_;  // by place in ranks_
};

Result<std::vector<const Manifest*>> ranks_of(const CheckpointInfo& checkpoint,
                                              std::optional<uint32_t> rank) {
  std::vector<const Manifest*> ranks;
  for (const Manifest& manifest : checkpoint.ranks) {
    if (!rank || manifest.rank == *rank) ranks.push_back(&manifest);
  }
  if (!ranks.empty() || !rank) return ranks;
  return Status(Code::kNotFound, fmt::format("there is no rank {} in {}: it has {}", *rank,
                                             checkpoint.id, checkpoint.ranks.size()));
}

Status find_all(const RangeSelection& selection, Finder& finder) {
  for (const uint64_t wanted : selection.numbers) {
    Status found =
        finder.add(fmt::format("number {}", wanted),
                   [wanted](const SavedRange&, uint32_t number) { return number == wanted; });
    if (!found.ok()) return found;
  }
  for (const uint64_t address : selection.addresses) {
    Status found =
        finder.add(fmt::format("address 0x{:x}", address),
                   [address](const SavedRange& range, uint32_t) { return holds(range, address); });
    if (!found.ok()) return found;
  }
  for (const SiteSelector& site : selection.sites) {
    Status found = finder.add(
        text_of(site), [&site](const SavedRange& range, uint32_t) { return is_of(range, site); });
    if (!found.ok()) return found;
  }
  for (const std::string& name : selection.names) {
    Status found =
        finder.add("name '" + printable(name) + "'",
                   [&name](const SavedRange& range, uint32_t) { return is_named(range, name); });
    if (!found.ok()) return found;
  }
  return {};
}

}  // namespace

std::optional<SiteSelector> parse_site(std::string_view text) {
  const size_t colon = text.find(':');
  const std::optional<uint64_t> hash = parse_hex(text.substr(0, colon));
  if (!hash) return std::nullopt;
  SiteSelector site{*hash, std::nullopt};
  if (colon == std::string_view::npos) return site;
  const std::optional<uint64_t> ordinal = parse_number(text.substr(colon + 1));
  if (!ordinal || *ordinal > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  site.ordinal = static_cast<uint32_t>(*ordinal);
  return site;
}

std::optional<uint64_t> parse_address(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return parse_hex(text);
}

Result<std::vector<SelectedRanges>> select_ranges(const CheckpointInfo& checkpoint,
                                                  const RangeSelection& selection) {
  const Result<std::vector<const Manifest*>> ranks = ranks_of(checkpoint, selection.rank);
  if (!ranks.ok()) return ranks.status();
  Finder finder(checkpoint, ranks.value());
  if (selection.is_everything()) return finder.everything();
  if (Status found = find_all(selection, finder); !found.ok()) return found;
  return finder.take();
}

}  // namespace gpusnap
