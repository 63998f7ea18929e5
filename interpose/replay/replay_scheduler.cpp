// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/replay_scheduler.h"

#include <algorithm>
#include <span>

#include "interpose/replay/entry_facts.h"
#include "interpose/services/data_digest.h"
#include "interpose/services/mutation.h"

namespace gpusnap {

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
  turn_.clear();
  turn_.taken = true;
  turn_.path = path;
  turn_.entry = head_;
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
  turn_.clear();
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
  // Most turns are of the head.
  if (!turn_.early && !turn_.gets_after_cut) return calls;
  CallsAhead* const ahead = world_.ahead();
  const bool is_early = turn_.early && order_of(hook_of(*turn_.entry)) == Order::kMemory;
  if ((!is_early && !turn_.gets_after_cut) || ahead == nullptr) return calls;
  if (mutated(Mutation::kSkipMemoryBefore)) return calls;
  const uint64_t number = is_early ? turn_.early->number : kAfterCut;
  const SeenEntry* seen = nullptr;
  for (size_t i = look_from_head(*ahead); (seen = ahead->at(i)) != nullptr && seen->number < number;
       ++i) {
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
  if (other == path || (!still && !more_comes(place)) ||
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
  ahead_.push_back({.path = path,
                    .hook = static_cast<uint16_t>(hook),
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
