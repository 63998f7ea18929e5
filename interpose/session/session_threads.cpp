// How the program's threads go through the session: admission to calls while recording, turns in a
// replay.

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/mpi/cut_barriers.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/session/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/threads/thread_path.h"
#include "tiers/unlocked.h"

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;

// After so long without a call the thread whose turn it is may be waiting for another one.
constexpr auto kStandIn = std::chrono::milliseconds(100);

// How long a thread that has another call than its entry waits for the one whose call that is:
// while no thread computes, and in any case.
constexpr auto kOthersCome = std::chrono::seconds(5), kOthersComeAtMost = std::chrono::seconds(60);
}  // namespace

void Session::set_mode(Mode mode) {
  admission_.set_mode(mode);
  host_callbacks_.record_to(mode == Mode::kRecord ? recorder_.get() : nullptr);
}

// The first time that the calling thread has to do with the session; takes the lock.
void Session::meet() {
  own_state.met = true;
  lock_.share();
  lock_.lock();
  calls_in_driver_.see_several_threads();
  model_.host_memory.trust_guesses();
  if (replaying()) threads_[own_path()] = gettid();
  if (admission_.is_recording() && !own_thread_path().known) {
    refuse("CUDA calls of a thread that pthread_create did not make");
  }
}

std::unique_lock<CallLock> Session::lock_any() {
  if (own_state.met) return std::unique_lock(lock_);
  meet();
  return {lock_, std::adopt_lock};
}

CallEnvironment* Session::enter_first(HookId hook) {
  if (admission_.mode() == Mode::kOff) return nullptr;
  meet();
  return enter_slowly(hook);
}

// A call of a recording begins. Before one that a replay may make early there is no cut: the thread
// would have gone past it when it comes up, perhaps to wait for others, who would wait for that.
void Session::admit(HookId hook) {
  admission_.await_entry();
  if (!admission_.is_recording()) return;
  admission_.enter();
  if (triggers_->pending() && !may_come_early(hook)) cuts_.cut_before_call();
}

// Whether a replay may make the call before its turn.
bool Session::may_come_early(HookId hook) const {
  return calls_in_driver_.several_threads() &&
         (is_made_for_all(hook) || is_of_thread(hook, own_path()));
}

CallEnvironment* Session::enter_slowly(HookId hook) {
  const char* const foreign = foreign_.load(std::memory_order_relaxed);
  if (foreign != nullptr && admission_.mode() != Mode::kOff) refuse(foreign);
  if (replaying()) take_turn(hook);
  admit(hook);
  if (admission_.mode() != Mode::kOff) return this;
  leave_slowly();
  return nullptr;
}

void Session::leave_slowly() {
  if (own_state.admitted) admission_.leave_closed();
  if (own_state.has_turn) end_turn();
  lock_.unlock();
}

void Session::read_next() {
  if (entry_read_) return;
  do {
    const Status status = replayer_->next(entry_);
    if (!status.ok()) fatal(kExitDamaged, status.message());
  } while (entry_.head.hook == kOutcomeEntry || was_made_ahead() ||
           concerns_thread_alone(entry_, replayer_->thread()));
  entry_read_ = true;
  entry_refused_ = false;
}

// Reads the next entry. Callbacks are nobody's turn: they begin when they come up; one that began
// inside a call, only when its thread has come to that call (is `in_call`), since host code before
// it must not meet what this one is to see.
void Session::pass_callbacks(std::string_view in_call) {
  for (;;) {
    read_next();
    const uint16_t kind = entry_.head.hook;
    if (kind != kCallbackEntry && kind != kCallbackEndEntry) return;
    if (entry_.words.empty() || !host_callbacks_.contains(entry_.words[0])) {
      fatal(kExitDamaged, "the replay journal has a host function that was not launched");
    }
    const uint64_t number = entry_.words[0];
    if (kind == kCallbackEntry) {
      if ((entry_.head.flags & kInCall) != 0 && in_call != replayer_->thread()) return;
      deliver(entry_);
      host_callbacks_.begin(number, static_cast<CUresult>(entry_.head.result));
    } else if (!host_callbacks_.take_ended(number)) {
      return;
    }
    entry_read_ = false;
  }
}

void Session::callback_ended() {
  // A thread inside a call passes them at its end.
  if (!turn_taken_ && replaying() && !cut_delivered_) {
    const std::string thread = replayer_->thread();
    pass_callbacks(waiting_.contains(path_at(thread)) ? thread : "");
  }
  if (!turn_taken_) wake();
}

// `last`: the one that the checkpoint was made at, not of an earlier one.
void Session::deliver_cut(bool last) {
  if (last) note_cut();
  deliver(entry_);
  entry_read_ = false;
  cut_delivered_ = last;
}

void Session::note_cut() {
  held_output_ = entry_.words.empty() ? 0 : entry_.words[0];
  cut_managed_ = entry_.words.size() < 2 ? 0 : entry_.words[1];
}

// Every call of the recording; what may be left is the entry of the cut itself.
bool Session::all_made() const {
  return replayer_->at_cut() && (!entry_read_ || entry_.head.hook == kCutEntry);
}

// A cut to which its thread comes by the collective.
bool Session::at_collective() const {
  return entry_read_ && entry_.head.hook == kCutEntry && (entry_.head.flags & kAtCollective) != 0;
}

// Finds out whose turn it is if no thread has it; goes live at the end. A cut that was made before
// a call is delivered when its thread has come to that call.
Session::Next Session::look_for_turn(const std::string& path) {
  bool passed_cut = false;
  const std::string& place = recorded_thread_of(path);
  while (!turn_taken_) {
    if (!cut_delivered_) pass_callbacks(place);
    const bool mine =
        !cut_delivered_ && replayer_->thread() == place && entry_.head.hook != kCallbackEndEntry;
    if (mine && at_collective()) diverged(describe_next(), "a CUDA call");
    if (cut_delivered_ || (mine && all_made())) {
      go_live();
      return Next::kLive;
    }
    if (!mine) break;
    if (entry_.head.hook != kCutEntry) return Next::kMine;
    deliver_cut(replayer_->at_cut());
    passed_cut = true;
  }
  // The thread of the call after the cut may have been waiting since before.
  if (passed_cut && !turn_taken_) wake();
  return Next::kNotMine;
}

void Session::begin_turn(const std::string& path) {
  turn_taken_ = true;
  turn_of_ = path;
  own_state.has_turn = true;
  constexpr uint64_t kTrimEvery = 4096;
  if (++turns_ % kTrimEvery == 0) trim_output();
}

void Session::take_turn(HookId hook) {
  // A thread that polls has no need of a turn while the device was busy all the time.
  if (own_state.polls_left != 0 && own_state.poll_hook == static_cast<uint16_t>(hook)) return;
  own_state.polls_left = 0;
  if (is_made_for_all(hook)) return;
  const std::string path = own_path();
  if (is_of_thread(hook, path)) return;
  uint64_t read = replayer_->calls_read();
  auto moved = Clock::now();
  while (replaying()) {
    const bool stalled = Clock::now() - moved > kStandIn;
    const Next next = look_for_turn(path);
    if (next == Next::kLive) break;
    const bool mine = next == Next::kMine;
    if (mine && !may_be_own(path)) {
      own_state.insists = stall_.idle() >= kOthersCome || Clock::now() - moved > kOthersComeAtMost;
    }
    if (takes_others_cut(path, stalled)) continue;
    if ((mine && (own_state.insists || may_be_own(path))) ||
        takes_others_turn(hook, path, stalled)) {
      if (!own_state.looks) mismatched_.erase(path);
      begin_turn(path);
      return;
    }
    const auto patience = may_have_sibling(path) ? Clock::duration(kStandIn) : kLongWait;
    wait_for_turn(name_of(hook), patience);
    if (!replaying() || replayer_->calls_read() == read) continue;
    read = replayer_->calls_read();
    moved = Clock::now();
  }
  mismatched_.erase(path);
}

// Runtimes and programs load what all threads need in the thread that is first to need it, and the
// others wait for that one. Which one that is differs from run to run: the thread whose entry it is
// may be waiting, in host code, for the one that makes the call now.
bool Session::may_stand_in(HookId hook, const CallKey& key, const std::string& path, bool stalled) {
  if (turn_taken_ || !entry_read_ || entry_.head.hook != static_cast<uint16_t>(hook)) return false;
  const bool same =
      entry_.name == key.name && std::ranges::equal(entry_.words, std::span(key.words, key.count));
  const bool again = stands_in_ == path && stood_in_for_ == replayer_->thread();
  if (!same || (!stalled && !again)) return false;
  load_in_place(hook, key, replayer_->thread());
  stands_in_ = path;
  stood_in_for_ = replayer_->thread();
  return true;
}

// Whether the recorded thread of that path made this very call next: then it is not made in the
// place of another one's, and its turn will come.
bool Session::own_call_comes(uint16_t hook, const CallKey& key, const std::string& place,
                             bool arguments) {
  CallsAhead* const ahead = calls_ahead();
  return ahead != nullptr && ahead->next_is(place, replayer_->calls_read(), hook, key, arguments);
}

// Null where the journal cannot be opened, which the reader of the replay will say.
CallsAhead* Session::calls_ahead() {
  if (calls_ahead_ == nullptr) {
    const Manifest& manifest = restored_.manifest();
    auto replayer = Replayer::open(posix_file_system(), run_.store->job_folder(run_.job),
                                   manifest.journal, manifest.calls);
    if (!replayer.ok()) return nullptr;
    calls_ahead_ = std::make_unique<CallsAhead>(std::move(replayer.value()));
  }
  return calls_ahead_.get();
}

// Two that load the same, each for itself, must not be taken for one another: what one has in its
// variables would be given to the other.
void Session::load_in_place(HookId hook, const CallKey& key, const std::string& whose) {
  if (threads_of(hook) != Threads::kCode || loaded_in_place_.insert(key.words[0]).second) return;
  diverged(name_of_thread(whose) + " to load " +
               describe(static_cast<uint16_t>(hook), key.words, key.count, key.name),
           "the same from several threads in another order");
}

// Nothing moves: whoever is next may be waiting, in host code, for what this call brings.
void Session::go_ahead(HookId hook, const CallKey& key, const std::string& path) {
  load_in_place(hook, key, path);
  ahead_.push_back(
      {static_cast<uint16_t>(hook), {key.words, key.words + key.count}, std::string(key.name)});
  begin_turn(path);
  went_ahead_ = path;
  turns_when_ahead_ = turns_;
}

// Whether the entry that was just read is that of such a call. Modules and kernels are numbered in
// the order of these calls, which must be the recorded one.
bool Session::was_made_ahead() {
  if (ahead_.empty() || entry_.head.hook >= kHookCount) return false;
  const Ahead& made = ahead_.front();
  const auto hook = static_cast<HookId>(entry_.head.hook);
  if (entry_.head.hook == made.hook && entry_.words == made.words && entry_.name == made.name) {
    deliver(entry_);
    ahead_.pop_front();
    return true;
  }
  if (is_made_for_all(hook) && hook != HookId::cuDevicePrimaryCtxRetain) {
    diverged(describe(entry_.head.hook, entry_.words.data(), entry_.words.size(), entry_.name),
             describe(made.hook, made.words.data(), made.words.size(), made.name) + " before it");
  }
  return false;
}

Session::Claim Session::claim_turn(HookId hook, const CallKey& key) {
  if (own_state.has_turn) return Claim::kTurn;
  const std::string path = own_path();
  while (replaying()) {
    if (is_of_thread(hook, path) && model_.contexts.key_of(own_state.sets) != 0)
      return Claim::kAhead;
    const Next next = look_for_turn(path);
    if (next == Next::kLive) break;
    const uint64_t turns = turns_;
    if (next == Next::kMine || may_stand_in(hook, key, path, false)) {
      begin_turn(path);
      return Claim::kTurn;
    }
    const bool again = went_ahead_ == path && turns_when_ahead_ == turns_ && !turn_taken_;
    if (!again) wait_for_turn(hook);
    if (!replaying() || turns != turns_ || turn_taken_) continue;
    // It has come up meanwhile, behind what a host function has done.
    if (entry_read_ && replayer_->thread() == recorded_thread_of(path)) continue;
    if (!stall_.awaited_is_stuck() &&
        own_call_comes(static_cast<uint16_t>(hook), key, recorded_thread_of(path))) {
      if (again) wait_for_turn(hook);
      continue;
    }
    if (is_of_thread(hook, path)) continue;
    if (may_stand_in(hook, key, path, true)) {
      begin_turn(path);
      return Claim::kTurn;
    }
    const bool another_calls = entry_read_ && entry_.head.hook < kHookCount &&
                               replayer_->thread() != recorded_thread_of(path);
    if (!another_calls) continue;
    go_ahead(hook, key, path);
    return Claim::kAhead;
  }
  admit(hook);
  return Claim::kLive;
}

void Session::end_turn() {
  own_state.has_turn = false;
  own_state.looks = own_state.insists = false;
  if (!replaying()) {
    turn_taken_ = false;
    return;
  }
  while (!cut_delivered_ && comes_to_cut_at_end()) deliver_cut(replayer_->at_cut());
  turn_taken_ = false;
  wake();
}

// A cut that was made at a call's end is right behind it: the program then ran host code, which
// must find what the cut delivered and whose own changes must not meet it. Host functions that the
// cut had waited for are between the two, and are waited for here.
bool Session::comes_to_cut_at_end() {
  const std::string place = recorded_thread_of(own_path());
  pass_callbacks({});
  while (entry_.head.hook == kCallbackEntry || entry_.head.hook == kCallbackEndEntry) {
    CallsAhead* const ahead = calls_ahead();
    if (ahead == nullptr || !ahead->cut_at_end_comes(replayer_->calls_read())) return false;
    pass_callbacks(place);
    if (entry_.head.hook != kCallbackEndEntry) continue;
    (void)lock_.wait_until(host_callbacks_.changed(), Clock::now() + kLongWait);
    pass_callbacks(place);
    watch_stall();
  }
  return entry_.head.hook == kCutEntry && (entry_.head.flags & kAtCallEnd) != 0;
}

// The thread whose turn it is; all, where it is anybody's.
void Session::wake() {
  if (!replaying() || cut_delivered_ || entry_refused_) {
    for (auto& [path, waiter] : waiting_) waiter->turn.notify_one();
  } else if (auto next = waiting_.find(path_at(replayer_->thread())); next != waiting_.end()) {
    next->second->turn.notify_one();
  }
}

void Session::wait_for_turn(HookId hook) {
  const bool briefly = is_made_for_all(hook) || is_of_thread(hook, own_path());
  wait_for_turn(name_of(hook), briefly ? Clock::duration(kStandIn) : kLongWait);
}

void Session::wait_for_turn(const char* call, Clock::duration patience) {
  Waiter waiter{.call = call};
  const auto place = waiting_.emplace(own_path(), &waiter);
  (void)lock_.wait_until(waiter.turn, Clock::now() + patience);
  watch_stall();
  waiting_.erase(place);
}

// The next entry of the journal, in words.
std::string Session::describe_next() {
  if (entry_.head.hook == kCallbackEndEntry) return "a host function to end";
  if (entry_.head.hook != kCutEntry) {
    return "call " + std::to_string(replayer_->calls_read()) + ", " +
           describe(entry_.head.hook, entry_.words.data(), entry_.words.size(), entry_.name);
  }
  return (entry_.head.flags & kAtCollective) != 0 ? "the MPI collective at which a cut was made"
                                                  : "the call before which a cut was made";
}

bool Session::match_busy(HookId hook) {
  if (!own_state.has_turn) {
    --own_state.polls_left;
    return true;
  }
  if (entry_.head.hook != static_cast<uint16_t>(hook) ||
      entry_.head.result != CUDA_ERROR_NOT_READY || entry_.words.empty()) {
    return false;
  }
  own_state.poll_hook = static_cast<uint16_t>(hook);
  own_state.polls_left = entry_.words[0] - 1;
  entry_read_ = false;
  return true;
}

// Device memory as it was at the cut, while all other threads wait.
void Session::load_memory(mpi::CutBarriers* cut_barriers) {
  const Unlocked unlocked(lock_);
  release_aside();
  const Manifest& manifest = restored_.manifest();
  const CheckpointInfo& checkpoint = restored_.checkpoint;
  const Status status = checkpointer_->load(checkpoint, manifest);
  if (!status.ok()) {
    fatal(status.code() == Code::kDamaged ? kExitDamaged : kExitImpossible,
          checkpoint.id + " cannot be restored: " + status.message());
  }
  // No thread of this rank may write another one's memory before that has been loaded.
  if (cut_barriers != nullptr) cut_barriers->finish();
  go_on_with_output(held_output_);
  log(LogLevel::kInfo, "restored ", checkpoint.id, ": ", manifest.calls, " calls repeated, ",
      manifest.bytes(), " bytes of device memory loaded");
}

// The replay has made all calls up to the cut: device memory is loaded, and the program is live.
void Session::go_live(mpi::CutBarriers* cut_barriers) {
  if (!cut_delivered_) deliver_cut(true);
  if (cut_managed_ != model_.managed_places()) fatal(kExitImpossible, kManagedElsewhere);
  turn_taken_ = true;  // the others wait
  turn_of_.clear();
  load_memory(cut_barriers);
  const Manifest& manifest = restored_.manifest();
  replayer_.reset();
  calls_ahead_.reset();
  mismatched_.clear();
  const Status status = begin_recording(manifest.journal, manifest.calls, manifest.launches);
  if (!status.ok()) {
    set_mode(Mode::kOff);
    log(LogLevel::kWarn, "restored, but no more checkpoints: ", status.message());
    triggers_->end_cuts(status.message());
  }
  triggers_->restored(manifest.interval, manifest.stall_ns, destination_of(manifest));
  // Calls that were made ahead of the cut belong after it.
  for (const Ahead& made : std::exchange(ahead_, {})) {
    if (!status.ok()) break;
    CallKey key;
    for (uint64_t word : made.words) key.add(word);
    key.name = made.name;
    recorder_->append(made.hook, key, CUDA_SUCCESS);
  }
  turn_taken_ = false;
  wake();
}

// The program may end at its place in the cut: then it had nothing left to do on the device. One
// thread may end it while others have still to come there.
void Session::finish_replay() {
  for (;;) {
    if (!replaying() || cut_delivered_) return;
    if (!turn_taken_) pass_callbacks(recorded_thread_of(own_path()));
    if (all_made()) {
      if (entry_read_) note_cut();
      return;
    }
    const bool mine = !turn_taken_ && replayer_->thread() == recorded_thread_of(own_path()) &&
                      entry_.head.hook != kCallbackEndEntry;
    if (mine) break;
    wait_for_turn("its end", kLongWait);
  }
  diverged("hooked call " + std::to_string(replayer_->calls_read()) + " of " +
               std::to_string(replayer_->calls()),
           "the end of the program");
}

}  // namespace gpusnap
