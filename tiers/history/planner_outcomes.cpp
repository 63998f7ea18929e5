// SPDX-License-Identifier: Apache-2.0
// Draws the consequences of transfers that have ended.
#include <algorithm>
#include <utility>

#include "tiers/history/planner.h"

namespace gpusnap::history {

void Planner::finished(uint64_t id, Outcome outcome, int64_t took_ns) {
  const Transfer transfer = running_.at(id);
  running_.erase(id);
  use(transfer.version, transfer.from, -1);
  use(transfer.version, transfer.to, -1);
  if (outcome == Outcome::kSourceFailed) fail_to_read(transfer);
  if (outcome == Outcome::kTargetFailed) apply(transfer.version, transfer.to, CopyEvent::kFail);
  if (outcome == Outcome::kDone) apply(transfer.version, transfer.to, CopyEvent::kFilled);
  if (application_.running == id) {
    application_.running = 0;
    is_write_ ? wrote(transfer, outcome) : restored(transfer, outcome);
  } else if (transfer.to > transfer.from) {
    const auto from = static_cast<size_t>(transfer.from);
    const bool is_direct = direct_flushes_[from].running == id;
    if (outcome == Outcome::kDone && !is_direct) {
      predictors_[from].transferred(transfer.bytes, took_ns);
    }
    flushed(is_direct ? direct_flushes_[from] : flushes_[from], transfer, outcome);
    // It would be read from the last tier, for about as long.
    const bool passed_a_cache = transfer.to > transfer.from + 1;
    if (outcome == Outcome::kDone && is_direct && passed_a_cache) {
      caches_[from].set_read_time(transfer.version, took_ns);
    }
  } else {
    prefetches_[static_cast<size_t>(transfer.to)].running = 0;
    prefetched(transfer, outcome);
  }
  flush_again(transfer.version);
}

void Planner::fail_to_read(const Transfer& transfer) {
  for (const int tier : {transfer.from, transfer.to}) {
    if (tier == kApplication) continue;
    apply(transfer.version, tier, CopyEvent::kFail);
    checkpoints_.at(transfer.version).copies[static_cast<size_t>(tier)].is_void = true;
  }
}

void Planner::wrote(const Transfer& transfer, Outcome outcome) {
  const bool is_held = transfer.version == held_;
  if (outcome == Outcome::kDone) {
    if (!is_held) queue_flush(transfer.version, transfer.to);
    outcome_ = true;
  } else if (outcome == Outcome::kTargetFailed && transfer.to + (is_held ? 1 : 0) < last_tier()) {
    application_.tier = transfer.to + 1;
  } else {
    outcome_ = false;
  }
}

void Planner::restored(const Transfer& transfer, Outcome outcome) {
  if (outcome == Outcome::kSourceFailed) return;  // the next slower copy is tried
  if (outcome == Outcome::kDone) {
    // More of it may be restored: the copy stays pinned.
    if (partly_restored_ != transfer.version) consume(transfer.version);
  } else {
    deliver(transfer.version, transfer.from);
  }
  outcome_ = outcome == Outcome::kDone;
}

void Planner::flushed(Lane& lane, const Transfer& transfer, Outcome outcome) {
  const auto [version, from, to] = std::tuple(transfer.version, transfer.from, transfer.to);
  lane.running = 0;
  if (outcome == Outcome::kTargetFailed) return;  // the next slower tier is tried
  std::erase(flush_queues_[static_cast<size_t>(from)], version);
  lane.version.reset();
  if (outcome == Outcome::kSourceFailed) {
    if (!slowest_copy(version) && is_wanted(version)) not_flushed_.push_back(version);
    return;
  }
  // A restore may have found meanwhile that the copy cannot be read.
  if (holds(version, from)) apply(version, from, CopyEvent::kStoredBelow);
  if (discard_consumed_ && checkpoints_.at(version).is_consumed) {
    if (!is_cache(to)) return;
    checkpoints_.at(version).copies[static_cast<size_t>(to)].facts.may_be_discarded = true;
    set_facts(version, to);
    apply(version, to, CopyEvent::kConsumedAbove);
  } else {
    queue_flush(version, to);
  }
}

void Planner::prefetched(const Transfer& transfer, Outcome outcome) {
  prefetches_[static_cast<size_t>(transfer.to)].version.reset();
  const Version version = transfer.version;
  deliver(version, transfer.from);
  if (outcome != Outcome::kDone) return;
  Copy& copy = checkpoints_.at(version).copies[static_cast<size_t>(transfer.to)];
  copy.facts.stored_below = true;
  set_facts(version, transfer.to);
  const bool is_awaited = !outcome_.has_value() && application_.version == version;
  if (!is_awaited && !queue_.distance(version)) deliver(version, transfer.to);
}

// The copy need not be pinned any longer, if it is.
void Planner::deliver(Version version, int tier) {
  if (is_cache(tier) && state(version, tier) == CopyState::kReadComplete) {
    apply(version, tier, CopyEvent::kDelivered);
  }
}

// The application has the checkpoint's bytes.
void Planner::consume(Version version) {
  checkpoints_.at(version).is_consumed = true;
  for (int tier = 0; tier < last_tier(); ++tier) deliver(version, tier);
  if (discard_consumed_) let_go(version);
}

// The checkpoint need not be kept, nor be flushed if its flush has not begun.
void Planner::let_go(Version version) {
  for (int tier = 0; tier < last_tier(); ++tier) {
    Copy& copy = checkpoints_.at(version).copies[static_cast<size_t>(tier)];
    const CopyState now = state(version, tier);
    if (now == CopyState::kInit) continue;
    copy.facts.may_be_discarded = true;
    set_facts(version, tier);
    if (copy.facts.flush_begun) continue;
    std::erase(flush_queues_[static_cast<size_t>(tier)], version);
    if (now == CopyState::kWriteComplete) apply(version, tier, CopyEvent::kConsumedAbove);
  }
}

// A consumed checkpoint will be read again: it may no longer be discarded.
void Planner::revive(Version version) {
  Checkpoint& checkpoint = checkpoints_.at(version);
  if (!std::exchange(checkpoint.is_consumed, false) || !discard_consumed_) return;
  for (int tier = 0; tier < last_tier(); ++tier) {
    Copy& copy = checkpoint.copies[static_cast<size_t>(tier)];
    if (state(version, tier) == CopyState::kInit) continue;
    copy.facts.may_be_discarded = false;
    set_facts(version, tier);
    if (holds(version, tier) && !copy.facts.stored_below) queue_flush(version, tier);
  }
}

// After a copy turned out to be unreadable, or was evicted since it might be discarded: the slowest
// that is left is the only one, whatever was below it, and has to be flushed if it is wanted.
void Planner::flush_again(Version version) {
  Checkpoint& checkpoint = checkpoints_.at(version);
  Copy& last = checkpoint.copies.back();
  if (last.is_void) {
    if (last.uses != 0) return;
    last.is_void = false;
    checkpoint.last = CopyState::kInit;
  }
  const std::optional<int> tier = slowest_copy(version);
  if (!tier || !is_cache(*tier)) return;
  Copy& copy = checkpoint.copies[static_cast<size_t>(*tier)];
  if (!copy.facts.stored_below) return;
  copy.facts.stored_below = copy.facts.flush_begun = false;
  set_facts(version, *tier);
  apply(version, *tier, CopyEvent::kLostBelow);
  is_wanted(version) ? queue_flush(version, *tier) : let_go(version);
}

void Planner::queue_flush(Version version, int tier) {
  if (!is_cache(tier)) return;
  std::deque<Version>& queue = flush_queues_[static_cast<size_t>(tier)];
  if (std::ranges::find(queue, version) != queue.end()) return;
  if (cache(tier).evictor() != Evictor::kScore) return queue.push_back(version);
  // In the order of evictions: unhinted checkpoints first, by arrival; then the farthest first. A
  // checkpoint that is read soon stays cached, and need not be flushed if it may be discarded after
  // that.
  const auto distance = [this](Version each) {
    return queue_.distance(each).value_or(distance_of_unhinted(queue_.span()));
  };
  auto place = queue.end();
  while (place != queue.begin() && distance(*std::prev(place)) < distance(version)) --place;
  queue.insert(place, version);
}

void Planner::give_flush_up(Version version, int tier) {
  std::erase(flush_queues_[static_cast<size_t>(tier)], version);
  flushes_[static_cast<size_t>(tier)].version.reset();
  checkpoints_.at(version).copies[static_cast<size_t>(tier)].flush_failed = true;
  not_flushed_.push_back(version);
  restart_asks(tier);
  has_changed_ = true;
}

}  // namespace gpusnap::history
