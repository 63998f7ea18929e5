// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/replay_turns.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/call_text.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/replay/divergence.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/threads/thread_name.h"
#include "interpose/threads/thread_path.h"
#include "tiers/unlocked.h"

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;

// After so long without a move a waiting thread looks whether all others wait, too. Where some run
// or sleep all the time, they are taken for threads that look again and again whether they may go
// on, after so long.
constexpr auto kLooks = std::chrono::milliseconds(100);
constexpr auto kRunsAtMost = std::chrono::seconds(1);

// How long a thread that has another call than its entry waits for the one whose call that is:
// while no thread computes, and in any case.
constexpr auto kOthersCome = std::chrono::seconds(5), kOthersComeAtMost = std::chrono::seconds(60);
}  // namespace

void ReplayTurns::begin(std::unique_ptr<Replayer> replayer) {
  replayer_ = std::move(replayer);
  if (with_.run.settings.allowed.data) scheduler_.allow_data();
  meet_thread();
}

void ReplayTurns::meet_thread() {
  threads_[own_path()] = gettid();
}

void ReplayTurns::diverge(const std::string& expected, const std::string& got) const {
  end_diverged(replayer_->calls_read(), expected, got);
}

void ReplayTurns::read_next() {
  while (scheduler_.head() == nullptr) {
    const Status status = replayer_->next(entry_);
    if (!status.ok()) fatal(kExitDamaged, status.message());
    // The outcome of an MPI call is of no thread.
    static const std::string kNobody;
    const bool outcome = entry_.head.hook == kOutcomeEntry;
    switch (scheduler_.read(entry_, outcome ? kNobody : replayer_->thread(),
                            replayer_->calls_read(), replayer_->at_cut())) {
      case ReplayScheduler::Reading::kHead:
        break;
      case ReplayScheduler::Reading::kPassedOver:
        if (!outcome) deliver(entry_);
        break;
      case ReplayScheduler::Reading::kDiverged: {
        const auto& made =
            *std::ranges::find(scheduler_.ahead(), false, &ReplayScheduler::Ahead::after_cut);
        diverge(
            describe(entry_.head.hook, entry_.words.data(), entry_.words.size(), entry_.name),
            describe(made.hook, made.words.data(), made.words.size(), made.name) + " before it");
      }
    }
  }
}

bool ReplayTurns::carry_out(const Step& step, const char* got) {
  switch (step.act) {
    case Act::kRead:
      read_next();
      return true;
    case Act::kBeginFunction:
    case Act::kEndFunction:
      pass_function(step.act == Act::kBeginFunction);
      return true;
    case Act::kDeliverCut:
      deliver_cut(replayer_->at_cut());
      return true;
    case Act::kDiverged:
      diverge(step.why == ReplayScheduler::Divergence::kLoadedTwice
                  ? name_of_thread(scheduler_.awaited_path()) + " to make " + describe_next()
                  : describe_next(),
              got);
    default:
      break;
  }
  // Another thread may be the one that can go on.
  if (scheduler_.take_news()) wake();
  return false;
}

// The head is the begin or the end of a host function.
void ReplayTurns::pass_function(bool begins) {
  if (entry_.words.empty() || !with_.callbacks.contains(entry_.words[0])) {
    fatal(kExitDamaged, "the replay journal has a host function that was not launched");
  }
  const uint64_t number = entry_.words[0];
  if (begins) {
    deliver(entry_);
    with_.callbacks.begin(number, static_cast<CUresult>(entry_.head.result));
  } else {
    with_.callbacks.take_ended(number);
  }
  scheduler_.passed();
}

// Callbacks are nobody's turn: they begin when they come up; one that began inside a call, only
// when its thread has come to that call (is `in_call`), since host code before it must not meet
// what this one is to see.
void ReplayTurns::pass_functions(const std::string& in_call) {
  while (carry_out(scheduler_.pass_functions(in_call), "")) {
  }
}

void ReplayTurns::callback_ended() {
  // A thread inside a call passes them at its end.
  if (scheduler_.turn().taken) return;
  if (replaying() && !scheduler_.is_cut_delivered()) {
    const std::string thread = scheduler_.head_place();
    pass_functions(waiting_.contains(scheduler_.matcher().path_at(thread)) ? thread : "");
  }
  wake();
}

// `last`: the one that the checkpoint was made at, not of an earlier one.
void ReplayTurns::deliver_cut(bool last) {
  if (last) note_cut();
  deliver(entry_);
  scheduler_.cut_delivered(last);
}

void ReplayTurns::note_cut() {
  held_output_ = entry_.words.empty() ? 0 : entry_.words[0];
  cut_managed_ = entry_.words.size() < 2 ? 0 : entry_.words[1];
}

bool ReplayTurns::is_of_thread(HookId hook, const std::string& path) {
  return hook == HookId::cuCtxSetCurrent && ThreadMatcher::may_exchange(path);
}

// Whether others may still come. `is_dead`: nobody will.
ReplayTurns::Motion ReplayTurns::motion(const Watch& watch) const {
  return motion(watch,
                stall_.idle() >= kOthersCome || Clock::now() - watch.moved > kOthersComeAtMost);
}

ReplayTurns::Motion ReplayTurns::motion(const Watch& watch, bool is_dead) const {
  const auto passed = Clock::now() - watch.moved;
  if (passed < kLooks) return Motion::kMoves;
  if (is_dead) return Motion::kDead;
  return watch.all_wait || passed > kRunsAtMost ? Motion::kStill : Motion::kMoves;
}

void ReplayTurns::begin_turn() {
  own_state.has_turn = true;
  constexpr uint64_t kTrimEvery = 4096;
  if (scheduler_.turns() % kTrimEvery == 0) trim_output();
}

bool ReplayTurns::take_turn(HookId hook) {
  // A thread that polls has no need of a turn while the device was busy all the time.
  if (own_state.polls_left != 0 && own_state.poll_hook == static_cast<uint16_t>(hook)) {
    return false;
  }
  own_state.polls_left = 0;
  if (is_made_for_all(hook)) return false;
  const std::string path = own_path();
  if (is_of_thread(hook, path)) return false;
  // Most calls come when it is their turn: no clock is looked at for them.
  std::optional<Watch> watch;
  while (replaying()) {
    const Step step = scheduler_.ask(path, hook, watch ? motion(*watch) : Motion::kMoves);
    if (step.act == Act::kTurn) {
      begin_turn();
      if (make_memory_calls_before()) return false;
      own_state.has_turn = false;
      scheduler_.give_up_early();
      wake();
      continue;
    }
    if (step.act == Act::kGoLive) return true;
    if (carry_out(step, "a CUDA call")) continue;
    if (!watch) watch = Watch{.progress = progress()};
    wait_for_turn(hook, *watch);
  }
  return false;
}

// The driver gets calls for memory in the journal's order, whoever comes first.
bool ReplayTurns::make_memory_calls_before() {
  return std::ranges::all_of(scheduler_.memory_calls_before(), [this](const SeenEntry& call) {
    const bool made = make_for_other(call);
    if (made) scheduler_.made_for_other(call.number);
    return made;
  });
}

// Its thread gets what came of it when it comes with the call.
bool ReplayTurns::make_for_other(const SeenEntry& call) {
  const uint64_t first = call.entry.words[0];
  const bool gets = !call.entry.answer.empty();
  if (!gets && with_.model.placement.owns(first)) return false;
  uint64_t recorded = 0;
  if (gets) std::memcpy(&recorded, call.entry.answer.data(), sizeof recorded);
  const Unlocked unlocked(with_.lock);
  CUdeviceptr address = first;
  CUresult result = gets ? with_.driver.cuMemAlloc_v2(&address, first) : CUDA_SUCCESS;
  const bool elsewhere = gets && result == CUDA_SUCCESS && address != recorded;
  if (elsewhere || !gets) result = with_.driver.cuMemFree_v2(address);
  return result == CUDA_SUCCESS && !elsewhere;
}

std::unique_ptr<CallsAhead> ReplayTurns::look_ahead() const {
  const Manifest& manifest = with_.restored.manifest();
  auto replayer = Replayer::open(posix_file_system(), with_.run.store->job_folder(with_.run.job),
                                 manifest.journal, manifest.calls);
  if (!replayer.ok()) return nullptr;
  return std::make_unique<CallsAhead>(std::move(replayer.value()));
}

ReplayTurns::Claim ReplayTurns::claim(HookId hook, const CallKey& key) {
  if (own_state.has_turn) return Claim::kTurn;
  const std::string path = own_path();
  Watch watch{.progress = progress()};
  while (replaying()) {
    const bool alone = is_of_thread(hook, path) && with_.model.contexts.key_of(own_state.sets) != 0;
    const Step step =
        scheduler_.claim(path, hook, key, alone, motion(watch, stall_.awaited_is_stuck()));
    if (step.act == Act::kAlone) return Claim::kAhead;
    if (step.act == Act::kTurn || step.act == Act::kAhead) {
      begin_turn();
      return step.act == Act::kTurn ? Claim::kTurn : Claim::kAhead;
    }
    if (step.act == Act::kGoLive) return Claim::kGoLive;
    if (!carry_out(step, "the same from several threads in another order")) {
      wait_for_turn(hook, watch);
    }
  }
  return Claim::kLive;
}

void ReplayTurns::end_turn() {
  own_state.has_turn = false;
  // Where the head is left, the call was another one.
  const bool at_head = scheduler_.head() == nullptr;
  while (replaying() && at_head && !scheduler_.is_cut_delivered() && comes_to_cut_at_end()) {
    deliver_cut(replayer_->at_cut());
  }
  scheduler_.end_turn();
  if (replaying()) wake();
}

// A cut that was made at a call's end is right behind it: the program then ran host code, which
// must find what the cut delivered and whose own changes must not meet it. Host functions that the
// cut had waited for are between the two, and are waited for here.
bool ReplayTurns::comes_to_cut_at_end() {
  pass_functions({});
  while (entry_.head.hook == kCallbackEntry || entry_.head.hook == kCallbackEndEntry) {
    CallsAhead* const ahead = world_.ahead();
    if (ahead == nullptr || !ahead->cut_at_end_comes(replayer_->calls_read())) return false;
    const std::string place = scheduler_.matcher().place_of(own_path());
    pass_functions(place);
    if (entry_.head.hook != kCallbackEndEntry) continue;
    (void)with_.lock.wait_until(with_.callbacks.changed(), Clock::now() + kLongWait);
    pass_functions(place);
    watch_stall();
  }
  return entry_.head.hook == kCutEntry && (entry_.head.flags & kAtCallEnd) != 0;
}

// The thread that may go on; all, where it may be any.
void ReplayTurns::wake() {
  (void)scheduler_.take_news();
  if (waiting_.empty()) return;
  const std::string* const path = replaying() ? scheduler_.awaited_waiter() : nullptr;
  if (path == nullptr) {
    for (auto& [waiting, waiter] : waiting_) waiter->turn.notify_one();
  } else if (const auto next = waiting_.find(*path); next != waiting_.end()) {
    next->second->turn.notify_one();
  }
}

void ReplayTurns::wait_for_turn(HookId hook, Watch& watch) {
  wait_for_turn(name_of(hook), static_cast<uint16_t>(hook), kLooks, &watch);
}

void ReplayTurns::wait_for_turn(const char* call, uint16_t hook, Clock::duration patience,
                                Watch* watch) {
  const std::string path = own_path();
  Waiter waiter{.call = call, .turn = {}};
  const auto place = waiting_.emplace(path, &waiter);
  scheduler_.waits(path, hook);
  (void)with_.lock.wait_until(waiter.turn, Clock::now() + patience);
  watch_stall();
  if (watch != nullptr && replaying()) {
    if (watch->progress != progress()) *watch = {.progress = progress()};
    watch->all_wait = Clock::now() - watch->moved >= kLooks && all_wait();
  }
  scheduler_.waits_no_longer(path);
  waiting_.erase(place);
}

// The next entry of the journal, in words.
std::string ReplayTurns::describe_next() const {
  if (entry_.head.hook == kCallbackEndEntry) return "a host function to end";
  if (entry_.head.hook != kCutEntry) {
    return "call " + std::to_string(replayer_->calls_read()) + ", " +
           describe(entry_.head.hook, entry_.words.data(), entry_.words.size(), entry_.name);
  }
  return (entry_.head.flags & kAtCollective) != 0 ? "the MPI collective at which a cut was made"
                                                  : "the call before which a cut was made";
}

bool ReplayTurns::match_busy(HookId hook) {
  if (!own_state.has_turn) {
    --own_state.polls_left;
    return true;
  }
  const Entry& entry = scheduler_.entry();
  if (entry.head.hook != static_cast<uint16_t>(hook) || entry.head.result != CUDA_ERROR_NOT_READY ||
      entry.words.empty()) {
    return false;
  }
  own_state.poll_hook = static_cast<uint16_t>(hook);
  own_state.polls_left = entry.words[0] - 1;
  scheduler_.made();
  return true;
}

// The program may end at its place in the cut: then it had nothing left to do on the device. One
// thread may end it while others have still to come there.
void ReplayTurns::end_program() {
  const std::string path = own_path();
  while (replaying() && !scheduler_.is_cut_delivered()) {
    const Step step = scheduler_.ask_end(path);
    if (step.act == Act::kGoLive) {
      if (scheduler_.head() != nullptr) note_cut();
      return;
    }
    if (step.act == Act::kDiverged) {
      diverge("hooked call " + std::to_string(replayer_->calls_read()) + " of " +
                  std::to_string(replayer_->calls()),
              "the end of the program");
    }
    if (!carry_out(step, "")) wait_for_turn("its end", UINT16_MAX, kLongWait, nullptr);
  }
}

const Entry& ReplayTurns::match_next_entry(HookId hook, const CallKey& key) {
  const Entry& entry = scheduler_.entry();
  const auto compared = scheduler_.compare(hook, key);
  if (compared == ReplayScheduler::Compared::kSame) return entry;
  if (compared == ReplayScheduler::Compared::kMismatch) throw EntryMismatch();
  const std::string got = describe(static_cast<uint16_t>(hook), key.words, key.count, key.name);
  if (compared == ReplayScheduler::Compared::kOtherCall) {
    diverge(describe(entry.head.hook, entry.words.data(), entry.words.size(), entry.name), got);
  }
  diverge(got + " with the data of the recorded run",
          "the call with other data (bytes that the program never set may differ from run to run: "
          "GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0 in both gives "
          "those of its heap one value; --force-data passes over all data)");
}

bool ReplayTurns::pass_collective(const char* name, bool last) {
  const std::string path = own_path();
  while (replaying()) {
    const Step step = scheduler_.ask_collective(path);
    if (step.act == Act::kDeliverCut) {
      deliver_cut(last);
      if (!last) wake();
      return last;
    }
    if (!carry_out(step, name)) wait_for_turn(name, UINT16_MAX, kLongWait, nullptr);
  }
  return false;
}

bool ReplayTurns::await_live(const char* name) {
  const std::string path = own_path();
  while (replaying()) {
    const Step step = scheduler_.ask_live(path);
    if (step.act == Act::kGoLive) return true;
    if (!carry_out(step, name)) wait_for_turn(name, UINT16_MAX, kLongWait, nullptr);
  }
  return false;
}

void ReplayTurns::begin_live() {
  if (!scheduler_.is_cut_delivered()) deliver_cut(true);
  if (cut_managed_ != with_.model.managed_places()) fatal(kExitImpossible, kManagedElsewhere);
  scheduler_.go_live();  // the others wait
}

void ReplayTurns::end_live(Recorder* recorder) {
  for (const ReplayScheduler::Ahead& made : scheduler_.ahead()) {
    if (recorder == nullptr) break;
    CallKey key;
    for (uint64_t word : made.words) key.add(word);
    key.name = made.name;
    const HostBlock answer = plain_block(made.answer.data(), made.answer.size());
    recorder->append_for(made.path, made.hook, key, made.result,
                         made.answer.empty() ? nullptr : &answer);
  }
  scheduler_.end_turn();
  wake();
  replayer_.reset();
  world_.forget_ahead();
}

}  // namespace gpusnap
