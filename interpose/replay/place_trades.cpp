// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of replays: nobody comes, and threads may have come with each other's calls.
#include "interpose/replay/entry_facts.h"
#include "interpose/replay/replay_scheduler.h"

namespace gpusnap {

// The calls that each place has to come.
std::map<std::string, ThreadMatcher::Coming> ReplayScheduler::all_coming() {
  std::map<std::string, ThreadMatcher::Coming> all;
  CallsAhead* const ahead = world_.ahead();
  if (ahead == nullptr) return all;
  const size_t first = look_from_head(*ahead);
  for (size_t i = first; i < first + kMostEarly; ++i) {
    const SeenEntry* const seen = ahead->at(i);
    if (seen == nullptr) break;
    if (!is_to_come(*seen) || !ThreadMatcher::may_exchange(seen->thread)) continue;
    auto& coming = all[seen->thread];
    if (coming.empty() && matcher_.has_reopened(seen->thread)) {
      const auto& again = matcher_.reopened(seen->thread);
      coming.assign(again.begin(), again.end());
    }
    if (coming.size() <= 2 * ThreadMatcher::kMostLoose) coming.push_back(*seen);
  }
  for (const auto& [place, again] : matcher_.all_reopened()) {
    if (!again.empty() && all[place].empty()) all[place].assign(again.begin(), again.end());
  }
  return all;
}

// Whether the entry may be the call that the thread has come with, as far as is known.
bool ReplayScheduler::is_call_of(const std::string& path, HookId hook,
                                 const SeenEntry& seen) const {
  if (hook_of(seen.entry) != hook || matcher_.refuses(path, seen.number)) return false;
  if (!tells_apart(hook)) return (seen.entry.head.flags & kHasAnswer) == 0;
  const ThreadMatcher::Mismatch* const call = matcher_.mismatch_of(path);
  return call != nullptr && matcher_.is_told_by(seen.entry, *call);
}

// Whether the thread in that place has come with its own next call.
bool ReplayScheduler::is_served(const std::string& place, const SeenEntry& next) const {
  const std::string& path = matcher_.path_at(place);
  const auto waits = waiting_.find(path);
  if (waits == waiting_.end() || waits->second != next.entry.head.hook) return false;
  const ThreadMatcher::Mismatch* const call = matcher_.mismatch_of(path);
  return call == nullptr || matcher_.is_same(next.entry, *call);
}

bool ReplayScheduler::trades(const std::string& path, HookId hook) {
  const std::string place = matcher_.place_of(path);
  if (!ThreadMatcher::may_exchange(place) || world_.keeps_order()) return false;
  auto all = all_coming();
  const ThreadMatcher::Coming mine = all[place];
  const bool known = !tells_apart(hook) || matcher_.mismatch_of(path) != nullptr;
  if (known && !mine.empty() && is_call_of(path, hook, mine.front())) return false;
  if (!tells_apart(hook) && !mine.empty() && hook_of(mine.front().entry) == hook) return false;
  all.erase(place);
  if (!known) {
    if (!all.empty()) begin_look(path);
    return !all.empty();
  }
  for (size_t sum = 0; sum <= 2 * ThreadMatcher::kMostLoose; ++sum) {
    for (size_t own = 0; own <= sum; ++own) {
      if (trades_with(path, hook, mine, all, {own, sum - own})) return true;
    }
  }
  return false;
}

bool ReplayScheduler::trades_with(const std::string& path, HookId hook,
                                  const ThreadMatcher::Coming& mine,
                                  const std::map<std::string, ThreadMatcher::Coming>& all,
                                  const ThreadMatcher::Trade& trade) {
  const std::string place = matcher_.place_of(path);
  for (const auto& [other, coming] : all) {
    const SeenEntry* const next = matcher_.call_after(trade, other, coming);
    if (next == nullptr || !is_call_of(path, hook, *next) || is_served(other, coming.front()) ||
        !matcher_.is_possible(trade, place, mine, other, coming)) {
      continue;
    }
    for (const SeenEntry& made : matcher_.carry_out(trade, place, mine, other, coming)) {
      if (made.number == head_number() && is_head_call()) {
        head_ = nullptr;
      } else if (made.number >= head_position()) {
        made_.insert(made.number);
      }
    }
    return true;
  }
  return false;
}

}  // namespace gpusnap
