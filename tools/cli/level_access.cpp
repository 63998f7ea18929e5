// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/level_access.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "interpose/services/log.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/levels/bring_back.h"
#include "tiers/levels/node_set.h"
#include "tiers/levels/sweep.h"

namespace gpusnap {

namespace {

// Null where there are no levels, or they cannot be used, which is said.
std::unique_ptr<levels::NodeSet> open_nodes(const Settings& settings) {
  if (!settings.levels.scheme || settings.tiers.ssd.empty()) return nullptr;
  auto nodes = levels::NodeSet::open(posix_file_system(), settings.levels,
                                     settings.tiers.ssd.front().path, nullptr);
  if (nodes.ok()) return std::move(nodes.value());
  log(LogLevel::kWarn, "other nodes are not asked: ", nodes.status().message());
  return nullptr;
}

levels::Catalogue look(levels::NodeSet& nodes, const Store& store, const std::string& job) {
  levels::Catalogue catalogue = levels::look_at(nodes.all(), store_key(store.folder()),
                                                job.empty() ? job : sanitise_job(job));
  for (const auto& [node, why] : catalogue.unreachable) log(LogLevel::kWarn, why.message());
  return catalogue;
}

// The copies of each job's parts, which keep their order.
std::map<std::string, std::vector<levels::PartCopies>> by_job(levels::Catalogue catalogue) {
  std::map<std::string, std::vector<levels::PartCopies>> jobs;
  for (levels::PartCopies& part : catalogue.parts) {
    jobs[part.about.part.job].push_back(std::move(part));
  }
  return jobs;
}

}  // namespace

std::vector<LevelCopies> copies_on_nodes(const Settings& settings, const Store& store,
                                         const std::string& job) {
  std::vector<LevelCopies> found;
  const auto nodes = open_nodes(settings);
  if (!nodes) return found;
  for (const auto& [name, parts] : by_job(look(*nodes, store, job))) {
    for (const levels::EpochCopies& epoch : levels::epochs_of(parts)) {
      LevelCopies copies{name,           epoch.epoch,          {}, epoch.scheme,
                         epoch.is_whole, epoch.is_recoverable, 0,  0};
      for (const levels::PartCopies* part : epoch.parts) {
        if (part == nullptr) continue;
        copies.runs[part->about.part.rank] = part->about.part.run;
        copies.cut_unix_ns = std::max(copies.cut_unix_ns, part->about.cut_unix_ns);
        copies.memory_bytes += part->about.memory_bytes;
      }
      found.push_back(std::move(copies));
    }
  }
  return found;
}

void bring_back_from_nodes(const Settings& settings, const std::string& id) {
  const auto nodes = open_nodes(settings);
  if (!nodes) return;
  const auto store = Store::open(posix_file_system(), settings.pfs, true);
  if (!store.ok()) return log(LogLevel::kWarn, store.status().message());
  levels::BringBackRequest request;
  const size_t at = id.rfind('@');
  request.job = id.substr(0, at);
  uint64_t epoch = 0;
  if (at != std::string::npos && id.substr(at + 1) != "latest") {
    const char* const end = id.data() + id.size();
    const auto read = std::from_chars(id.data() + at + 1, end, epoch);
    if (read.ec != std::errc() || read.ptr != end) return;
    request.epoch = epoch;
  }
  request.tell = [](const std::string& line) { log(LogLevel::kWarn, line); };
  const auto brought =
      levels::bring_back(posix_file_system(), nodes->all(), *store.value(), request);
  if (!brought.ok()) log(LogLevel::kWarn, brought.status().message());
}

void prune_shards(const Settings& settings, const Store& store, const std::string& job,
                  uint64_t keep) {
  const auto nodes = open_nodes(settings);
  if (!nodes) return;
  for (const auto& [name, parts] : by_job(look(*nodes, store, job))) {
    const auto stored = levels::parts_in_store(posix_file_system(), store.job_folder(name), name);
    if (!stored.ok()) {
      log(LogLevel::kWarn, stored.status().message());
      continue;
    }
    for (const levels::PartId& part : levels::superfluous(parts, stored.value(), keep)) {
      for (levels::ShardStore* const node : nodes->all()) (void)node->remove(part, 0);
    }
  }
}

}  // namespace gpusnap
