// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/replay_scheduler.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "interpose/services/data_digest.h"
#include "interpose/services/mutation.h"

namespace gpusnap {

namespace {
// So far from the head a call may be made early.
constexpr size_t kMostEarly = 4096;
// Whether the host was told by an entry no more than its result and its answer.
bool tells_nothing(const EntryHead& head) {
  return head.deliveries == 0 && (head.flags & (kCaptured | kPartlyCaptured | kDeferred)) == 0;
}

HookId hook_of(const Entry& entry) {
  return static_cast<HookId>(entry.head.hook);
}

bool is_function_entry(const Entry& entry) {
  return entry.head.hook == kCallbackEntry || entry.head.hook == kCallbackEndEntry;
}

// The address that a call gave; 0: it gave none.
uint64_t address_of(const Entry& entry) {
  uint64_t address = 0;
  if (entry.answer.size() == sizeof address) {
    std::memcpy(&address, entry.answer.data(), sizeof address);
  }
  return address;
}

uint64_t size_of(const Entry& entry) {
  return entry.words.empty() ? 0 : entry.words[0];
}

// A call that gets or gives back memory, and can be made with the driver by what is known of it.
bool is_plain_memory(const SeenEntry& call) {
  const Entry& entry = call.entry;
  if (!call.is_whole || entry.head.result != 0 || entry.words.empty()) return false;
  return entry.answer.empty() ? entry.words[0] != 0 : address_of(entry) != 0;
}

bool overlap(const Entry& one, const Entry& other) {
  const uint64_t a = address_of(one), b = address_of(other);
  return a != 0 && b != 0 && a < b + size_of(other) && b < a + size_of(one);
}
}  // namespace

ReplayScheduler::Reading ReplayScheduler::read(const Entry& entry, const std::string& thread,
                                               uint64_t calls, bool at_cut) {
  calls_read_ = calls;
  at_cut_ = at_cut;
  if (entry.head.hook == kOutcomeEntry) return Reading::kPassedOver;
  head_place_ = thread;
  const bool is_call = entry.head.hook < kHookCount;
  if (is_call && made_.erase(calls - 1) != 0) return Reading::kPassedOver;
  const auto next = std::ranges::find(ahead_, false, &Ahead::after_cut);
  if (is_call && next != ahead_.end()) {
    if (entry.head.hook == next->hook && entry.words == next->words && entry.name == next->name) {
      ahead_.erase(next);
      return Reading::kPassedOver;
    }
    // Modules and kernels are numbered in the order of these calls, which must be the recorded one.
    const HookId hook = hook_of(entry);
    if (is_made_for_all(hook) && hook != HookId::cuDevicePrimaryCtxRetain) {
      head_ = &entry;
      return Reading::kDiverged;
    }
  }
  if (concerns_thread_alone(entry, thread)) return Reading::kPassedOver;
  head_ = &entry;
  refused_ = false;
  return Reading::kHead;
}

void ReplayScheduler::cut_delivered(bool last) {
  head_ = nullptr;
  cut_delivered_ = last;
  news_ = true;
}

void ReplayScheduler::passed() {
  head_ = nullptr;
  news_ = true;
}

void ReplayScheduler::waits_no_longer(const std::string& path) {
  const auto found = waiting_.find(path);
  if (found != waiting_.end()) waiting_.erase(found);
}

void ReplayScheduler::go_live() {
  turn_ = {.taken = true};
}

void ReplayScheduler::allow_data() {
  allow_data_ = true;
  matcher_.allow_data(true);
}

bool ReplayScheduler::all_made() const {
  if (mutated(Mutation::kCutOneEarly) && at_cut_) return true;
  return at_cut_ && (head_ == nullptr || is_head_cut());
}

bool ReplayScheduler::is_at_collective() const {
  return is_head_cut() && (head_->head.flags & kAtCollective) != 0;
}

const std::string& ReplayScheduler::awaited_path() const {
  return turn_.taken ? turn_.path : matcher_.path_at(head_place_);
}

const std::string* ReplayScheduler::awaited_waiter() const {
  if (cut_delivered_ || refused_) return nullptr;
  const auto found = waiting_.find(matcher_.path_at(head_place_));
  return found == waiting_.end() ? nullptr : &found->first;
}

// ---- turns

void ReplayScheduler::begin_turn(const std::string& path) {
  turn_ = {.taken = true, .path = path, .entry = head_};
  ++turns_;
}

void ReplayScheduler::begin_early(const std::string& path, const SeenEntry& entry) {
  begin_turn(path);
  turn_.early = entry;
  turn_.entry = &turn_.early->entry;
}

void ReplayScheduler::begin_look(const std::string& path) {
  begin_turn(path);
  turn_.looks = true;
}

void ReplayScheduler::end_turn() {
  turn_ = {};
}

ReplayScheduler::Compared ReplayScheduler::compare(HookId hook, const CallKey& key) {
  const Entry& entry = *turn_.entry;
  const bool arguments = key.given.empty();
  const uint64_t data = arguments ? key.data : data_digest(key.given);
  const bool same = entry.head.hook == static_cast<uint16_t>(hook) && entry.name == key.name &&
                    std::ranges::equal(entry.words, std::span(key.words, key.count));
  const bool other_data =
      same && entry.data != 0 && !allow_data_ && !same_data(entry.data, data, arguments);
  const bool is_early = turn_.early.has_value();
  if (!turn_.looks && same && !other_data) {
    matcher_.forget_mismatch(turn_.path);
    made();
    return Compared::kSame;
  }
  const bool may_mismatch =
      tells_apart(hook) && !turn_.insists && (is_early || ThreadMatcher::may_exchange(turn_.path));
  if (!turn_.looks && !may_mismatch) return same ? Compared::kOtherData : Compared::kOtherCall;
  if (is_early) looked_early_[turn_.path] = turn_.early->number;
  const bool refuses = !turn_.looks && !is_early;
  refused_ = refused_ || refuses;
  matcher_.note_mismatch(turn_.path, {.refused = refuses ? calls_read_ : 0,
                                      .hook = static_cast<uint16_t>(hook),
                                      .words = {key.words, key.words + key.count},
                                      .name = std::string(key.name),
                                      .data = data,
                                      .launches = threads_of(hook) == Threads::kLaunch});
  return Compared::kMismatch;
}

void ReplayScheduler::made() {
  const Entry& entry = *turn_.entry;
  const uint64_t number = turn_.early ? turn_.early->number : head_number();
  turn_.was_made = made_for_others_.erase(number) != 0;
  matcher_.note_made(number, turn_.early ? turn_.early->thread : head_place_, entry);
  if (entry.head.hook < kHookCount && threads_of(hook_of(entry)) == Threads::kLaunch &&
      !entry.words.empty()) {
    launched_.insert(entry.words[0]);
  }
  if (!turn_.early) {
    head_ = nullptr;
  } else if (number >= head_position()) {
    made_.insert(number);
  }
}

std::vector<SeenEntry> ReplayScheduler::memory_calls_before() {
  std::vector<SeenEntry> calls;
  CallsAhead* const ahead = world_.ahead();
  const bool is_early = turn_.early && order_of(hook_of(*turn_.entry)) == Order::kMemory;
  if ((!is_early && !turn_.gets_after_cut) || ahead == nullptr) return calls;
  const uint64_t number = is_early ? turn_.early->number : kAfterCut;
  const SeenEntry* seen = nullptr;
  for (size_t i = look_from_head(*ahead);
       (seen = ahead->at(i)) != nullptr && seen->number < number; ++i) {
    if (is_to_come(*seen) && order_of(hook_of(seen->entry)) == Order::kMemory &&
        !made_for_others_.contains(seen->number)) {
      calls.push_back(*seen);
    }
  }
  return calls;
}

void ReplayScheduler::give_up_early() {
  looked_early_[turn_.path] = turn_.early ? turn_.early->number : kAfterCut;
  end_turn();
}

// ---- who goes next

bool ReplayScheduler::is_mine(const std::string& path) const {
  const std::string& place = matcher_.place_of(path);
  const bool is_next = head_place_ == place || mutated(Mutation::kSkipTurn);
  return head_ != nullptr && is_next && head_->head.hook != kCallbackEndEntry &&
         !matcher_.has_reopened(place);
}

ReplayScheduler::Step ReplayScheduler::pass_functions(const std::string& in_call) {
  if (head_ == nullptr) return {Act::kRead};
  if (head_->head.hook == kCallbackEntry) {
    const bool comes_later = (head_->head.flags & kInCall) != 0 && in_call != head_place_;
    return {comes_later ? Act::kWait : Act::kBeginFunction};
  }
  const bool ended = head_->head.hook == kCallbackEndEntry && !head_->words.empty() &&
                     world_.has_ended(head_->words[0]);
  return {ended ? Act::kEndFunction : Act::kWait};
}

// Finds out whose turn it is if no thread has it. The answer kTurn: it is the thread's own.
ReplayScheduler::Step ReplayScheduler::look(const std::string& path, bool in_collective) {
  if (turn_.taken) return {};
  if (cut_delivered_) return {matcher_.any_reopened() ? Act::kWait : Act::kGoLive};
  if (const Step step = pass_functions(matcher_.place_of(path)); step.act != Act::kWait) {
    return step;
  }
  if (!is_mine(path)) return {};
  if (in_collective && !is_head_cut()) return {Act::kDiverged, Divergence::kNotACut};
  if (!in_collective && is_at_collective()) return {Act::kDiverged, Divergence::kCutAtCollective};
  if (!is_head_cut() && !(mutated(Mutation::kCutOneEarly) && all_made())) return {Act::kTurn};
  if (all_made() && matcher_.any_reopened()) return {};
  return {all_made() && !in_collective ? Act::kGoLive : Act::kDeliverCut};
}

ReplayScheduler::Step ReplayScheduler::ask(const std::string& path, HookId hook, Motion motion) {
  // A place that is taken over leads to the call that the thread has come with.
  constexpr int kMostPlaces = 4;
  for (int places = 0; places < kMostPlaces; ++places) {
    const Step step = look(path, false);
    if (turn_.taken || (step.act != Act::kTurn && step.act != Act::kWait)) return step;
    const std::string place = matcher_.place_of(path);
    if (step.act == Act::kTurn) {
      if (takes_own(path, hook, motion)) return step;
    } else if (takes_reopened(path, hook) || goes_early(path, hook)) {
      return {Act::kTurn};
    } else if (takes_head_of_sibling(path, hook, motion != Motion::kMoves)) {
      if (turn_.taken) return {Act::kTurn};
      continue;
    }
    if (motion == Motion::kMoves) return {};
    // A call that tells nobody apart may be any thread's: it is more likely to be its own.
    if (!tells_apart(hook) && goes_after_cut(path, hook)) return {Act::kTurn};
    if (!takes_cut_of_sibling(path) && !trades(path, hook)) {
      if (goes_after_cut(path, hook)) return {Act::kTurn};
      if (!may_go_live_for_other()) return {};
      return {all_made() ? Act::kGoLive : Act::kDeliverCut};
    }
    news_ = true;
    if (turn_.taken) return {Act::kTurn};
  }
  return {};
}

// The head is the entry of the thread's place: whether it makes it.
bool ReplayScheduler::takes_own(const std::string& path, HookId hook, Motion motion) {
  const bool dead = motion == Motion::kDead;
  const bool may_be = !matcher_.refuses(path, head_number()) &&
                      (hook_of(*head_) == hook || tells_apart(hook) ||
                       !ThreadMatcher::may_exchange(matcher_.place_of(path)));
  if (!may_be && !dead) {
    news_ = news_ || !refused_;
    refused_ = true;
    return false;
  }
  begin_turn(path);
  turn_.insists = dead;
  return true;
}

bool ReplayScheduler::takes_reopened(const std::string& path, HookId hook) {
  const std::string& place = matcher_.place_of(path);
  if (!matcher_.has_reopened(place)) return false;
  const SeenEntry& next = matcher_.reopened(place).front();
  if (hook_of(next.entry) != hook) return false;
  begin_early(path, next);
  return true;
}

// Whether the head, a sibling's, is what the thread has come with, and its own next call is
// another: then it is in its place. Or may be: then it has the turn, to find out.
bool ReplayScheduler::takes_head_of_sibling(const std::string& path, HookId hook, bool still) {
  const std::string& place = matcher_.place_of(path);
  const bool at_cut = still && is_cut_of_sibling(place);
  if (head_ == nullptr || !tells_apart(hook) || (hook_of(*head_) != hook && !at_cut) ||
      !ThreadMatcher::are_siblings(place, head_place_)) {
    return false;
  }
  const ThreadMatcher::Mismatch* const call = matcher_.mismatch_of(path);
  if (call == nullptr) {
    begin_look(path);
    return true;
  }
  if (at_cut || !matcher_.is_told_by(*head_, *call)) return false;
  const std::string other = matcher_.path_at(head_place_);
  // Where its place has nothing more to come, its call may be one after the cut.
  if (other == path || (!still && !has_more(place)) ||
      own_call_comes(call->hook, call->key(), place, call->launches)) {
    return false;
  }
  matcher_.exchange(path, other);
  news_ = true;
  return true;
}

bool ReplayScheduler::is_cut_of_sibling(const std::string& place) const {
  return is_head_cut() && !is_at_collective() && ThreadMatcher::are_siblings(place, head_place_);
}

// A cut that stands before a sibling's call, which may be made by this thread in this run: there is
// nothing else to come, or the call after the cut is the one that it has come with.
bool ReplayScheduler::takes_cut_of_sibling(const std::string& path) {
  const std::string place = matcher_.place_of(path);
  if (!is_cut_of_sibling(place)) return false;
  const ThreadMatcher::Mismatch* const call = matcher_.mismatch_of(path);
  const bool is_next = call != nullptr && call->tells_apart() &&
                       own_call_comes(call->hook, call->key(), head_place_, call->launches) &&
                       !own_call_comes(call->hook, call->key(), place, call->launches);
  if (!all_made() && !is_next) return false;
  matcher_.exchange(path, matcher_.path_at(head_place_));
  return true;
}

// The thread before whose call the cut stands has not come, but it has no call before that: it may
// be waiting for this thread. Its host code may go on where the cut tells the host nothing.
bool ReplayScheduler::may_go_live_for_other() const {
  return is_head_cut() && !is_at_collective() && tells_nothing(head_->head) &&
         !matcher_.any_reopened();
}

// Whether the recorded thread of that place made this very call next.
bool ReplayScheduler::own_call_comes(uint16_t hook, const CallKey& key, const std::string& place,
                                     bool arguments) {
  CallsAhead* const ahead = world_.ahead();
  if (ahead == nullptr) return false;
  const bool for_all = is_made_for_all(static_cast<HookId>(hook));
  ahead->forget_before(head_position());
  for (size_t i = 0; const SeenEntry* seen = ahead->at(i); ++i) {
    if (seen->thread != place || !seen->is_call() || seen->number < calls_read_) continue;
    if (made_.contains(seen->number)) continue;
    if (!for_all && is_made_for_all(hook_of(seen->entry))) continue;
    return is_call(*seen, hook, key, arguments);
  }
  return false;
}

// ---- calls before their turn

bool ReplayScheduler::has_more(const std::string& place) {
  CallsAhead* const ahead = world_.ahead();
  if (ahead == nullptr) return false;
  for (size_t i = look_from_head(*ahead); const SeenEntry* seen = ahead->at(i); ++i) {
    if (seen->thread == place && is_to_come(*seen)) return true;
  }
  return false;
}

// Where the head is among what is seen ahead.
size_t ReplayScheduler::look_from_head(CallsAhead& ahead) const {
  ahead.forget_before(head_position());
  if (head_ == nullptr || head_->head.hook >= kOutcomeEntry) return 0;
  size_t index = 0;
  for (const SeenEntry* seen; (seen = ahead.at(index)) != nullptr && !seen->is_call();) ++index;
  return index;
}

bool ReplayScheduler::is_to_come(const SeenEntry& seen) const {
  return seen.is_call() && !made_.contains(seen.number) && !is_made_for_all(hook_of(seen.entry));
}

// The next call of the thread's place may be this one, and need not wait for what is before it.
bool ReplayScheduler::goes_early(const std::string& path, HookId hook) {
  if (order_of(hook) == Order::kPlace || head_ == nullptr || world_.keeps_order()) return false;
  CallsAhead* const ahead = world_.ahead();
  const std::string& place = matcher_.place_of(path);
  if (ahead == nullptr || matcher_.has_reopened(place)) return false;
  const size_t first = look_from_head(*ahead);
  for (size_t i = first; i < first + kMostEarly; ++i) {
    const SeenEntry* const seen = ahead->at(i);
    if (seen == nullptr) return false;
    if (seen->thread != place || !is_to_come(*seen)) continue;
    const auto looked = looked_early_.find(path);
    if (hook_of(seen->entry) != hook || matcher_.refuses(path, seen->number) ||
        (looked != looked_early_.end() && looked->second == seen->number) ||
        !may_go_early(*ahead, first, i)) {
      return false;
    }
    begin_early(path, *seen);
    return true;
  }
  return false;
}

bool ReplayScheduler::may_go_early(CallsAhead& ahead, size_t first, size_t index) const {
  const SeenEntry& call = *ahead.at(index);
  const HookId hook = hook_of(call.entry);
  if (!call.is_whole || !tells_nothing(call.entry.head)) return false;
  // Code is loaded at its first launch, where it was.
  if (threads_of(hook) == Threads::kLaunch &&
      (call.entry.words.empty() || !launched_.contains(call.entry.words[0]))) {
    return false;
  }
  if (order_of(hook) == Order::kMemory && !may_make_memory(call.entry)) return false;
  for (size_t i = first; i < index; ++i) {
    if (!may_pass(call.entry, *ahead.at(i))) return false;
  }
  // The thread's host code may look at what a cut at its end has delivered.
  for (size_t i = index + 1; const SeenEntry* seen = ahead.at(i); ++i) {
    if (is_function_entry(seen->entry)) continue;
    return seen->entry.head.hook != kCutEntry || (seen->entry.head.flags & kAtCallEnd) == 0 ||
           tells_nothing(seen->entry.head);
  }
  return true;
}

// Whether a call that gets or gives back memory may be made before the thread comes with it whose
// call it is.
bool ReplayScheduler::may_make_memory(const Entry& call) const {
  if (!world_.has_one_context() || call.head.result != 0 || call.words.empty()) return false;
  if (call.answer.empty()) return call.words[0] != 0;
  return address_of(call) != 0 && !world_.is_occupied(address_of(call), size_of(call));
}

bool ReplayScheduler::may_pass(const Entry& call, const SeenEntry& earlier) const {
  if (earlier.is_call() && made_.contains(earlier.number)) return true;
  const EntryHead& head = earlier.entry.head;
  const HookId other = hook_of(earlier.entry);
  Order order = order_of(hook_of(call));
  if (order == Order::kMemory && earlier.is_call() && !is_made_for_all(other)) {
    if (order_of(other) == Order::kPlace) return false;
    if (order_of(other) == Order::kMemory &&
        (!earlier.is_whole || !may_make_memory(earlier.entry) || overlap(call, earlier.entry))) {
      return false;
    }
  }
  // Memory that is given back has been waited for.
  const bool asks = order == Order::kAsks || order == Order::kWaits ||
                    (order == Order::kMemory && call.answer.empty()) ||
                    (order == Order::kAny && !call.answer.empty());
  // The host may be about to look at what came with it.
  if (asks) return !is_function_entry(earlier.entry) && tells_nothing(head);
  return order != Order::kPlace;
}

// ---- calls of after the cut

// The thread has made all its calls, and the others may be waiting for it at a lock of the
// program's. Its next call is made now where that is not to be told from making it after the cut:
// nothing is left to be told of what the device did before, and memory is got after all that was
// got before the cut.
bool ReplayScheduler::goes_after_cut(const std::string& path, HookId hook) {
  const bool gets = hook == HookId::cuMemAlloc_v2;
  if ((!gets && order_of(hook) != Order::kAsks) || world_.keeps_order()) return false;
  const std::string& place = matcher_.place_of(path);
  CallsAhead* const ahead = world_.ahead();
  const auto looked = looked_early_.find(path);
  if (ahead == nullptr || matcher_.any_reopened() || has_more(place) ||
      (gets && looked != looked_early_.end() && looked->second == kAfterCut) ||
      !may_go_after_cut(*ahead, gets)) {
    return false;
  }
  begin_turn(path);
  turn_.entry = nullptr;
  turn_.after_cut = true;
  turn_.gets_after_cut = gets;
  return true;
}

bool ReplayScheduler::may_go_after_cut(CallsAhead& ahead, bool gets) const {
  if (gets && !world_.has_one_context()) return false;
  const SeenEntry* last = nullptr;
  for (size_t i = look_from_head(ahead); const SeenEntry* seen = ahead.at(i); ++i) {
    last = seen;
    if (seen->is_call() && made_.contains(seen->number)) continue;
    if (!gets) {
      if (is_function_entry(seen->entry) || !tells_nothing(seen->entry.head)) return false;
    } else if (seen->is_call() && !is_made_for_all(hook_of(seen->entry))) {
      const Order order = order_of(hook_of(seen->entry));
      if (order == Order::kPlace) return false;
      if (order == Order::kMemory && !is_plain_memory(*seen)) return false;
    }
  }
  return ahead.has_ended() && last != nullptr && last->entry.head.hook == kCutEntry &&
         (last->entry.head.flags & kAtCollective) == 0;
}

void ReplayScheduler::made_after_cut(HookId hook, const CallKey& key, int32_t result,
                                     std::span<const std::byte> answer) {
  ahead_.push_back({.path = turn_.path,
                    .after_cut = true,
                    .hook = static_cast<uint16_t>(hook),
                    .words = {key.words, key.words + key.count},
                    .name = std::string(key.name),
                    .result = result,
                    .answer = {answer.begin(), answer.end()}});
}

// ---- trades: nobody comes, and threads may have come with each other's calls

// What each place has to come.
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

// ---- calls that are made for all

bool ReplayScheduler::is_head(HookId hook, const CallKey& key) const {
  return head_ != nullptr && hook_of(*head_) == hook && head_->name == key.name &&
         std::ranges::equal(head_->words, std::span(key.words, key.count));
}

ReplayScheduler::Step ReplayScheduler::claim(const std::string& path, HookId hook,
                                             const CallKey& key, bool alone, Motion motion) {
  if (alone) return {Act::kAlone};
  const Step step = look(path, false);
  if (turn_.taken || (step.act != Act::kTurn && step.act != Act::kWait)) return step;
  if (step.act == Act::kTurn) {
    begin_turn(path);
    return step;
  }
  return is_made_for_all(hook) ? take_for_all(path, hook, key, motion) : Step{};
}

// Runtimes and programs load what all threads need in the thread that is first to need it, and the
// others wait for that one. Which one that is differs from run to run: the thread whose entry it is
// may be waiting, in host code, for the one that makes the call now.
ReplayScheduler::Step ReplayScheduler::take_for_all(const std::string& path, HookId hook,
                                                    const CallKey& key, Motion motion) {
  const bool stood_in = stands_in_ == path && stood_in_for_ == head_place_;
  if (is_head(hook, key) && stood_in) return stand_in(path, hook, key);
  const bool again = went_ahead_ == path && turns_when_ahead_ == turns_;
  if (motion == Motion::kMoves && !again) return {};
  const std::string& place = matcher_.place_of(path);
  if (head_ != nullptr && head_place_ == place) return {};
  if (motion != Motion::kDead && own_call_comes(static_cast<uint16_t>(hook), key, place, false)) {
    return {};
  }
  if (is_head(hook, key)) return stand_in(path, hook, key);
  if (!is_head_call() || head_place_ == place) return {};
  // Nothing moves: the awaited thread may be waiting, in host code, for what this call brings.
  if (loads_twice(hook, key)) return {Act::kDiverged, Divergence::kLoadedTwice};
  ahead_.push_back({.hook = static_cast<uint16_t>(hook),
                    .words = {key.words, key.words + key.count},
                    .name = std::string(key.name)});
  begin_turn(path);
  went_ahead_ = path;
  turns_when_ahead_ = turns_;
  return {Act::kAhead};
}

ReplayScheduler::Step ReplayScheduler::stand_in(const std::string& path, HookId hook,
                                                const CallKey& key) {
  if (loads_twice(hook, key)) return {Act::kDiverged, Divergence::kLoadedTwice};
  stands_in_ = path;
  stood_in_for_ = head_place_;
  begin_turn(path);
  return {Act::kTurn};
}

// Two that load the same, each for itself, must not be taken for one another: what one has in its
// variables would be given to the other.
bool ReplayScheduler::loads_twice(HookId hook, const CallKey& key) {
  return threads_of(hook) == Threads::kCode && !loaded_in_place_.insert(key.words[0]).second;
}

// ---- other questions

ReplayScheduler::Step ReplayScheduler::ask_end(const std::string& path) {
  if (!turn_.taken && !cut_delivered_) {
    const Step step = pass_functions(matcher_.place_of(path));
    if (step.act != Act::kWait) return step;
  }
  if (cut_delivered_ || all_made()) return {Act::kGoLive};
  if (!turn_.taken && is_mine(path)) return {Act::kDiverged, Divergence::kEndedEarly};
  return {};
}

ReplayScheduler::Step ReplayScheduler::ask_collective(const std::string& path) {
  return look(path, true);
}

ReplayScheduler::Step ReplayScheduler::ask_live(const std::string& path) {
  const Step step = look(path, false);
  if (step.act == Act::kTurn) return {Act::kDiverged, Divergence::kNotACut};
  return step;
}

}  // namespace gpusnap
