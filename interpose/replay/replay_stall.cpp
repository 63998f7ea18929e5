// A replay in which nothing moves: who is awaited, who waits, and whether it may still go on
// (stall_judge.h). Looked at by the threads that wait, whenever one of them wakes up.

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "interpose/process/saved_readings.h"
#include "interpose/replay/replay_output.h"
#include "interpose/replay/replay_turns.h"
#include "interpose/replay/seen_threads.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/threads/thread_name.h"
#include "interpose/threads/thread_path.h"

namespace gpusnap {

namespace {
std::string doing(Activity activity) {
  switch (activity) {
    case Activity::kEnded:
      return "has ended, or has not begun";
    case Activity::kTurn:
      return "waits in another call";
    case Activity::kLock:
    case Activity::kTimedLock:
      return "waits for another thread";
    case Activity::kOutside:
      return "sleeps, or waits for something outside of the process";
    case Activity::kRunning:
      return "runs";
  }
  return {};
}
}  // namespace

// Another number whenever something has moved.
uint64_t ReplayTurns::progress() const {
  uint64_t number = replayer_->calls_read();
  const auto mix = [&number](uint64_t other) { number = number * 0x9e3779b97f4a7c15 + other; };
  mix(scheduler_.turns());
  mix(with_.callbacks.moves());
  return number;
}

bool ReplayTurns::awaits_host_function() const {
  return scheduler_.head() != nullptr && entry_.head.hook == kCallbackEndEntry;
}

// All threads. The awaited one matters, those that have made calls, and those of ours that have run
// host functions.
std::vector<SeenThread> ReplayTurns::see_program() const {
  std::map<int, bool> waits;  // in the replay: by the system's number
  for (const int thread : with_.callbacks.threads()) waits[thread] = false;
  for (const auto& [path, thread] : threads_) {
    const bool at_end_of_call =
        scheduler_.turn().taken && awaits_host_function() && path == scheduler_.turn().path;
    waits[thread] = at_end_of_call || waiting_.contains(path);
  }
  const int awaited = awaits_host_function() ? 0 : find_running_thread(scheduler_.awaited_path());
  std::vector<SeenThread> all = see_threads();
  for (SeenThread& thread : all) {
    const auto known = waits.find(thread.id);
    thread.awaited = thread.id == awaited;
    thread.matters = known != waits.end() || thread.awaited;
    if (known != waits.end() && known->second) thread.activity = Activity::kTurn;
  }
  return all;
}

// Whether each thread that matters waits for another one: nobody will come by himself.
bool ReplayTurns::all_wait() const {
  return std::ranges::all_of(see_program(), [](const SeenThread& thread) {
    return !thread.matters || thread.activity == Activity::kTurn ||
           thread.activity == Activity::kLock || thread.activity == Activity::kEnded;
  });
}

std::string ReplayTurns::describe_stall(std::span<const SeenThread> threads) const {
  std::string text = "waits for ";
  if (awaits_host_function()) {
    text += describe_next();
    const ReplayScheduler::Turn& turn = scheduler_.turn();
    if (turn.taken) text += "; " + name_of_thread(turn.path) + " waits at the end of its call";
  } else {
    const std::string& path = scheduler_.awaited_path();
    text += name_of_thread(path) + " to ";
    text +=
        scheduler_.turn().taken ? std::string("return from its call") : "make " + describe_next();
    const auto seen = std::ranges::find(threads, true, &SeenThread::awaited);
    const Activity activity = seen == threads.end() ? Activity::kEnded : seen->activity;
    text += "; " + name_of_thread(path) + " " + doing(activity);
  }
  for (const auto& [path, waiter] : waiting_) {
    text += "; " + name_of_thread(path) + " waits with " + waiter->call;
  }
  return text;
}

void ReplayTurns::give_up(std::span<const SeenThread> threads) const {
  const std::string why = describe_stall(threads);
  // It may have said why.
  show_output();
  if (const char* doubt = nondeterminism::doubt()) log(LogLevel::kWarn, doubt);
  fatal(kExitDiverged, "the replay cannot go on: it " + why + "; for " +
                           std::to_string(stall_.limits().give_up / std::chrono::seconds(1)) +
                           " s nothing has moved and no thread has computed; nothing was "
                           "changed in the store");
}

// A thread has waited for a while.
void ReplayTurns::watch_stall() {
  // While one goes live the others wait as long as it takes to load memory.
  const ReplayScheduler::Turn& turn = scheduler_.turn();
  const bool goes_live = turn.taken && turn.path.empty();
  if (!replaying() || goes_live || (!turn.taken && scheduler_.head() == nullptr)) return;
  const StallJudge::Duration now = CallLock::Clock::now().time_since_epoch();
  if (!stall_.wants_look(progress(), now)) return;
  const std::vector<SeenThread> threads = see_program();
  switch (stall_.judge(threads, now)) {
    case StallJudge::Verdict::kGoOn:
      break;
    case StallJudge::Verdict::kSay:
      log(LogLevel::kWarn, "the replay ", describe_stall(threads));
      break;
    case StallJudge::Verdict::kGiveUp:
      give_up(threads);
  }
}

}  // namespace gpusnap
