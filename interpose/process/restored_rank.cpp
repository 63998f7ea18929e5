// SPDX-License-Identifier: Apache-2.0
#include "interpose/process/restored_rank.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "interpose/services/backend_link.h"
#include "interpose/services/log.h"
#include "interpose/services/program.h"
#include "interpose/services/program_mark.h"
#include "tiers/daemon/pending_part.h"
#include "tiers/daemon/start.h"
#include "tiers/names.h"

namespace gpusnap {

std::string job_of(const Settings& settings, const ProgramIdentity& program) {
  const size_t job_end = settings.restore.rfind('@');
  if (job_end != std::string::npos) return settings.restore.substr(0, job_end);
  return sanitise_job(settings.job.empty() ? default_job_name(program.path, program.folder, environ)
                                           : settings.job);
}

std::string restore_id(const Settings& settings, const std::string& job) {
  return settings.restore == "latest" ? job + "@latest" : settings.restore;
}

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr auto kSaysSoAfter = std::chrono::seconds(5);
// For a part that is seen here.
constexpr std::chrono::seconds kLongest = std::chrono::hours(1);

std::string area_name(const Settings& settings) {
  return StagingMemory::name_for(node_name(settings.node));
}

// How long to wait for a checkpoint that is on its way; nothing where the tool did not say so.
std::optional<std::chrono::seconds> patience() {
  const char* const text = std::getenv(kRestoredPending);
  const auto seconds = text == nullptr ? std::nullopt : parse_number(text);
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

Status other_ranks(const CheckpointInfo& checkpoint, const Ranks& ranks) {
  return {Code::kInvalid, checkpoint.id + " is of " +
                              std::to_string(checkpoint.ranks.front().ranks) +
                              " rank(s), this run has " + std::to_string(ranks.ranks)};
}

// `is_pending`: the other ranks' parts need not be there.
Result<RestoredRank> find_stored(Store& store, const std::string& id, const Ranks& ranks,
                                 bool is_pending) {
  Result<CheckpointInfo> found = store.find(id);
  if (!found.ok()) return found.status();
  RestoredRank restored{std::move(found.value()), 0, false};
  const CheckpointInfo& checkpoint = restored.checkpoint;
  const auto own = std::ranges::find(checkpoint.ranks, ranks.rank, &Manifest::rank);
  const bool is_there = own != checkpoint.ranks.end();
  if (is_pending && !is_there && checkpoint.state == CheckpointState::kPartial) {
    return Status(Code::kBusy, checkpoint.id + " is not complete: " + checkpoint.reason);
  }
  restored.is_pending = checkpoint.state == CheckpointState::kPartial && is_pending && is_there;
  if (checkpoint.state != CheckpointState::kComplete && !restored.is_pending) {
    return Status(Code::kDamaged,
                  checkpoint.id + " is not a complete checkpoint: " + checkpoint.reason);
  }
  if (checkpoint.ranks.front().ranks != ranks.ranks || !is_there) {
    return other_ranks(checkpoint, ranks);
  }
  restored.index = static_cast<size_t>(own - checkpoint.ranks.begin());
  return restored;
}

// kNotFound: no part of that rank's is on its way from this node.
Result<RestoredRank> find_pending(const Settings& settings, StagingMemory& memory,
                                  const Store& store, const std::string& id, const Ranks& ranks) {
  const std::string job = id.substr(0, id.rfind('@'));
  const auto epoch = parse_number(id.substr(std::min(id.size(), job.size() + 1)));
  for (const InFlight::Part& part : pending_parts(memory, store.folder(), job, epoch.value_or(0))) {
    if (part.text.rank != ranks.rank) continue;
    auto manifest = read_pending(
        posix_file_system(), {&memory, area_file(area_name(settings)), settings.tiers.ssd}, part);
    if (!manifest.ok()) return manifest.status();
    RestoredRank restored;
    restored.is_pending = true;
    restored.checkpoint.job = job;
    restored.checkpoint.epoch = *epoch;
    restored.checkpoint.id = id;
    restored.checkpoint.time_unix_ns = manifest->cut_unix_ns;
    restored.checkpoint.bytes = manifest->bytes();
    restored.checkpoint.ranks.push_back(std::move(manifest.value()));
    if (restored.manifest().ranks == ranks.ranks) return restored;
    return other_ranks(restored.checkpoint, ranks);
  }
  return Status(Code::kNotFound, "no part of " + id + " is on its way from this node");
}

Result<RestoredRank> find_on_node(const Settings& settings, const Store& store,
                                  const std::string& id, const Ranks& ranks) {
  const auto memory = StagingMemory::attach(area_name(settings), area_addresses());
  if (!memory.ok()) return memory.status();
  return find_pending(settings, *memory.value(), store, id, ranks);
}

}  // namespace

bool is_on_its_way() {
  return patience().has_value();
}

// A part that has just reached the store was looked for there before: it is looked for once more.
Result<RestoredRank> find_rank(const Settings& settings, Store& store, const std::string& id,
                               const Ranks& ranks) {
  using Clock = std::chrono::steady_clock;
  const auto longest = patience();
  const Clock::time_point began = Clock::now();
  bool said = false;
  for (;;) {
    Result<RestoredRank> found = find_stored(store, id, ranks, false);
    if (found.ok() || !longest) return found;
    Result<RestoredRank> pending = find_on_node(settings, store, id, ranks);
    if (pending.ok() || pending.status().code() == Code::kInvalid) return pending;
    found = find_stored(store, id, ranks, true);
    const auto waited = Clock::now() - began;
    const bool is_here = pending.status().code() == Code::kBusy;
    if (found.ok() || waited >= (is_here ? std::max(*longest, kLongest) : *longest)) return found;
    const Code code = found.status().code();
    if (code != Code::kNotFound && code != Code::kBusy) return found;
    if (!std::exchange(said, said || waited >= kSaysSoAfter) && said) {
      log(LogLevel::kWarn, id,
          " is on its way to the store and is waited for: ", pending.status().message());
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

namespace {
void tell_where(const std::string& id, const LocatedPart& located, const std::string& area) {
  uint64_t in_memory = 0;
  for (const Extent& extent : located.manifest.extents) {
    if (located.files[extent.segment].path == area) in_memory += extent.size;
  }
  log(LogLevel::kDebug, id, " is on its way to the store: ", in_memory, " of its ",
      located.manifest.own_bytes(), " bytes are in memory");
}
}  // namespace

LocatePart locate_rank(const Settings& settings, StagingMemory* memory, const Store& store,
                       const CheckpointInfo& checkpoint, uint32_t rank) {
  const auto own = std::ranges::find(checkpoint.ranks, rank, &Manifest::rank);
  const std::string run = own == checkpoint.ranks.end() ? "" : own->run;
  return [memory, area = area_name(settings), ssd = settings.tiers.ssd, &store, id = checkpoint.id,
          job = checkpoint.job, epoch = checkpoint.epoch, rank,
          run](const IsNeeded& is_needed) -> Result<LocatedPart> {
    std::unique_ptr<StagingMemory> mapped;
    if (memory == nullptr) {
      auto attached = StagingMemory::attach(area, area_addresses());
      if (!attached.ok()) return attached.status();
      mapped = std::move(attached.value());
    }
    const PendingPlaces places{memory != nullptr ? memory : mapped.get(), area_file(area), ssd};
    for (const auto& part : pending_parts(*places.memory, store.folder(), job, epoch)) {
      if (part.text.rank != rank || part.text.run != run) continue;
      Result<LocatedPart> located = locate_pending(posix_file_system(), places, part, is_needed);
      if (located.ok()) tell_where(id, located.value(), places.area);
      return located;
    }
    return Status(Code::kNotFound, "it is not on its way from this node");
  };
}

}  // namespace gpusnap
