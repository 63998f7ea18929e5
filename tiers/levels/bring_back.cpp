// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/bring_back.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tiers/backend/local_tiers.h"
#include "tiers/levels/transfer.h"
#include "tiers/listing.h"

namespace gpusnap::levels {

namespace {

using Listed = std::vector<ListedCheckpoint>;

const ListedCheckpoint* find(const Listed& listed, uint64_t epoch) {
  const auto found = std::ranges::find_if(
      listed, [&](const ListedCheckpoint& each) { return each.info.epoch == epoch; });
  return found == listed.end() ? nullptr : &*found;
}

bool is_complete(const ListedCheckpoint& checkpoint) {
  return checkpoint.info.state == CheckpointState::kComplete;
}

int64_t cut_of(const EpochCopies& epoch) {
  int64_t cut = 0;
  for (const PartCopies* part : epoch.parts) {
    if (part != nullptr) cut = std::max(cut, part->about.cut_unix_ns);
  }
  return cut;
}

const EpochCopies* choose(const std::vector<EpochCopies>& epochs, const Listed& listed,
                          std::optional<uint64_t> wanted) {
  const auto newest = std::ranges::find_if(listed, is_complete);
  const EpochCopies* best = nullptr;
  for (const EpochCopies& each : epochs) {
    if (!each.is_recoverable || (wanted && each.epoch != *wanted)) continue;
    const ListedCheckpoint* const there = find(listed, each.epoch);
    if (there != nullptr && is_complete(*there)) continue;
    const bool is_newer = newest == listed.end() || cut_of(each) > newest->info.time_unix_ns;
    if (!wanted && !is_newer) continue;
    if (best == nullptr || cut_of(each) > cut_of(*best)) best = &each;
  }
  return best;
}

// Lines about how far it is: one each few seconds.
class Teller {
 public:
  Teller(const BringBackRequest& request, std::string what)
      : tell_(request.tell), what_(std::move(what)) {}
  void operator()(uint64_t done, uint64_t total) {
    constexpr auto kBetween = std::chrono::seconds(2);
    const auto now = std::chrono::steady_clock::now();
    if (!tell_ || now - told_ < kBetween) return;
    told_ = now;
    tell_(what_ + ": " + std::to_string(done >> 20) + " of " + std::to_string(total >> 20) +
          " MiB are back from other nodes");
  }

 private:
  const std::function<void(const std::string&)>& tell_;
  const std::string what_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

class Bringer {
 public:
  Bringer(FileSystem& files, const Nodes& nodes, Store& store, const BringBackRequest& request,
          const std::vector<PartCopies>& parts, const Listed& listed)
      : files_(files),
        nodes_(nodes),
        request_(request),
        ancestry_(parts),
        listed_(listed),
        job_(sanitise_job(request.job)),
        job_folder_(store.job_folder(request.job)) {}

  // Nothing is put back where a part's number is another run's in the store.
  Status bring(const EpochCopies& epoch) {
    std::vector<const PartCopies*> all;
    for (const PartCopies* part : epoch.parts) {
      // The oldest ancestor first: a part is never there before what it needs.
      std::vector<const PartCopies*> chain;
      for (; part != nullptr; part = ancestry_.parent_of(*part)) chain.push_back(part);
      all.insert(all.end(), chain.rbegin(), chain.rend());
    }
    for (const PartCopies* each : all) {
      if (Status free = check_number(each->about.part); !free.ok()) return free;
    }
    for (const PartCopies* each : all) {
      if (Status done = bring(*each); !done.ok()) return done;
    }
    return {};
  }
  bool has_brought_any() const { return brought_; }

 private:
  std::string id_of(const PartId& id) const {
    return request_.job + "@" + std::to_string(id.epoch);
  }

  const Manifest* stored(const PartId& id) const {
    const ListedCheckpoint* const there = find(listed_, id.epoch);
    return there == nullptr ? nullptr : manifest_of(*there, id.rank);
  }

  Status check_number(const PartId& id) const {
    const Manifest* const manifest = stored(id);
    if (manifest == nullptr || manifest->run == id.run) return {};
    return {Code::kInvalid, id_of(id) + " cannot come back from other nodes: another run's " +
                                "checkpoint has its number in the store"};
  }

  Status bring(const PartCopies& part) {
    const PartId& id = part.about.part;
    const bool is_there =
        stored(id) != nullptr && find(listed_, id.epoch)->parts.at(id.rank).problem.ok();
    if (is_there) return {};
    brought_ = true;
    const std::string what =
        id_of(id) + (part.about.ranks > 1 ? " rank " + std::to_string(id.rank) : "");
    Teller teller(request_, what);
    return rebuild(files_, nodes_, part, {job_folder_, job_, id.epoch, id.rank},
                   [&](uint64_t done, uint64_t total) { teller(done, total); });
  }

  FileSystem& files_;
  const Nodes& nodes_;
  const BringBackRequest& request_;
  const Ancestry ancestry_;
  const Listed& listed_;
  const std::string job_;
  const std::string job_folder_;
  bool brought_ = false;
};

}  // namespace

Result<bool> bring_back(FileSystem& files, const Nodes& nodes, Store& store,
                        const BringBackRequest& request) {
  const std::string job = sanitise_job(request.job);
  const Catalogue catalogue = look_at(nodes, store_key(store.folder()), job);
  const std::vector<EpochCopies> epochs = epochs_of(catalogue.parts);
  const auto before = list_job(files, store.job_folder(request.job), job);
  if (!before.ok()) return before.status();
  if (choose(epochs, before.value(), request.epoch) == nullptr) return false;
  if (Status made = files.make_folder(store.job_folder(request.job)); !made.ok()) return made;
  const auto lock = store.lock_job(request.job);
  if (!lock.ok()) return lock.status();
  // Again: nobody writes any more.
  const auto listed = list_job(files, store.job_folder(request.job), job);
  if (!listed.ok()) return listed.status();
  const EpochCopies* const chosen = choose(epochs, listed.value(), request.epoch);
  if (chosen == nullptr) return false;
  if (request.tell) {
    request.tell(request.job + "@" + std::to_string(chosen->epoch) +
                 " is not in the store, or not as a whole: it comes back from the " +
                 name_of(chosen->scheme) + " shards on " +
                 std::to_string(nodes.size() - catalogue.unreachable.size()) + " of " +
                 std::to_string(nodes.size()) + " nodes");
  }
  Bringer bringer(files, nodes, store, request, catalogue.parts, listed.value());
  Status done = bringer.bring(*chosen);
  if (!done.ok()) return done;
  return bringer.has_brought_any();
}

}  // namespace gpusnap::levels
