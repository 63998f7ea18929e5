// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/copies.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>

#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap::levels {

bool PartCopies::is_whole() const {
  if (shards.size() != about.scheme.shards()) return false;
  // A node for each shard: shards take others' nodes where those have another one (Kuhn).
  std::map<uint32_t, uint32_t> taken;  // node: shard
  const std::function<bool(uint32_t, std::set<uint32_t>&)> place = [&](uint32_t shard,
                                                                       std::set<uint32_t>& tried) {
    for (const uint32_t node : shards.at(shard)) {
      if (!tried.insert(node).second) continue;
      const auto found = taken.find(node);
      if (found != taken.end() && !place(found->second, tried)) continue;
      taken[node] = shard;
      return true;
    }
    return false;
  };
  return std::ranges::all_of(shards, [&](const auto& shard) {
    std::set<uint32_t> tried;
    return place(shard.first, tried);
  });
}

std::vector<PartCopies> put_together(
    const std::vector<std::pair<uint32_t, std::vector<ShardHeader>>>& said) {
  using Coding = std::tuple<PartId, uint64_t, LevelScheme, uint64_t>;
  std::map<Coding, PartCopies> found;
  for (const auto& [node, headers] : said) {
    for (const ShardHeader& header : headers) {
      PartCopies& copies = found[{header.part, header.coding, header.scheme, header.image_bytes}];
      copies.about = header;
      copies.shards[header.number].push_back(node);
    }
  }
  std::vector<PartCopies> parts;
  parts.reserve(found.size());
  for (auto& [coding, copies] : found) parts.push_back(std::move(copies));
  std::ranges::stable_sort(parts, std::greater(),
                           [](const PartCopies& each) { return each.about.part.epoch; });
  return parts;
}

Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job) {
  std::vector<uint32_t> all(nodes.size());
  std::iota(all.begin(), all.end(), 0U);
  return look_at(nodes, store, job, all);
}

Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job,
                  std::span<const uint32_t> which) {
  Mutex mutex;
  std::vector<std::pair<uint32_t, std::vector<ShardHeader>>> said;
  Catalogue catalogue;
  std::vector<std::thread> threads;
  for (const uint32_t node : which) {
    threads.emplace_back([&, node] {
      auto listed = no_throw("ask another node", [&] { return nodes[node]->list(store, job); });
      const MutexLock lock(mutex);
      if (listed.ok()) {
        said.emplace_back(node, std::move(listed.value()));
      } else {
        catalogue.unreachable[node] = listed.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(said, {}, [](const auto& each) { return each.first; });
  catalogue.parts = put_together(said);
  return catalogue;
}

namespace {

// The better coding of the same part; or, where runs cannot be told apart, the newer one's.
bool is_better(const PartCopies& one, const PartCopies& other) {
  const auto worth = [](const PartCopies& each) {
    return std::tuple(each.is_recoverable(), each.about.cut_unix_ns, each.is_whole(),
                      each.shards.size());
  };
  return worth(one) > worth(other);
}

// How well a part fits as a parent: one of the same run first, whose numbers are each its own, then
// one that was made before the child. A run that was made since may have taken the parent's number.
auto fit(const PartCopies& parent, const PartCopies& child) {
  return std::pair(parent.about.part.run == child.about.part.run,
                   parent.about.cut_unix_ns < child.about.cut_unix_ns);
}

// Parts that have this in common are of one checkpoint: the epoch and the run. Ranks of runs that
// have no number (Manifest::job_run) cannot be told from those of other runs.
using RunsEpoch = std::pair<uint64_t, std::string>;

RunsEpoch run_and_epoch(const ShardHeader& about) {
  return {about.part.epoch, about.ranks == 1 ? about.part.run : std::to_string(about.job_run)};
}

}  // namespace

Ancestry::Ancestry(const std::vector<PartCopies>& parts) {
  for (const PartCopies& each : parts) {
    by_place_[{each.about.part.epoch, each.about.part.rank}].push_back(&each);
  }
}

const PartCopies* Ancestry::parent_of(const PartCopies& part) const {
  if (part.about.parent == 0) return nullptr;
  const auto there = by_place_.find({part.about.parent, part.about.part.rank});
  if (there == by_place_.end()) return nullptr;
  const PartCopies* best = nullptr;
  for (const PartCopies* each : there->second) {
    const bool is_first = best == nullptr || fit(*each, part) > fit(*best, part);
    const bool is_equal = best != nullptr && fit(*each, part) == fit(*best, part);
    if (is_first || (is_equal && is_better(*each, *best))) best = each;
  }
  return best;
}

std::vector<EpochCopies> epochs_of(const std::vector<PartCopies>& parts) {
  std::map<RunsEpoch, std::map<uint32_t, const PartCopies*>, std::greater<>> best;
  for (const PartCopies& each : parts) {
    const PartCopies*& found = best[run_and_epoch(each.about)][each.about.part.rank];
    if (found == nullptr || is_better(each, *found)) found = &each;
  }
  const Ancestry ancestry(parts);
  // A part counts as its ancestors do.
  const auto holds = [&](const PartCopies* part, bool (PartCopies::*does)() const) {
    for (; part != nullptr; part = ancestry.parent_of(*part)) {
      if (!(part->*does)()) return false;
      if (part->about.parent == 0) return true;
    }
    return false;
  };
  std::vector<EpochCopies> epochs;
  for (const auto& [id, ranks] : best) {
    EpochCopies copies;
    copies.epoch = id.first;
    const ShardHeader& about = ranks.begin()->second->about;
    copies.scheme = about.scheme;
    copies.parts.resize(std::max<size_t>(about.ranks, ranks.rbegin()->first + size_t{1}));
    for (const auto& [rank, part] : ranks) copies.parts[rank] = part;
    const auto all = [&](bool (PartCopies::*does)() const) {
      return std::ranges::all_of(copies.parts,
                                 [&](const PartCopies* part) { return holds(part, does); });
    };
    copies.is_whole = all(&PartCopies::is_whole);
    copies.is_recoverable = all(&PartCopies::is_recoverable);
    epochs.push_back(std::move(copies));
  }
  return epochs;
}

}  // namespace gpusnap::levels
