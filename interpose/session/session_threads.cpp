// How the program's threads go through the session: admission to calls while recording, turns in a
// replay.

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/mpi/cut_barriers.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/unlocked.h"
#include "interpose/session/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/threads/thread_path.h"

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

void Session::set_mode(Mode mode) {
  admission_.set_mode(mode);
  host_callbacks_.record_to(mode == Mode::kRecord ? recorder_.get() : nullptr);
}

// The first time that the calling thread has to do with the session; takes the lock.
void Session::meet() {
  own_state.standing = Standing::kMet;
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
  if (own_state.standing != Standing::kUnknown) return std::unique_lock(lock_);
  meet();
  return {lock_, std::adopt_lock};
}

CallEnvironment* Session::enter_first(HookId hook) {
  if (admission_.mode() == Mode::kOff || own_state.standing == Standing::kInFunction)
    return nullptr;
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
        diverged(
            describe(entry_.head.hook, entry_.words.data(), entry_.words.size(), entry_.name),
            describe(made.hook, made.words.data(), made.words.size(), made.name) + " before it");
      }
    }
  }
}

bool Session::carry_out(const Step& step, const char* got) {
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
      diverged(step.why == ReplayScheduler::Divergence::kLoadedTwice
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
void Session::pass_function(bool begins) {
  if (entry_.words.empty() || !host_callbacks_.contains(entry_.words[0])) {
    fatal(kExitDamaged, "the replay journal has a host function that was not launched");
  }
  const uint64_t number = entry_.words[0];
  if (begins) {
    deliver(entry_);
    host_callbacks_.begin(number, static_cast<CUresult>(entry_.head.result));
  } else {
    host_callbacks_.take_ended(number);
  }
  scheduler_.passed();
}

// Callbacks are nobody's turn: they begin when they come up; one that began inside a call, only
// when its thread has come to that call (is `in_call`), since host code before it must not meet
// what this one is to see.
void Session::pass_functions(const std::string& in_call) {
  while (carry_out(scheduler_.pass_functions(in_call), "")) {
  }
}

void Session::callback_ended() {
  // A thread inside a call passes them at its end.
  if (scheduler_.turn().taken) return;
  if (replaying() && !scheduler_.is_cut_delivered()) {
    const std::string thread = scheduler_.head_place();
    pass_functions(waiting_.contains(scheduler_.matcher().path_at(thread)) ? thread : "");
  }
  wake();
}

// `last`: the one that the checkpoint was made at, not of an earlier one.
void Session::deliver_cut(bool last) {
  if (last) note_cut();
  deliver(entry_);
  scheduler_.cut_delivered(last);
}

void Session::note_cut() {
  held_output_ = entry_.words.empty() ? 0 : entry_.words[0];
  cut_managed_ = entry_.words.size() < 2 ? 0 : entry_.words[1];
}

bool Session::is_of_thread(HookId hook, const std::string& path) {
  return hook == HookId::cuCtxSetCurrent && ThreadMatcher::may_exchange(path);
}

Session::Motion Session::motion(const Watch& watch) const {
  return motion(watch,
                stall_.idle() >= kOthersCome || Clock::now() - watch.moved > kOthersComeAtMost);
}

// Whether others may still come. `is_dead`: nobody will.
Session::Motion Session::motion(const Watch& watch, bool is_dead) const {
  const auto passed = Clock::now() - watch.moved;
  if (passed < kLooks) return Motion::kMoves;
  if (is_dead) return Motion::kDead;
  return watch.all_wait || passed > kRunsAtMost ? Motion::kStill : Motion::kMoves;
}

void Session::begin_turn() {
  own_state.has_turn = true;
  constexpr uint64_t kTrimEvery = 4096;
  if (scheduler_.turns() % kTrimEvery == 0) trim_output();
}

void Session::take_turn(HookId hook) {
  // A thread that polls has no need of a turn while the device was busy all the time.
  if (own_state.polls_left != 0 && own_state.poll_hook == static_cast<uint16_t>(hook)) return;
  own_state.polls_left = 0;
  if (is_made_for_all(hook)) return;
  const std::string path = own_path();
  if (is_of_thread(hook, path)) return;
  // Most calls come when it is their turn: no clock is looked at for them.
  std::optional<Watch> watch;
  while (replaying()) {
    const Step step = scheduler_.ask(path, hook, watch ? motion(*watch) : Motion::kMoves);
    if (step.act == Act::kTurn) {
      begin_turn();
      if (make_memory_calls_before()) return;
      own_state.has_turn = false;
      scheduler_.give_up_early();
      wake();
      continue;
    }
    if (step.act == Act::kGoLive) return go_live();
    if (carry_out(step, "a CUDA call")) continue;
    if (!watch) watch = Watch{.progress = progress()};
    wait_for_turn(hook, *watch);
  }
}

// The driver gets calls for memory in the journal's order, whoever comes first.
bool Session::make_memory_calls_before() {
  return std::ranges::all_of(scheduler_.memory_calls_before(), [this](const SeenEntry& call) {
    const bool made = make_for_other(call);
    if (made) scheduler_.made_for_other(call.number);
    return made;
  });
}

// Its thread gets what came of it when it comes with the call.
bool Session::make_for_other(const SeenEntry& call) {
  const uint64_t first = call.entry.words[0];
  const bool gets = !call.entry.answer.empty();
  if (!gets && model_.placement.owns(first)) return false;
  uint64_t recorded = 0;
  if (gets) std::memcpy(&recorded, call.entry.answer.data(), sizeof recorded);
  const Unlocked unlocked(lock_);
  CUdeviceptr address = first;
  CUresult result = gets ? driver_->cuMemAlloc_v2(&address, first) : CUDA_SUCCESS;
  const bool elsewhere = gets && result == CUDA_SUCCESS && address != recorded;
  if (elsewhere || !gets) result = driver_->cuMemFree_v2(address);
  return result == CUDA_SUCCESS && !elsewhere;
}

std::unique_ptr<CallsAhead> Session::look_ahead() const {
  const Manifest& manifest = restored_.manifest();
  auto replayer = Replayer::open(posix_file_system(), run_.store->job_folder(run_.job),
                                 manifest.journal, manifest.calls);
  if (!replayer.ok()) return nullptr;
  return std::make_unique<CallsAhead>(std::move(replayer.value()));
}

Session::Claim Session::claim_turn(HookId hook, const CallKey& key) {
  if (own_state.has_turn) return Claim::kTurn;
  const std::string path = own_path();
  Watch watch{.progress = progress()};
  while (replaying()) {
    const bool alone = is_of_thread(hook, path) && model_.contexts.key_of(own_state.sets) != 0;
    const Step step =
        scheduler_.claim(path, hook, key, alone, motion(watch, stall_.awaited_is_stuck()));
    if (step.act == Act::kAlone) return Claim::kAhead;
    if (step.act == Act::kTurn || step.act == Act::kAhead) {
      begin_turn();
      return step.act == Act::kTurn ? Claim::kTurn : Claim::kAhead;
    }
    if (step.act == Act::kGoLive) {
      go_live();
    } else if (!carry_out(step, "the same from several threads in another order")) {
      wait_for_turn(hook, watch);
    }
  }
  admit(hook);
  return Claim::kLive;
}

void Session::end_turn() {
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
bool Session::comes_to_cut_at_end() {
  pass_functions({});
  while (entry_.head.hook == kCallbackEntry || entry_.head.hook == kCallbackEndEntry) {
    CallsAhead* const ahead = replay_world_.ahead();
    if (ahead == nullptr || !ahead->cut_at_end_comes(replayer_->calls_read())) return false;
    const std::string place = scheduler_.matcher().place_of(own_path());
    pass_functions(place);
    if (entry_.head.hook != kCallbackEndEntry) continue;
    (void)lock_.wait_until(host_callbacks_.changed(), Clock::now() + kLongWait);
    pass_functions(place);
    watch_stall();
  }
  return entry_.head.hook == kCutEntry && (entry_.head.flags & kAtCallEnd) != 0;
}

// The thread that may go on; all, where it may be any.
void Session::wake() {
  (void)scheduler_.take_news();
  if (waiting_.empty()) return;
  const std::string* const path = replaying() ? scheduler_.awaited_waiter() : nullptr;
  if (path == nullptr) {
    for (auto& [waiting, waiter] : waiting_) waiter->turn.notify_one();
  } else if (const auto next = waiting_.find(*path); next != waiting_.end()) {
    next->second->turn.notify_one();
  }
}

void Session::wait_for_turn(HookId hook, Watch& watch) {
  wait_for_turn(name_of(hook), static_cast<uint16_t>(hook), kLooks, &watch);
}

void Session::wait_for_turn(const char* call, uint16_t hook, Clock::duration patience,
                            Watch* watch) {
  const std::string path = own_path();
  Waiter waiter{.call = call, .turn = {}};
  const auto place = waiting_.emplace(path, &waiter);
  scheduler_.waits(path, hook);
  (void)lock_.wait_until(waiter.turn, Clock::now() + patience);
  watch_stall();
  if (watch != nullptr && replaying()) {
    if (watch->progress != progress()) *watch = {.progress = progress()};
    watch->all_wait = Clock::now() - watch->moved >= kLooks && all_wait();
  }
  scheduler_.waits_no_longer(path);
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
  if (!scheduler_.is_cut_delivered()) deliver_cut(true);
  if (cut_managed_ != model_.managed_places()) fatal(kExitImpossible, kManagedElsewhere);
  scheduler_.go_live();  // the others wait
  load_memory(cut_barriers);
  const Manifest& manifest = restored_.manifest();
  replayer_.reset();
  replay_world_.forget_ahead();
  const Status status = begin_recording(manifest.journal, manifest.calls, manifest.launches);
  if (!status.ok()) {
    set_mode(Mode::kOff);
    log(LogLevel::kWarn, "restored, but no more checkpoints: ", status.message());
    triggers_->end_cuts(status.message());
  }
  triggers_->restored(manifest.interval, manifest.stall_ns, destination_of(manifest));
  // Calls that were made ahead of the cut belong after it.
  for (const ReplayScheduler::Ahead& made : scheduler_.ahead()) {
    if (!status.ok()) break;
    CallKey key;
    for (uint64_t word : made.words) key.add(word);
    key.name = made.name;
    const HostBlock answer = plain_block(made.answer.data(), made.answer.size());
    recorder_->append_for(made.path, made.hook, key, made.result,
                          made.answer.empty() ? nullptr : &answer);
  }
  scheduler_.end_turn();
  wake();
}

// The program may end at its place in the cut: then it had nothing left to do on the device. One
// thread may end it while others have still to come there.
void Session::finish_replay() {
  const std::string path = own_path();
  while (replaying() && !scheduler_.is_cut_delivered()) {
    const Step step = scheduler_.ask_end(path);
    if (step.act == Act::kGoLive) {
      if (scheduler_.head() != nullptr) note_cut();
      return;
    }
    if (step.act == Act::kDiverged) {
      diverged("hooked call " + std::to_string(replayer_->calls_read()) + " of " +
                   std::to_string(replayer_->calls()),
               "the end of the program");
    }
    if (!carry_out(step, "")) wait_for_turn("its end", UINT16_MAX, kLongWait, nullptr);
  }
}

}  // namespace gpusnap
