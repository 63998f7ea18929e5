// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/tier_cache.h"

#include <cassert>

namespace gpusnap::history {

namespace {

// Only the application can end these states.
bool is_pinned(CopyState state) {
  return state == CopyState::kReadInProgress || state == CopyState::kReadComplete;
}

}  // namespace

TierCache::TierCache(const Options& options)
    : evictor_(options.evictor), table_(options.capacity, options.alignment) {}

Claim TierCache::ask(const Request& request) {
  assert(request.bytes != 0 && !copies_.contains(request.version));
  open_[++newest_claim_].request = request;
  return newest_claim_;
}

TierCache::Answer TierCache::advance(Claim claim, const RestoreQueue& queue,
                                     const ReadyIn& ready_in, const HidesRead& hides_read) {
  Open& open = open_.at(claim);
  const bool is_outdated = open.chosen_at != releases_ && !window_is_evictable(open);
  if (is_outdated || has_been_pinned_since(open)) {
    table_.release(claim);
    open.waited_for.clear();
    open.pinned.clear();
  }
  if (table_.claimed(claim).empty() && !choose(claim, open, queue, ready_in, hides_read)) {
    return Answer::kNoRoom;
  }
  if (!window_is_evictable(open)) return Answer::kWaiting;
  place(claim, open);
  open_.erase(claim);
  return Answer::kPlaced;
}

void TierCache::withdraw(Claim claim) {
  table_.release(claim);
  open_.erase(claim);
}

void TierCache::apply(Version version, CopyEvent event) {
  Copy& copy = copies_.at(version);
  const bool was_evictable = evictable(copy.state, copy.facts);
  const std::optional<CopyState> next = next_state(copy.state, event, copy.facts);
  assert(next.has_value() && *next != CopyState::kGone);
  copy.state = *next;
  if (event == CopyEvent::kStoredBelow) copy.facts.stored_below = true;
  if (event == CopyEvent::kLostBelow) copy.facts.stored_below = false;
  if (!was_evictable && evictable(copy.state, copy.facts)) ++releases_;
}

void TierCache::set_facts(Version version, const CopyFacts& facts) {
  Copy& copy = copies_.at(version);
  const bool was_evictable = evictable(copy.state, copy.facts);
  copy.facts = facts;
  if (!was_evictable && evictable(copy.state, copy.facts)) ++releases_;
}

void TierCache::set_read_time(Version version, int64_t read_ns) {
  copies_.at(version).read_ns = read_ns;
}

void TierCache::touch(Version version) {
  if (evictor_ == Evictor::kLru) copies_.at(version).age = ++newest_age_;
}

CopyState TierCache::state(Version version) const {
  const auto copy = copies_.find(version);
  return copy == copies_.end() ? CopyState::kInit : copy->second.state;
}

std::optional<uint64_t> TierCache::offset(Version version) const {
  const std::optional<size_t> index = table_.find(version);
  if (!index) return std::nullopt;
  return table_.fragments()[*index].offset;
}

Candidate TierCache::candidate(const Fragment& fragment, Asker asker, const RestoreQueue& queue,
                               const ReadyIn& ready_in, const HidesRead& hides_read) const {
  Candidate seen;
  seen.size = fragment.size;
  if (!fragment.version) {
    seen.distance = distance_of_gap(queue.span());
  } else {
    const Copy& copy = copies_.at(*fragment.version);
    seen.age = copy.age;
    seen.distance =
        queue.distance(*fragment.version)
            .value_or(copy.state == CopyState::kConsumed ? distance_of_consumed(queue.span())
                                                         : distance_of_unhinted(queue.span()));
    const bool barrier = copy.state == CopyState::kReadInProgress ||
                         (copy.state == CopyState::kReadComplete && asker != Asker::kPrefetcher);
    if (barrier) {
      seen.wait_ns = kNever;
    } else if (!evictable(copy.state, copy.facts)) {
      seen.wait_ns = ready_in(*fragment.version);
    } else if (copy.read_ns != 0 && queue.distance(*fragment.version) &&
               !hides_read(*fragment.version, copy.read_ns)) {
      seen.wait_ns = copy.read_ns;
    }
  }
  if (fragment.claim != 0) seen.wait_ns = kNever;
  return seen;
}

bool TierCache::choose(Claim claim, Open& open, const RestoreQueue& queue, const ReadyIn& ready_in,
                       const HidesRead& hides_read) {
  std::vector<Candidate> candidates;
  candidates.reserve(table_.fragments().size());
  for (const Fragment& fragment : table_.fragments()) {
    candidates.push_back(candidate(fragment, open.request.asker, queue, ready_in, hides_read));
  }
  const auto window = choose_window(candidates, table_.rounded(open.request.bytes), evictor_);
  if (!window) return false;
  table_.claim(window->first, window->last, claim);
  open.chosen_at = releases_;
  for (const Fragment& fragment : table_.claimed(claim)) {
    if (!fragment.version) continue;
    open.waited_for.push_back(*fragment.version);
    open.pinned.push_back(is_pinned(copies_.at(*fragment.version).state));
  }
  return true;
}

bool TierCache::window_is_evictable(const Open& open) const {
  for (const Version version : open.waited_for) {
    const Copy& copy = copies_.at(version);
    if (!evictable(copy.state, copy.facts)) return false;
  }
  return true;
}

bool TierCache::has_been_pinned_since(const Open& open) const {
  for (size_t i = 0; i < open.waited_for.size(); ++i) {
    if (!open.pinned[i] && is_pinned(copies_.at(open.waited_for[i]).state)) return true;
  }
  return false;
}

void TierCache::place(Claim claim, const Open& open) {
  const auto reserved = open.request.is_write ? CopyEvent::kReserveWrite : CopyEvent::kReserveRead;
  placed_.evicted = open.waited_for;
  for (const Version version : placed_.evicted) copies_.erase(version);
  placed_.offset = table_.take(claim, open.request.version, open.request.bytes);
  Copy copy;
  copy.state = *next_state(CopyState::kInit, reserved, copy.facts);
  copy.age = ++newest_age_;
  copies_[open.request.version] = copy;
}

}  // namespace gpusnap::history
