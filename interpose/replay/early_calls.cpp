// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of replays: calls that are made before those that the journal has before them.
#include "interpose/replay/entry_facts.h"
#include "interpose/replay/replay_scheduler.h"

namespace gpusnap {

bool ReplayScheduler::more_comes(const std::string& place) {
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
  if (ahead == nullptr || matcher_.any_reopened() || more_comes(place) ||
      (gets && looked != looked_early_.end() && looked->second == kAfterCut) ||
      !may_go_after_cut(*ahead, gets)) {
    return false;
  }
  begin_turn(path);
  --turns_;  // the replay has not come further: a thread may ask again and again
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

}  // namespace gpusnap
