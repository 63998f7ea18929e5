// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tiers/backend/local_tiers.h"
#include "tiers/levels/groups.h"
#include "tiers/levels/sweep.h"
#include "tiers/levels/transfer.h"
#include "tiers/no_throw.h"
#include "tiers/store.h"

namespace gpusnap::levels {

namespace {

constexpr auto kSoonest = std::chrono::milliseconds(250);

PartId id_of(const CheckpointText& part) {
  return {store_key(part.store), sanitise_job(part.job), part.epoch, part.rank, part.run};
}

PartPlace place_of(const CheckpointText& part) {
  const std::string job = sanitise_job(part.job);
  return {part.store + "/" + job, job, part.epoch, part.rank};
}

std::string show(const CheckpointText& part) {
  return part.job + "@" + std::to_string(part.epoch) + " rank " + std::to_string(part.rank);
}

// The coding that is the furthest from being lost.
const PartCopies* best_of(const Catalogue& catalogue, const PartId& part) {
  const PartCopies* best = nullptr;
  for (const PartCopies& each : catalogue.parts) {
    if (each.about.part != part) continue;
    if (best == nullptr || each.shards.size() > best->shards.size()) best = &each;
  }
  return best;
}

}  // namespace

LevelService::LevelService(FileSystem& files, Options options)
    : files_(files),
      options_(std::move(options)),
      limit_(options_.settings.rate),
      notes_(files, options_.ssd) {}

Result<std::unique_ptr<LevelService>> LevelService::start(FileSystem& files, Options options) {
  std::unique_ptr<LevelService> service(new LevelService(files, std::move(options)));
  if (Status started = service->start(); !started.ok()) return started;
  return service;
}

Status LevelService::start() {
  auto nodes = NodeSet::open(files_, options_.settings, options_.ssd, &limit_);
  if (!nodes.ok()) return nodes.status();
  nodes_ = std::move(nodes.value());
  if (!nodes_->own()) return {Code::kNotFound, "GPUSNAP_PEERS has no address of this node"};
  own_ = *nodes_->own();
  nodes_->local().tidy_up();
  auto server = ShardServer::start(nodes_->port(own_), nodes_->local(), nodes_->key(),
                                   options_.settings.encrypts, options_.warn);
  if (!server.ok()) return server.status();
  server_ = std::move(server.value());
  // An earlier backend may have died before it had protected them, or after they were merged.
  for (const CheckpointText& part : notes_.all()) changed_parts_.insert(id_of(part));
  thread_ = std::thread([this] { run(); });
  return {};
}

LevelService::~LevelService() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  limit_.stop();
  if (thread_.joinable()) thread_.join();
}

bool LevelService::is_stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void LevelService::committed(const CheckpointText& part) {
  const Status noted = no_throw("note a checkpoint", [&] { return notes_.add(part); });
  if (!noted.ok() && options_.warn) {
    options_.warn(show(part) + " may stay unprotected: " + noted.message());
  }
}

void LevelService::settled(const CheckpointText& part) {
  const MutexLock lock(mutex_);
  fresh_.push_back(part);
  changed_.notify_all();
}

bool LevelService::is_busy() const {
  const MutexLock lock(mutex_);
  return working_ || !fresh_.empty();
}

// Whether its turn comes anyway.
bool LevelService::is_due(const CheckpointText& part) const {
  const MutexLock lock(mutex_);
  return std::ranges::find(fresh_, part) != fresh_.end();
}

void LevelService::run() {
  Clock::time_point looked{};  // at once: an earlier backend may have left something
  const MutexLock lock(mutex_);
  while (!stopping_) {
    if (!fresh_.empty()) {
      const CheckpointText part = std::move(fresh_.front());
      fresh_.pop_front();
      working_ = true;
      {
        const Unlocked unlocked(mutex_);
        work_on(part);
      }
      working_ = false;
      continue;
    }
    if (Clock::now() - looked >= pause_) {
      {
        const Unlocked unlocked(mutex_);
        (void)no_throw("look after shards", [&] {
          look_after_all();
          return Status();
        });
      }
      looked = Clock::now();
      // The failure may be that of a node that comes back soon.
      pause_ = told_.empty() ? options_.look_every : std::min(options_.look_every, 2 * pause_);
      pause_ = std::max<std::chrono::nanoseconds>(pause_, kSoonest);
      continue;
    }
    changed_.wait_until(mutex_, looked + pause_);
  }
}

// Each failure once, as long as it stays the same.
void LevelService::report(const std::string& what, const Status& status) {
  if (is_stopping()) return;
  if (status.ok()) {
    told_.erase(what);
    return;
  }
  if (std::exchange(told_[what], status.message()) == status.message()) return;
  if (options_.warn) options_.warn(what + " is not protected yet: " + status.message());
}

void LevelService::work_on(const CheckpointText& part) {
  const Status done = no_throw("protect a checkpoint", [&] { return protect_part(part); });
  report(show(part), done);
  if (!done.ok()) {
    pause_ = kSoonest;
    return;
  }
  (void)no_throw("remove shards", [&] {
    sweep(part);
    return Status();
  });
}

Status LevelService::protect_part(const CheckpointText& part) {
  const LevelScheme scheme = *options_.settings.scheme;
  const ProtectRequest request{place_of(part), id_of(part), scheme, own_, nodes_->name(own_)};
  changed_parts_.insert(request.part);
  Status done = protect(files_, nodes_->all(), request, [this] { return is_stopping(); });
  if (done.ok()) changed_parts_.erase(request.part);
  if (done.ok() && options_.tell) {
    options_.tell(show(part) + " is protected by " + name_of(scheme));
  }
  if (done.code() != Code::kNotFound) return done;
  // Pruned meanwhile. Or the store itself is not there just now, or a merge has just replaced the
  // segments that its manifest had named.
  if (!files_.entries(request.place.job_folder).ok()) return done;
  const auto stored = parts_in_store(files_, request.place.job_folder, request.place.job);
  const PartId& id = request.part;
  if (!stored.ok() || stored->contains({id.epoch, id.rank, id.run})) return done;
  notes_.remove(part);
  changed_parts_.erase(request.part);
  return {};
}

// This node's shards are on these nodes alone.
std::vector<uint32_t> LevelService::group() const {
  return holders(own_, static_cast<uint32_t>(nodes_->all().size()), *options_.settings.scheme);
}

Catalogue LevelService::look(const std::string& store, const std::string& job) const {
  return look_at(nodes_->all(), store, job, group());
}

// Parts of this node that have lost shards, or never had them all.
void LevelService::look_after_all() {
  const Catalogue catalogue = look({}, {});
  std::set<PartId> seen;
  for (const CheckpointText& part : notes_.all()) {
    if (is_stopping()) return;
    seen.insert(id_of(part));
    report(show(part), see_to(part, catalogue));
  }
  // After its SSD was lost a node knows its parts from the others alone.
  for (const PartCopies& copies : catalogue.parts) {
    if (is_stopping()) return;
    if (!seen.contains(copies.about.part)) repair_without_note(copies);
  }
}

Status LevelService::see_to(const CheckpointText& part, const Catalogue& catalogue) {
  if (is_due(part)) return {};
  if (changed_parts_.contains(id_of(part))) {
    Status done = protect_part(part);
    // Else the store is not there: what the nodes have is all there is.
    if (done.code() != Code::kNotFound) return done;
  }
  const PartCopies* const copies = best_of(catalogue, id_of(part));
  if (copies != nullptr && copies->is_whole()) return {};
  const bool has_scheme = copies != nullptr && copies->about.scheme == *options_.settings.scheme;
  if (has_scheme && copies->is_recoverable()) {
    return repair(nodes_->all(), *copies, own_, [this] { return is_stopping(); });
  }
  return protect_part(part);
}

void LevelService::repair_without_note(const PartCopies& copies) {
  const bool is_own =
      copies.about.owner == nodes_->name(own_) && copies.about.scheme == *options_.settings.scheme;
  if (!is_own || copies.is_whole() || !copies.is_recoverable()) return;
  const PartId& part = copies.about.part;
  const std::string name =
      part.job + "@" + std::to_string(part.epoch) + " rank " + std::to_string(part.rank);
  report(name, repair(nodes_->all(), copies, own_, [this] { return is_stopping(); }));
}

// Parts that the store has pruned go here, too, on the nodes of this group: `gpusnap prune` looks
// at all.
void LevelService::sweep(const CheckpointText& part) {
  const PartPlace place = place_of(part);
  // Before the store is looked at: what is committed and noted meanwhile is not gone from there.
  const std::vector<CheckpointText> noted_before = notes_.all();
  const auto stored = parts_in_store(files_, place.job_folder, place.job);
  if (!stored.ok()) return;
  const Catalogue catalogue = look(store_key(part.store), place.job);
  if (!catalogue.unreachable.empty()) return;  // another time
  std::set<PartId> gone;
  for (const PartId& each : superfluous(catalogue.parts, stored.value(), part.keep)) {
    for (const uint32_t node : group()) (void)nodes_->all()[node]->remove(each, 0);
    gone.insert(each);
  }
  for (const CheckpointText& noted : noted_before) {
    const PartId id = id_of(noted);
    const bool is_of_job = noted.store == part.store && id.job == place.job;
    const bool has_shards = best_of(catalogue, id) != nullptr && !gone.contains(id);
    if (is_of_job && !has_shards && !stored->contains({id.epoch, id.rank, id.run})) {
      notes_.remove(noted);
    }
  }
}

}  // namespace gpusnap::levels
