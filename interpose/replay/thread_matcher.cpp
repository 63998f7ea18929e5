// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/thread_matcher.h"

#include <algorithm>
#include <iterator>

#include "interpose/services/mutation.h"

namespace gpusnap {

namespace {
std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// Whether a replay cannot tell the calls from one another.
bool is_alike(const SeenEntry& one, const SeenEntry& other) {
  return one.entry.head.hook == other.entry.head.hook && one.entry.words == other.entry.words &&
         one.entry.name == other.entry.name && one.entry.data == other.entry.data;
}

// The n-th of the last `count` calls of `made`, followed by those to come.
const SeenEntry* nth(const std::vector<SeenEntry>& made, size_t count,
                     const std::vector<SeenEntry>& coming, size_t n) {
  if (n < count) return &made[made.size() - count + n];
  return n - count < coming.size() ? &coming[n - count] : nullptr;
}

// The last `count` of `made` as the first calls of the other place's task.
bool fits(const std::vector<SeenEntry>& made, size_t count, const std::vector<SeenEntry>& other,
          size_t others, const std::vector<SeenEntry>& coming) {
  for (size_t n = 0; n < count; ++n) {
    const SeenEntry* const there = nth(other, others, coming, n);
    if (there == nullptr || !ThreadMatcher::is_loose(there->entry)) return false;
    if (!is_alike(made[made.size() - count + n], *there)) return false;
  }
  return true;
}
}  // namespace

CallKey ThreadMatcher::Mismatch::key() const {
  CallKey key;
  for (const uint64_t word : words) key.add(word);
  key.name = name;
  key.data = data;
  return key;
}

const std::string& ThreadMatcher::place_of(const std::string& path) const {
  const auto found = places_.find(path);
  return found == places_.end() ? path : found->second;
}

const std::string& ThreadMatcher::path_at(const std::string& place) const {
  const auto found =
      std::ranges::find_if(places_, [&](const auto& each) { return each.second == place; });
  return found == places_.end() ? place : found->first;
}

void ThreadMatcher::exchange(const std::string& path, const std::string& other) {
  const std::string place = place_of(path), others = place_of(other);
  places_[path] = others;
  if (!mutated(Mutation::kExchangeOneSide)) places_[other] = place;
}

bool ThreadMatcher::are_siblings(std::string_view one, std::string_view other) {
  return one != other && may_exchange(one) && may_exchange(other) &&
         parent_of(one) == parent_of(other);
}

const ThreadMatcher::Mismatch* ThreadMatcher::mismatch_of(const std::string& path) const {
  const auto found = mismatches_.find(path);
  return found == mismatches_.end() ? nullptr : &found->second;
}

bool ThreadMatcher::refuses(const std::string& path, uint64_t number) const {
  const Mismatch* const call = mismatch_of(path);
  return call != nullptr && call->refused == number + 1;
}

bool ThreadMatcher::is_same(const Entry& entry, const Mismatch& call) const {
  return entry.head.hook == call.hook && entry.words == call.words && entry.name == call.name &&
         (entry.data == 0 || allow_data_ || same_data(entry.data, call.data, call.launches));
}

bool ThreadMatcher::is_told_by(const Entry& entry, const Mismatch& call) const {
  return call.tells_apart() && is_same(entry, call) && (!call.launches || call.data == entry.data);
}

bool ThreadMatcher::is_loose(const Entry& entry) {
  if (entry.head.hook >= kHookCount) return false;
  const auto hook = static_cast<HookId>(entry.head.hook);
  return order_of(hook) == Order::kAny && threads_of(hook) == Threads::kNone &&
         entry.head.result == 0 && entry.head.deliveries == 0 && entry.head.flags == 0;
}

void ThreadMatcher::note_made(uint64_t number, const std::string& place, const Entry& made) {
  if (!may_exchange(place)) return;
  std::deque<SeenEntry>& again = reopened_[place];
  if (!again.empty() && again.front().number == number) again.pop_front();
  std::vector<SeenEntry>& loose = loose_[place];
  if (!is_loose(made)) {
    loose.clear();
    return;
  }
  if (loose.size() == kMostLoose) loose.erase(loose.begin());
  loose.push_back({.number = number, .thread = place, .entry = made});
}

bool ThreadMatcher::has_reopened(const std::string& place) const {
  const auto found = reopened_.find(place);
  return found != reopened_.end() && !found->second.empty();
}

bool ThreadMatcher::any_reopened() const {
  return std::ranges::any_of(reopened_, [](const auto& each) { return !each.second.empty(); });
}

const std::vector<SeenEntry>& ThreadMatcher::loose_of(const std::string& place) const {
  static const std::vector<SeenEntry> kNone;
  const auto found = loose_.find(place);
  return found == loose_.end() ? kNone : found->second;
}

const SeenEntry* ThreadMatcher::call_after(const Trade& trade, const std::string& other,
                                           const Coming& others) const {
  const std::vector<SeenEntry>& made = loose_of(other);
  return trade.others > made.size() ? nullptr : nth(made, trade.others, others, trade.mine);
}

bool ThreadMatcher::is_possible(const Trade& trade, const std::string& place, const Coming& mine,
                                const std::string& other, const Coming& others) const {
  const std::vector<SeenEntry>&made = loose_of(place), &made_there = loose_of(other);
  return trade.mine <= made.size() && trade.others <= made_there.size() &&
         fits(made, trade.mine, made_there, trade.others, others) &&
         fits(made_there, trade.others, made, trade.mine, mine);
}

ThreadMatcher::Coming ThreadMatcher::carry_out(const Trade& trade, const std::string& place,
                                               const Coming& mine, const std::string& other,
                                               const Coming& others) {
  // One of the threads has made more calls than the other one: so many of its place are made again
  // by the other one, and so many of the other place count as made.
  const bool more = trade.mine > trade.others;
  const auto count =
      static_cast<ptrdiff_t>(more ? trade.mine - trade.others : trade.others - trade.mine);
  const std::string &again_at = more ? place : other, &made_at = more ? other : place;
  const Coming& coming = more ? others : mine;
  std::vector<SeenEntry>& loose = loose_[again_at];
  std::deque<SeenEntry>& again = reopened_[again_at];
  again.insert(again.begin(), loose.end() - count, loose.end());
  loose.erase(loose.end() - count, loose.end());
  Coming made(coming.begin(), coming.begin() + count);
  for (const SeenEntry& call : made) note_made(call.number, made_at, call.entry);
  exchange(path_at(place), path_at(other));
  return made;
}

}  // namespace gpusnap
