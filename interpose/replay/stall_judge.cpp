#include "interpose/replay/stall_judge.h"

#include <algorithm>

namespace gpusnap {

namespace {
// `used`: processor time since the last look.
bool may_go_on_by_itself(const SeenThread& thread, uint64_t used) {
  switch (thread.activity) {
    case Activity::kOutside:
    case Activity::kRunning:
      return true;
    case Activity::kTimedLock:
      // One that looks at a lock again and again has used some. This one sleeps.
      return used == 0;
    case Activity::kEnded:
    case Activity::kTurn:
    case Activity::kLock:
      break;
  }
  return false;
}
}  // namespace

bool StallJudge::wants_look(uint64_t progress, Duration now) {
  if (!begun_ || progress != progress_) {
    begun_ = true;
    progress_ = progress;
    looked_ = now;
    waited_ = idle_ = {};
    stuck_ = false;
    next_words_ = limits_.say;
    cpu_ns_.clear();
    return false;
  }
  return now - looked_ >= limits_.look;
}

StallJudge::Verdict StallJudge::judge(std::span<const SeenThread> threads, Duration now) {
  const Duration passed = now - looked_;
  looked_ = now;
  // A machine that stood still has given nobody the time to move.
  waited_ += std::min(passed, limits_.counted);
  // The first look does not tell whether anybody has computed.
  if (!cpu_ns_.empty()) idle_ += std::min(passed, limits_.counted);
  bool may_go_on = false, awaited_may_go_on = false;
  std::map<int, uint64_t> cpu_ns;
  for (const SeenThread& thread : threads) {
    const auto before = cpu_ns_.find(thread.id);
    const uint64_t used = before == cpu_ns_.end() ? 0 : thread.cpu_ns - before->second;
    if (Duration(used) * kComputesFrom >= passed) idle_ = {};
    const bool goes_on = may_go_on_by_itself(thread, used);
    may_go_on |= thread.matters && goes_on;
    awaited_may_go_on |= thread.awaited && goes_on;
    cpu_ns[thread.id] = thread.cpu_ns;
  }
  cpu_ns_ = std::move(cpu_ns);
  stuck_ = idle_ >= limits_.stuck && !awaited_may_go_on;
  if (idle_ >= limits_.give_up && !may_go_on) return Verdict::kGiveUp;
  // An awaited thread that waits itself has come with another call. Its own words come soon.
  const bool has_come = std::ranges::any_of(threads, [](const SeenThread& thread) {
    return thread.awaited && thread.activity == Activity::kTurn;
  });
  if (waited_ < next_words_ || has_come) return Verdict::kGoOn;
  next_words_ = waited_ + limits_.say_again;
  return Verdict::kSay;
}

}  // namespace gpusnap
