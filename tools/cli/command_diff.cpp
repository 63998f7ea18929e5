// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/checkpoint_diff.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/range_text.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct DiffOptions {
  std::string store;  // empty: as the environment says
  std::string one;
  std::string other;
  std::string other_store;            // empty: the same
  RangeSelection ranges;              // of `one`
  const ElementType* type = nullptr;  // null: words of 4 bytes
  size_t most = 10;                   // elements that are shown of a range
  bool json = false;
};

constexpr uint64_t kWord = 4;  // bytes: what is compared where no type is given

// Two checkpoints and what was found.
struct Compared {
  CheckpointInfo one;
  CheckpointInfo other;
  std::vector<ComparedRank> ranks;
  std::vector<uint32_t> ranks_only_one;
  std::vector<uint32_t> ranks_only_other;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const ComparedRank& rank : ranks) {
      for (const ComparedPair& pair : rank.pairs) sum += pair.bytes;
    }
    return sum;
  }
  // Ranges that both have.
  uint64_t pairs() const {
    uint64_t sum = 0;
    for (const ComparedRank& rank : ranks) sum += rank.pairs.size();
    return sum;
  }
  uint64_t different_pairs() const {
    uint64_t sum = 0;
    for (const ComparedRank& rank : ranks) {
      for (const ComparedPair& pair : rank.pairs) sum += rank.is_different(pair) ? 1 : 0;
    }
    return sum;
  }
  uint64_t alone() const {  // ranges that one of them has
    uint64_t sum = 0;
    for (const ComparedRank& rank : ranks) sum += rank.only_one.size() + rank.only_other.size();
    return sum;
  }
  bool differ() const {
    return different_pairs() + alone() + ranks_only_one.size() + ranks_only_other.size() > 0;
  }
};

const Manifest* find_rank(const CheckpointInfo& checkpoint, uint32_t rank) {
  const auto found = std::ranges::find(checkpoint.ranks, rank, &Manifest::rank);
  return found == checkpoint.ranks.end() ? nullptr : &*found;
}

RangeComparison::Units units_of(const DiffOptions& options, const Manifest& rank) {
  RangeComparison::Units units;
  units.element = options.type == nullptr ? kWord : options.type->bytes;
  const bool has_zones = std::has_single_bit(rank.zone_bytes) && rank.zone_bytes >= 4096;
  if (has_zones) units.zone = rank.zone_bytes;
  units.most = options.most;
  return units;
}

ComparedRank pair_up(const DiffOptions& options, const SelectedRanges& selected,
                     const Manifest& other) {
  const bool all = options.ranges.is_everything();
  const auto is_selected = [&](uint32_t range) {
    return all || std::ranges::binary_search(selected.ranges, range);
  };
  const RangeMatch match = match_ranges(selected.rank->ranges, other.ranges);
  ComparedRank rank;
  rank.one = selected.rank;
  rank.other = &other;
  for (const RangePair& pair : match.both) {
    if (!is_selected(pair.one)) continue;
    const uint64_t bytes =
        std::min(rank.one->ranges[pair.one].size, rank.other->ranges[pair.other].size);
    rank.pairs.push_back({pair, bytes, RangeComparison(units_of(options, *rank.one))});
  }
  for (const uint32_t range : match.only_one) {
    if (is_selected(range)) rank.only_one.push_back(range);
  }
  if (all) rank.only_other = match.only_other;
  return rank;
}

// Which ranges are compared with which.
Status pair_up(const DiffOptions& options, Compared& compared) {
  const auto selected = select_ranges(compared.one, options.ranges);
  if (!selected.ok()) return selected.status();
  for (const SelectedRanges& of_rank : selected.value()) {
    const Manifest* const other = find_rank(compared.other, of_rank.rank->rank);
    if (other != nullptr) compared.ranks.push_back(pair_up(options, of_rank, *other));
    if (other == nullptr) compared.ranks_only_one.push_back(of_rank.rank->rank);
  }
  if (options.ranges.rank || !options.ranges.is_everything()) return {};
  for (const Manifest& rank : compared.other.ranks) {
    if (find_rank(compared.one, rank.rank) == nullptr) {
      compared.ranks_only_other.push_back(rank.rank);
    }
  }
  return {};
}

Status compare_all(Store& store, Store& other_store, Compared& compared) {
  ProgressBar bar(compared.one.id);
  const uint64_t total = compared.bytes();
  uint64_t done = 0;
  for (ComparedRank& rank : compared.ranks) {
    RankDiff diff({store, compared.one}, {other_store, compared.other}, rank,
                  [&](uint64_t bytes) { bar.update(done += bytes, total); });
    if (Status read = diff.run(); !read.ok()) return read;
  }
  return {};
}

std::string show_differing(const DiffOptions& options, const std::vector<std::byte>& element) {
  if (options.type == nullptr) return show_bits(element);
  return show_element(*options.type, element);
}

std::string plural(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string describe_range(const SavedRange& range) {
  return fmt::format("{} {} at 0x{:x}, {} bytes", name_of_kind(range), show_origin(range),
                     range.address, range.size);
}

void print_pair(const DiffOptions& options, const ComparedRank& rank, const ComparedPair& pair) {
  const SavedRange& one = rank.range_of_one(pair);
  const SavedRange& other = rank.range_of_other(pair);
  fmt::print("rank {} range {}", rank.one->rank, pair.ranges.one);
  if (pair.ranges.one != pair.ranges.other) fmt::print(" and {}", pair.ranges.other);
  fmt::print(" ({}{}): ", describe_range(one),
             pair.ranges.by_number ? ", matched by its number alone" : "");
  if (one.size != other.size) fmt::print("the other has {} bytes; ", other.size);
  const RangeComparison& result = pair.result;
  if (!result.differs()) {
    fmt::print("no difference in the first {} bytes\n", pair.bytes);
    return;
  }
  const std::string type =
      options.type == nullptr ? "word" : fmt::format("{} element", options.type->name);
  fmt::print("{} in {} and {} differ\n", plural(result.bytes(), "byte"),
             plural(result.elements(), type.c_str()), plural(result.zones(), "zone"));
  std::vector<std::vector<std::string>> rows;
  for (const DifferingElement& element : result.first()) {
    rows.push_back({"", fmt::format("[{}]", element.index), show_differing(options, element.one),
                    show_differing(options, element.other)});
  }
  fmt::print("{}", table(rows, "lrrr"));
  if (result.elements() > rows.size() && !rows.empty()) {
    fmt::print("  and {} more\n", result.elements() - rows.size());
  }
}

void print_alone(const CheckpointInfo& checkpoint, const Manifest& rank,
                 const std::vector<uint32_t>& ranges) {
  for (const uint32_t range : ranges) {
    fmt::print("rank {} range {} ({}): only in {}\n", rank.rank, range,
               describe_range(rank.ranges[range]), checkpoint.id);
  }
}

void print_compared(const DiffOptions& options, const Compared& compared) {
  for (const uint32_t rank : compared.ranks_only_one) {
    fmt::print("rank {}: only in {}\n", rank, compared.one.id);
  }
  for (const uint32_t rank : compared.ranks_only_other) {
    fmt::print("rank {}: only in {}\n", rank, compared.other.id);
  }
  for (const ComparedRank& rank : compared.ranks) {
    for (const ComparedPair& pair : rank.pairs) {
      if (rank.is_different(pair)) print_pair(options, rank, pair);
    }
    print_alone(compared.one, *rank.one, rank.only_one);
    print_alone(compared.other, *rank.other, rank.only_other);
  }
  fmt::print("{} and {}: ", compared.one.id, compared.other.id);
  const std::string compared_bytes = show_bytes(compared.bytes());
  if (!compared.differ()) {
    fmt::print("equal ({}, {})\n", plural(compared.pairs(), "range"), compared_bytes);
    return;
  }
  fmt::print("{} of {} ({}) differ", compared.different_pairs(), plural(compared.pairs(), "range"),
             compared_bytes);
  if (compared.alone() > 0) fmt::print("; {} only in one", plural(compared.alone(), "range"));
  fmt::print("\n");
}

void add_compared_range(Json& json, const char* name, uint32_t number, const Manifest& rank) {
  const SavedRange& range = rank.ranges[number];
  if (name != nullptr) json.key(name);
  json.begin_object();
  json.key("range").value(uint64_t{number});
  json.key("kind").value(name_of_kind(range));
  json.key("address").value(fmt::format("0x{:x}", range.address));
  json.key("size").value(range.size);
  add_origin(json, range, rank.by_program());
  json.end_object();
}

void add_pair(Json& json, const DiffOptions& options, const ComparedRank& rank,
              const ComparedPair& pair) {
  json.begin_object();
  add_compared_range(json, "one", pair.ranges.one, *rank.one);
  add_compared_range(json, "other", pair.ranges.other, *rank.other);
  json.key("matched_by").value(pair.ranges.by_number ? "number" : "identity");
  json.key("compared_bytes").value(pair.bytes);
  json.key("bytes").value(pair.result.bytes());
  json.key("elements").value(pair.result.elements());
  json.key("zones").value(pair.result.zones());
  json.key("first").begin_array();
  for (const DifferingElement& element : pair.result.first()) {
    json.begin_object();
    json.key("index").value(element.index);
    json.key("one").value(show_differing(options, element.one));
    json.key("other").value(show_differing(options, element.other));
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void add_alone(Json& json, const char* name, const Manifest& rank,
               const std::vector<uint32_t>& ranges) {
  json.key(name).begin_array();
  for (const uint32_t range : ranges) add_compared_range(json, nullptr, range, rank);
  json.end_array();
}

void add_lone_ranks(Json& json, const char* name, const std::vector<uint32_t>& ranks) {
  json.key(name).begin_array();
  for (const uint32_t rank : ranks) json.value(uint64_t{rank});
  json.end_array();
}

std::string compared_as_json(const DiffOptions& options, const Compared& compared) {
  Json json;
  json.begin_object();
  json.key("one").value(compared.one.id);
  json.key("other").value(compared.other.id);
  json.key("equal").value(!compared.differ());
  json.key("dtype").value(options.type == nullptr ? "word" : options.type->name);
  json.key("compared_ranges").value(compared.pairs());
  json.key("compared_bytes").value(compared.bytes());
  json.key("ranks").begin_array();
  for (const ComparedRank& rank : compared.ranks) {
    json.begin_object();
    json.key("rank").value(uint64_t{rank.one->rank});
    json.key("different").begin_array();
    for (const ComparedPair& pair : rank.pairs) {
      if (rank.is_different(pair)) add_pair(json, options, rank, pair);
    }
    json.end_array();
    add_alone(json, "only_one", *rank.one, rank.only_one);
    add_alone(json, "only_other", *rank.other, rank.only_other);
    json.end_object();
  }
  json.end_array();
  add_lone_ranks(json, "ranks_only_one", compared.ranks_only_one);
  add_lone_ranks(json, "ranks_only_other", compared.ranks_only_other);
  return json.end_object().text() + "\n";
}

int diff_command(const DiffOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Result<std::unique_ptr<Store>> other_store =
      open_store(options.other_store.empty() ? options.store : options.other_store);
  if (!other_store.ok()) return fail(other_store.status());
  Result<CheckpointInfo> one = find_complete(*store.value(), options.one);
  if (!one.ok()) return fail(one.status());
  Result<CheckpointInfo> other = find_complete(*other_store.value(), options.other);
  if (!other.ok()) return fail(other.status());
  Compared compared;
  compared.one = std::move(one.value());
  compared.other = std::move(other.value());
  if (Status paired = pair_up(options, compared); !paired.ok()) return fail(paired);
  if (Status read = compare_all(*store.value(), *other_store.value(), compared); !read.ok()) {
    return fail(read);
  }
  if (options.json) {
    fmt::print("{}", compared_as_json(options, compared));
  } else {
    print_compared(options, compared);
  }
  return compared.differ() ? kExitDiffers : kExitOk;
}

void declare_diff(CLI::App& command, DiffOptions& options) {
  command.add_option("ONE", options.one, "JOB@EPOCH, JOB@latest or JOB")->required();
  command.add_option("OTHER", options.other, "likewise, of the same run or of another")->required();
  add_selection(command, options.ranges);
  add_element_type(command,
                   "the type of the elements (default: words of 4 bytes, in hexadecimal digits): " +
                       element_type_names(),
                   [&options](const ElementType* type) { options.type = type; });
  command.add_option("--most", options.most, "elements that are shown of each range (default 10)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  command.add_flag("--json", options.json,
                   "an object with one, other, equal, dtype, compared_ranges, compared_bytes, "
                   "ranks_only_one, ranks_only_other, ranks: rank, different (one, other, "
                   "matched_by, compared_bytes, bytes, elements, zones, first), only_one, "
                   "only_other");
  add_store(command, options.store);
  command.add_option("--other-store", options.other_store,
                     "the store of OTHER (default: the same)");
  end_help(command,
           "Ranges are matched by kind, call site, ordinal and size; what is left, by number. Bits "
           "are\ncompared: 0.0 and -0.0 differ. --range, --address, --site and --name choose in "
           "ONE. What both\nhave in the same place of the same file is equal, and not read.\n\n"
           "Examples:\n"
           "  gpusnap diff wave@11 wave@12\n"
           "  gpusnap diff wave@12 mutant@12 --range 3 --dtype f32\n\n");
}

}  // namespace

const Command kDiffCommand{
    "diff", "show which memory differs between two checkpoints",
    [](CLI::App& command) { return action_of(command, declare_diff, diff_command); }};

}  // namespace gpusnap
