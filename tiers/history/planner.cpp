// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/planner.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpusnap::history {

namespace {

bool is_readable(CopyState state) {
  using enum CopyState;
  return state == kWriteComplete || state == kFlushed || state == kReadComplete ||
         state == kConsumed;
}

// Checkpoints that pass a cache while more is to be written: one is written, one waits, one is
// flushed, and one more since sizes differ. They take at most this part of the cache.
constexpr uint64_t kPassing = 4, kPassedPart = 4;

}  // namespace

Planner::Planner(const Options& options)
    : discard_consumed_(options.discard_consumed),
      predictors_(options.caches.size(), Predictor(options.first_bandwidth)),
      flushes_(options.caches.size()),
      direct_flushes_(options.caches.size()),
      prefetches_(options.caches.size()),
      flush_queues_(options.caches.size()) {
  assert(!options.caches.empty());
  for (const TierCache::Options& each : options.caches) {
    const size_t first = lanes(caches_.size());
    flushes_[caches_.size()].number = first;
    direct_flushes_[caches_.size()].number = first + 1;
    prefetches_[caches_.size()].number = first + 2;
    caches_.emplace_back(each);
  }
}

// ---- What the application asks for

bool Planner::write(Version version, uint64_t bytes, int fastest) {
  assert(outcome_.has_value());
  if (add(version, bytes, fastest) == nullptr) return false;
  application_ = {.version = version, .tier = fastest};
  is_write_ = true;
  outcome_.reset();
  return true;
}

bool Planner::write_held(Version version, uint64_t bytes, int fastest) {
  if (!write(version, bytes, fastest)) return false;
  held_ = version;
  return true;
}

void Planner::release(Version version) {
  assert(held_ == version && outcome_.has_value());
  held_.reset();
  queue_flush(version, slowest_copy(version).value());
}

void Planner::give_up(Version version) {
  if (held_ == version) held_.reset();
  checkpoints_.at(version).is_consumed = true;
  let_go(version);
}

bool Planner::adopt(Version version, uint64_t bytes, int fastest) {
  Checkpoint* checkpoint = add(version, bytes, fastest);
  if (checkpoint == nullptr) return false;
  checkpoint->last = CopyState::kWriteComplete;
  return true;
}

// Null if there is one of that version.
Planner::Checkpoint* Planner::add(Version version, uint64_t bytes, int fastest) {
  assert(bytes != 0 && fastest <= last_tier());
  const auto [added, is_new] = checkpoints_.try_emplace(version);
  if (!is_new) return nullptr;
  added->second.bytes = bytes;
  largest_ = std::max(largest_, bytes);
  added->second.fastest = fastest;
  added->second.copies.resize(caches_.size() + 1);
  return &added->second;
}

// A mean that follows: an eighth of it is the newest value.
void Planner::computed(int64_t ns) {
  pace_ns_ = pace_ns_ == 0 ? ns : pace_ns_ + (ns - pace_ns_) / 8;
}

bool Planner::restore(Version version, int64_t since_last_ns) {
  assert(outcome_.has_value());
  if (!checkpoints_.contains(version)) return false;
  for (Predictor& each : predictors_) each.restored(since_last_ns);
  queue_.restored(version);
  application_ = {.version = version};
  is_write_ = false;
  outcome_.reset();
  return true;
}

bool Planner::restore_part(Version version, int64_t since_last_ns) {
  if (!restore(version, since_last_ns)) return false;
  partly_restored_ = version;
  return true;
}

void Planner::end_restore(Version version, bool success) {
  assert(partly_restored_ == version && outcome_.has_value());
  partly_restored_.reset();
  if (success) return consume(version);
  for (int tier = 0; tier < last_tier(); ++tier) deliver(version, tier);
}

void Planner::hint(Version version) {
  const bool is_new = queue_.hint(version);
  if (!checkpoints_.contains(version)) return;
  revive(version);
  if (!is_new) return;
  for (int tier = 0; tier < last_tier(); ++tier) {
    if (std::erase(flush_queues_[static_cast<size_t>(tier)], version) != 0) {
      queue_flush(version, tier);
    }
  }
}

void Planner::stop_prefetching() {
  prefetching_ = false;
  for (Lane& lane : prefetches_) {
    if (lane.running == 0) withdraw(lane);
  }
}

void Planner::discard_consumed() {
  discard_consumed_ = true;
  for (const auto& [version, checkpoint] : checkpoints_) {
    if (checkpoint.is_consumed) let_go(version);
  }
}

// ---- What moves next

std::vector<Transfer> Planner::plan() {
  // A decision can be what another one waits for: a claim, a copy that is pinned.
  do {
    has_changed_ = false;
    plan_application();
    // Flushes after prefetches, which they may yield to.
    for (int tier = 0; tier < last_tier(); ++tier) plan_prefetch(tier);
    for (int tier = 0; tier < last_tier(); ++tier) plan_flush(tier);
  } while (has_changed_);
  return std::exchange(begun_, {});
}

void Planner::plan_application() {
  if (outcome_.has_value() || application_.running != 0) return;
  if (is_write_) {
    plan_write();
  } else {
    plan_restore();
  }
}

void Planner::plan_write() {
  const Version version = *application_.version;
  while (true) {
    const int tier = application_.tier;
    const Room room = ask(application_, version, tier, {.is_write = true});
    if (room == Room::kWaiting) return;
    if (room == Room::kPlaced) return begin(application_, version, kApplication, tier);
    withdraw(application_);
    if (version == held_ && tier + 1 == last_tier()) {
      held_.reset();
      outcome_ = false;
      return;
    }
    ++application_.tier;
  }
}

void Planner::plan_restore() {
  const Version version = *application_.version;
  const std::optional<Source> source = fastest(version, kApplication);
  if (!source) {
    outcome_ = false;
    return;
  }
  if (!source->is_readable) return;
  if (is_cache(source->tier)) {
    apply(version, source->tier, CopyEvent::kClaim);
    caches_[static_cast<size_t>(source->tier)].touch(version);
  }
  begin(application_, version, source->tier, kApplication);
}

void Planner::plan_flush(int tier) {
  Lane& lane = flushes_[static_cast<size_t>(tier)];
  if (lane.running != 0) return;
  const std::optional<Version> next = next_flush(tier);
  if (lane.version != next) {
    withdraw(lane);
    lane.version = next;
    lane.tier = tier + 1;
  }
  if (!next) return;
  const Version version = *next;
  if (lane.claim == 0 && is_flushed_directly(version, tier)) {
    return plan_direct_flush(version, tier);
  }
  while (true) {
    if (lane.tier == last_tier() && yields_to_read(tier)) return;
    // A slower tier may hold it already: it was prefetched from there.
    if (holds(version, lane.tier)) {
      apply(version, tier, CopyEvent::kStoredBelow);
      std::erase(flush_queues_[static_cast<size_t>(tier)], version);
      lane.version.reset();
      has_changed_ = true;
      return;
    }
    const Room room = state(version, lane.tier) == CopyState::kInit
                          ? ask(lane, version, lane.tier, {.is_write = true})
                          : Room::kNone;
    if (room == Room::kWaiting) return;
    if (room == Room::kPlaced) break;
    withdraw(lane);
    if (lane.tier == last_tier()) return give_flush_up(version, tier);
    ++lane.tier;
  }
  begin_flush(lane, version, tier, lane.tier);
}

void Planner::plan_direct_flush(Version version, int tier) {
  Lane& lane = direct_flushes_[static_cast<size_t>(tier)];
  if (lane.running != 0 || yields_to_read(tier)) return;
  lane.version = version;
  begin_flush(lane, version, tier, last_tier());
}

void Planner::begin_flush(Lane& lane, Version version, int from, int to) {
  checkpoints_.at(version).copies[static_cast<size_t>(from)].facts.flush_begun = true;
  begin(lane, version, from, to);
}

// The first queued copy whose flush is not running.
std::optional<Version> Planner::next_flush(int tier) {
  std::deque<Version>& queue = flush_queues_[static_cast<size_t>(tier)];
  const Lane& direct = direct_flushes_[static_cast<size_t>(tier)];
  for (auto each = queue.begin(); each != queue.end();) {
    if (!holds(*each, tier)) {  // it has failed, or has been discarded
      each = queue.erase(each);
    } else if (direct.running == 0 || direct.version != *each) {
      return *each;
    } else {
      ++each;
    }
  }
  return {};
}

// True if a copy in a slower cache would only take the place of one that is read from there:
// because it stays where it is until it is read, or because the application reads, so that nothing
// is written into its place.
bool Planner::is_flushed_directly(Version version, int tier) const {
  if (cache(tier).evictor() != Evictor::kScore || is_flush_awaited(tier)) return false;
  for (int slower = tier + 1; slower <= last_tier(); ++slower) {
    if (state(version, slower) != CopyState::kInit) return false;
  }
  return !is_write_ || stays_until_read(version, tier);
}

// True if the cache has room for the checkpoint, for all that is read before it, and for what
// passes the cache while more is to be written that is read after it.
bool Planner::stays_until_read(Version version, int tier) const {
  const std::optional<uint64_t> distance = queue_.distance(version);
  if (!distance) return false;
  const uint64_t own = checkpoints_.at(version).bytes;
  const uint64_t capacity = cache(tier).table().capacity();
  uint64_t sum = own;
  bool is_passed = false;
  for (uint64_t i = 0; i < queue_.span() && sum <= capacity; ++i) {
    if (!queue_.at(i)) continue;
    const auto other = checkpoints_.find(*queue_.at(i));
    is_passed |= other == checkpoints_.end() && i > *distance;
    // One that is not written yet is taken to be as large.
    if (i < *distance) sum += other == checkpoints_.end() ? own : other->second.bytes;
  }
  const uint64_t passing = std::min(kPassing * largest_, capacity / kPassedPart);
  return sum + (is_passed ? passing : 0) <= capacity;
}

// Files are written and read by the same drives, so a flush to the last tier slows prefetches and
// restores from there. It is put off while one is running, unless somebody waits for the flush.
bool Planner::yields_to_read(int tier) const {
  const auto reads_last_tier = [this](const Lane& lane) {
    return lane.running != 0 && running_.at(lane.running).from == last_tier();
  };
  const bool is_read =
      reads_last_tier(application_) || std::ranges::any_of(prefetches_, reads_last_tier);
  return is_read && !is_flush_awaited(tier);
}

// True if the application or a prefetch can get room in the cache only after flushes from it. A
// flush into the cache counts only if it is awaited itself.
bool Planner::is_flush_awaited(int tier) const {
  const auto awaits_flush = [this, tier](const Lane& lane) {
    if (lane.claim == 0 || lane.tier != tier) return false;
    return std::ranges::any_of(cache(tier).waits_for(lane.claim), [this, tier](Version version) {
      return is_kept_by_flush(version, tier);
    });
  };
  if (awaits_flush(application_) || std::ranges::any_of(prefetches_, awaits_flush)) return true;
  for (int faster = 0; faster < tier; ++faster) {
    if (awaits_flush(flushes_[static_cast<size_t>(faster)]) && is_flush_awaited(faster))
      return true;
  }
  return false;
}

// True if the copy is not evictable before it has been flushed.
bool Planner::is_kept_by_flush(Version version, int tier) const {
  if (checkpoints_.at(version).copies[static_cast<size_t>(tier)].facts.stored_below) return false;
  const CopyState now = state(version, tier);
  const bool is_flushed_first =
      now == CopyState::kWriteInProgress || now == CopyState::kWriteComplete;
  return is_flushed_first || !discard_consumed_;
}

void Planner::plan_prefetch(int tier) {
  Lane& lane = prefetches_[static_cast<size_t>(tier)];
  if (!prefetching_ || lane.running != 0) return;
  const std::optional<Version> next = next_prefetch(tier);
  if (lane.version != next) withdraw(lane);
  lane.version = next;
  if (!next) return;
  const int source = fastest(*next, tier)->tier;
  const TierCache::Request request = {.is_write = false, .asker = TierCache::Asker::kPrefetcher};
  if (ask(lane, *next, tier, request) != Room::kPlaced) return;
  if (is_cache(source)) apply(*next, source, CopyEvent::kClaim);
  begin(lane, *next, source, tier);
}

// Returns the first hinted checkpoint that has to move to this tier, and pins those before it that
// are in the tier. Follows the order of hints: a later checkpoint could only be in the way of an
// earlier one.
std::optional<Version> Planner::next_prefetch(int tier) {
  for (uint64_t i = 0; i < queue_.span(); ++i) {
    const std::optional<Version> version = queue_.at(i);
    if (!version || !checkpoints_.contains(*version)) continue;
    if (!outcome_.has_value() && version == application_.version) continue;
    if (claim_here_or_faster(*version, tier)) continue;
    const CopyState here = state(*version, tier);
    const Checkpoint& checkpoint = checkpoints_.at(*version);
    if (tier < checkpoint.fastest || here != CopyState::kInit) continue;
    if (checkpoint.bytes > cache(tier).table().capacity()) continue;
    const std::optional<Source> source = fastest(*version, tier);
    if (!source) continue;
    if (!source->is_readable || is_brought_nearer(*version, tier, source->tier)) return {};
    return version;
  }
  return {};
}

// Pins the copy if it is in the tier.
bool Planner::claim_here_or_faster(Version version, int tier) {
  for (int each = 0; each < tier; ++each) {
    if (holds(version, each) || state(version, each) == CopyState::kReadInProgress) return true;
  }
  if (!holds(version, tier)) return false;
  if (state(version, tier) != CopyState::kReadComplete) {
    apply(version, tier, CopyEvent::kClaim);
    has_changed_ = true;
  }
  return true;
}

// True if the lane of a tier between the two moves it first.
bool Planner::is_brought_nearer(Version version, int tier, int source) const {
  for (int each = tier + 1; each < source; ++each) {
    const bool fits = checkpoints_.at(version).bytes <= cache(each).table().capacity();
    if (fits && state(version, each) == CopyState::kInit) return true;
  }
  return false;
}

// ---- Room

Planner::Room Planner::ask(Lane& lane, Version version, int tier, TierCache::Request request) {
  if (!is_cache(tier)) return Room::kPlaced;
  TierCache& cache = caches_[static_cast<size_t>(tier)];
  if (lane.claim == 0) {
    request.version = version;
    request.bytes = checkpoints_.at(version).bytes;
    lane.tier = tier;
    lane.claim = cache.ask(request);
  }
  switch (cache.advance(lane.claim, queue_, ready_in(tier), hides_read())) {
    case TierCache::Answer::kWaiting:
      return Room::kWaiting;
    case TierCache::Answer::kNoRoom:
      return Room::kNone;
    case TierCache::Answer::kPlaced:
      break;
  }
  lane.claim = 0;
  for (const Version gone : cache.placed().evicted) {
    checkpoints_.at(gone).copies[static_cast<size_t>(tier)] = {};
    flush_again(gone);
  }
  return Room::kPlaced;
}

void Planner::withdraw(Lane& lane) {
  if (lane.claim == 0) return;
  caches_[static_cast<size_t>(lane.tier)].withdraw(std::exchange(lane.claim, 0));
  has_changed_ = true;
}

// Lets lanes that wait for room on the tier ask again: a copy there will never be evictable.
void Planner::restart_asks(int tier) {
  for (Lane* lane : {&application_}) {
    if (lane->claim != 0 && lane->tier == tier) withdraw(*lane);
  }
  for (Lane& lane : flushes_) {
    if (lane.claim != 0 && lane.tier == tier) withdraw(lane);
  }
  for (Lane& lane : prefetches_) {
    if (lane.claim != 0 && lane.tier == tier) withdraw(lane);
  }
}

void Planner::begin(Lane& lane, Version version, int from, int to) {
  Transfer transfer;
  transfer.id = ++newest_transfer_;
  transfer.version = version;
  transfer.bytes = checkpoints_.at(version).bytes;
  transfer.lane = lane.number;
  transfer.from = from;
  transfer.to = to;
  if (is_cache(from)) transfer.from_offset = cache(from).offset(version).value();
  if (is_cache(to)) {
    transfer.to_offset = cache(to).offset(version).value();
    transfer.evicted = cache(to).placed().evicted;
  } else if (to == last_tier()) {
    apply(version, to, CopyEvent::kReserveWrite);
  }
  use(version, from, 1);
  use(version, to, 1);
  lane.running = transfer.id;
  running_[transfer.id] = transfer;
  begun_.push_back(std::move(transfer));
  has_changed_ = true;
}

// The copy that is read soonest, on a tier slower than `beyond`.
std::optional<Planner::Source> Planner::fastest(Version version, int beyond) const {
  for (int tier = beyond + 1; tier <= last_tier(); ++tier) {
    if (holds(version, tier)) return Source{tier, true};
    if (state(version, tier) == CopyState::kReadInProgress) return Source{tier, false};
  }
  return {};
}

// ---- Copies

std::optional<int> Planner::slowest_copy(Version version) const {
  for (int tier = last_tier(); tier >= 0; --tier) {
    if (holds(version, tier)) return tier;
  }
  return {};
}

bool Planner::is_flushed() const {
  return std::ranges::all_of(flush_queues_, [](const auto& queue) { return queue.empty(); });
}

CopyState Planner::state(Version version, int tier) const {
  if (tier != last_tier()) return cache(tier).state(version);
  const auto checkpoint = checkpoints_.find(version);
  return checkpoint == checkpoints_.end() ? CopyState::kInit : checkpoint->second.last;
}

bool Planner::is_wanted(Version version) const {
  return !discard_consumed_ || !checkpoints_.at(version).is_consumed;
}

bool Planner::holds(Version version, int tier) const {
  return is_readable(state(version, tier));
}

void Planner::apply(Version version, int tier, CopyEvent event) {
  if (tier == kApplication) return;
  Checkpoint& checkpoint = checkpoints_.at(version);
  Copy& copy = checkpoint.copies[static_cast<size_t>(tier)];
  if (event == CopyEvent::kStoredBelow) copy.facts.stored_below = true;
  if (tier != last_tier()) return caches_[static_cast<size_t>(tier)].apply(version, event);
  const auto next = next_state(checkpoint.last, event, {.slowest_tier = true});
  assert(next.has_value());
  checkpoint.last = *next;
}

void Planner::set_facts(Version version, int tier) {
  Copy& copy = checkpoints_.at(version).copies[static_cast<size_t>(tier)];
  copy.facts.in_use = copy.uses != 0;
  if (is_cache(tier)) caches_[static_cast<size_t>(tier)].set_facts(version, copy.facts);
}

void Planner::use(Version version, int tier, int change) {
  if (tier == kApplication) return;
  checkpoints_.at(version).copies[static_cast<size_t>(tier)].uses += change;
  set_facts(version, tier);
}

// Estimates for the copies of one cache, as they are now.
TierCache::ReadyIn Planner::ready_in(int tier) const {
  const auto at = static_cast<size_t>(tier);
  std::unordered_map<Version, uint64_t> bytes_ahead;
  uint64_t ahead = 0;
  const auto add = [this, &bytes_ahead, &ahead](Version version) {
    if (bytes_ahead.emplace(version, ahead).second) ahead += checkpoints_.at(version).bytes;
  };
  if (flushes_[at].running != 0) add(*flushes_[at].version);
  for (const Version version : flush_queues_[at]) add(version);
  return [this, at, bytes_ahead = std::move(bytes_ahead)](Version version) {
    const Checkpoint& checkpoint = checkpoints_.at(version);
    if (checkpoint.copies[at].flush_failed || version == held_) return kNever;
    std::optional<AwaitedFlush> flush;
    if (const auto queued = bytes_ahead.find(version); queued != bytes_ahead.end()) {
      flush = {.bytes_ahead = queued->second, .bytes_left = checkpoint.bytes};
    }
    std::optional<AwaitedRestore> restore;
    if (caches_[at].state(version) == CopyState::kReadComplete) {
      restore = AwaitedRestore{.distance = queue_.distance(version).value_or(0)};
    }
    return std::max<int64_t>(predictors_[at].ready_in_ns(flush, restore), 1);
  };
}

TierCache::HidesRead Planner::hides_read() const {
  return [this, slack = std::optional<ReadSlack>()](Version version, int64_t read_ns) mutable {
    if (pace_ns_ == 0) return false;
    if (!slack) slack.emplace(queue_, pace_ns_, read_time());
    return slack->hides(version, read_ns);
  };
}

// Nobody knows which of the hinted checkpoints that are not written yet the caches will hold. The
// bytes that are too many for the caches are spread over them evenly; each has the mean size.
ReadSlack::ReadTime Planner::read_time() const {
  uint64_t cached = 0, written = 0, written_bytes = 0, unwritten = 0, room = 0;
  const auto is_cached = [this](Version version) {
    return std::any_of(caches_.begin(), caches_.end(), [version](const TierCache& each) {
      return each.state(version) != CopyState::kInit;
    });
  };
  for (uint64_t at = 0; at < std::min(queue_.span(), ReadSlack::kMostHints); ++at) {
    const std::optional<Version> version = queue_.at(at);
    if (!version) continue;
    const auto found = checkpoints_.find(*version);
    if (found == checkpoints_.end()) {
      ++unwritten;
      continue;
    }
    ++written;
    written_bytes += found->second.bytes;
    if (is_cached(*version)) cached += found->second.bytes;
  }
  for (const TierCache& each : caches_) room += each.table().capacity();
  const double mean =
      static_cast<double>(written_bytes) / static_cast<double>(std::max(written, uint64_t{1}));
  const double more = mean * static_cast<double>(unwritten);
  const double left = static_cast<double>(room) - static_cast<double>(cached);
  const double share = more == 0 ? 0 : std::clamp(1 - left / more, 0.0, 1.0);
  const double ns_per_byte = 1e9 / predictors_.back().bandwidth();
  return
      [this, is_cached, unwritten_ns = share * mean * ns_per_byte, ns_per_byte](Version version) {
        const auto found = checkpoints_.find(version);
        if (found == checkpoints_.end()) return static_cast<int64_t>(unwritten_ns);
        if (is_cached(version)) return int64_t{0};
        return static_cast<int64_t>(static_cast<double>(found->second.bytes) * ns_per_byte);
      };
}

}  // namespace gpusnap::history
