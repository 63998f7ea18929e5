// Threads of a pool, in a replay: which of them takes which task is decided anew in each run, so
// that the calls of one are in the journal those of another. Threads of one parent are known by
// what they call: one that comes with what the journal has of its sibling takes that one's place
// from then on, and that one takes its.
//
// A thread finds out what its call is by making it: a handler that comes to compare the call with
// an entry which it is not throws EntryMismatch, is called again, and waits with what is known by
// then.

#include <algorithm>
#include <span>
#include <string_view>

#include "interpose/services/data_digest.h"
#include "interpose/session/session.h"

namespace gpusnap {

namespace {
std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

bool are_siblings(std::string_view one, std::string_view other) {
  return one != other && one != kMainThread && other != kMainThread &&
         parent_of(one) == parent_of(other);
}
}  // namespace

const std::string& Session::recorded_thread_of(const std::string& path) const {
  const auto found = recorded_threads_.find(path);
  return found == recorded_threads_.end() ? path : found->second;
}

const std::string& Session::path_at(const std::string& place) const {
  const auto found = std::ranges::find_if(recorded_threads_,
                                          [&](const auto& each) { return each.second == place; });
  return found == recorded_threads_.end() ? place : found->first;
}

// Other threads come up later.
bool Session::may_have_sibling(const std::string& place) {
  return place != kMainThread;
}

// Where it may not, the program does not repeat itself.
bool Session::may_mismatch(HookId hook) const {
  return !own_state.insists && tells_apart(hook) && may_have_sibling(own_path());
}

// The calling thread has another call than the entry: it waits until it comes up.
void Session::report_mismatch(HookId hook, const CallKey& key) {
  const std::string path = own_path();
  const uint64_t refused = own_state.looks ? 0 : replayer_->calls_read();
  if (!own_state.looks) refuse_entry();
  own_state.looks = false;
  mismatched_[path] = {refused,
                       static_cast<uint16_t>(hook),
                       {key.words, key.words + key.count},
                       std::string(key.name),
                       key.given.empty() ? key.data : data_digest(key.given),
                       threads_of(hook) == Threads::kLaunch};
  throw EntryMismatch();
}

void Session::refuse_entry() {
  entry_refused_ = true;
  for (auto& [path, waiter] : waiting_) waiter->turn.notify_one();
}

// Whether the entry, which is its own, may be the call of the thread at `path`: unless it was found
// another when it was compared with this very entry. Facts about the call may have changed since:
// what an address leads to depends on what others have done since.
bool Session::may_be_own(const std::string& path) const {
  const auto found = mismatched_.find(path);
  return found == mismatched_.end() || found->second.refused != replayer_->calls_read();
}

// Whether the entry is what that thread has come with.
bool Session::is_next(const Strayed& call) const {
  return entry_.head.hook == call.hook && entry_.words == call.words && entry_.name == call.name &&
         (entry_.data == 0 || run_.settings.allowed.data ||
          same_data(entry_.data, call.data, call.launches));
}

// Whether the entry, a sibling's, is what the calling thread has come with, and its own next call
// is another; or may be, which the thread then finds out.
bool Session::takes_others_turn(HookId hook, const std::string& path, bool stalled) {
  const std::string place = recorded_thread_of(path);
  const bool at_cut = stalled && before_call_of_sibling(place);
  if (turn_taken_ || !entry_read_ || !tells_apart(hook) ||
      (entry_.head.hook != static_cast<uint16_t>(hook) && !at_cut) ||
      !are_siblings(place, replayer_->thread())) {
    return false;
  }
  const auto found = mismatched_.find(path);
  if (found == mismatched_.end()) {
    own_state.looks = true;
    return true;
  }
  if (at_cut) return false;
  const Strayed& call = found->second;
  // A launch has the same words in all tasks: only arguments that are known and equal say whose it
  // is.
  const bool known = !call.launches || (call.data != 0 && call.data == entry_.data);
  if (!call.tells_apart() || !known || !is_next(call)) return false;
  if (own_call_comes(call.hook, call.key(), place, call.launches)) {
    return false;
  }
  swap_places(path, path_at(replayer_->thread()));
  return true;
}

CallKey Session::Strayed::key() const {
  CallKey key;
  for (const uint64_t word : words) key.add(word);
  key.name = name;
  key.data = data;
  return key;
}

void Session::swap_places(const std::string& path, const std::string& other) {
  const std::string place = recorded_thread_of(path), others = recorded_thread_of(other);
  recorded_threads_[path] = others;
  recorded_threads_[other] = place;
}

// The same of a call that is about to be made.
bool Session::is_of_thread(HookId hook, const std::string& path) {
  return hook == HookId::cuCtxSetCurrent && may_have_sibling(path);
}

// Whether the entry is a cut that stands before a sibling's call.
bool Session::before_call_of_sibling(const std::string& place) const {
  return entry_read_ && entry_.head.hook == kCutEntry && !at_collective() &&
         are_siblings(place, replayer_->thread());
}

// Whether the calling thread has come with the call that is behind such a cut, and its own next
// call is another.
bool Session::comes_with_call_behind_cut(const std::string& path) {
  const auto found = mismatched_.find(path);
  if (found == mismatched_.end()) return false;
  const Strayed& call = found->second;
  const bool known = !call.launches || call.data != 0;
  return call.tells_apart() && known &&
         own_call_comes(call.hook, call.key(), replayer_->thread(), call.launches) &&
         !own_call_comes(call.hook, call.key(), recorded_thread_of(path), call.launches);
}

// A cut that stands before a sibling's call, which may be made by the calling thread in this run:
// the other one has not come for a while, and there is nothing else to come, or the call behind the
// cut is the one that this thread has come with.
bool Session::takes_others_cut(const std::string& path, bool stalled) {
  if (!stalled || turn_taken_ || !before_call_of_sibling(recorded_thread_of(path))) return false;
  if (!all_made() && !comes_with_call_behind_cut(path)) return false;
  swap_places(path, path_at(replayer_->thread()));
  return true;
}

}  // namespace gpusnap
