#include "interpose/snapshot/arena_pinning.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "interpose/services/log.h"
#include "tiers/unlocked.h"

namespace gpusnap {

namespace {
using std::chrono::steady_clock;
// At a time: the driver, and the process's memory map, are held for as long as it takes.
constexpr uint32_t kSlotsAtATime = 4;
// Between two looks at whether there is something to pin.
constexpr auto kPause = std::chrono::milliseconds(1);
// Between two looks at whether it is this process's turn: less than a registration takes.
constexpr auto kBetweenTurns = std::chrono::microseconds(200);
}  // namespace

ArenaPinning::ArenaPinning(const Driver& driver, StagingMemory& memory, StagingPool& pool,
                           Pinning way, const NodeLock* turns)
    : driver_(driver), memory_(memory), pool_(pool), way_(way), turns_(turns) {}

void ArenaPinning::begin(Workers& workers, std::function<bool()> copies) {
  copies_ = std::move(copies);
  if (!workers.spawn([this] { work(); })) done_ = true;
}

void ArenaPinning::add_context(CUcontext context) {
  std::unique_lock lock(mutex_);
  if (context_ != nullptr || done_) return;
  context_ = context;
  under_way_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
  if (way_ == Pinning::kAtOnce) changed_.wait(lock, [this] { return done_; });
}

void ArenaPinning::forget_context(CUcontext context) {
  const std::lock_guard lock(mutex_);
  if (context_ != context) return;
  context_ = nullptr;
  pinned_ = 0;
  pool_.prefer(0);
  done_ = false;
  under_way_.store(false, std::memory_order_relaxed);
}

ArenaPinning::Pause::Pause(ArenaPinning* pinning) : pinning_(pinning) {
  if (pinning_ == nullptr) return;
  std::unique_lock lock(pinning_->mutex_);
  ++pinning_->pauses_;
  pinning_->changed_.wait(lock, [this] { return !pinning_->pinning_; });
}

ArenaPinning::Pause::~Pause() {
  if (pinning_ == nullptr) return;
  const std::lock_guard lock(pinning_->mutex_);
  --pinning_->pauses_;
  pinning_->changed_.notify_all();
}

void ArenaPinning::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return context_ != nullptr && !done_; });
    }
    wait_for_copies();
    step();
  }
}

void ArenaPinning::step() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pauses_ == 0; });
  if (context_ == nullptr || done_) return;
  const uint32_t backed = memory_.backed();
  const bool all = backed == memory_.slots().size() || memory_.header().refused.load() != 0;
  const uint32_t count = std::min(backed - pinned_, kSlotsAtATime);
  if (count == 0 && all) return end();
  // Not one by one as they come: each is a call of the driver.
  if (count < kSlotsAtATime && !all) {
    lock.unlock();
    return std::this_thread::sleep_for(kPause);
  }
  pinning_ = true;
  const Outcome outcome = [&] {
    const CUcontext context = context_;
    const uint32_t first = pinned_;
    const Unlocked unlocked(lock);
    return pin(context, first, count);
  }();
  pinning_ = false;
  if (outcome == Outcome::kPinned) {
    pinned_ += count;
    pool_.prefer(pinned_);
  } else if (outcome == Outcome::kRefused) {
    end();
  }
  changed_.notify_all();
}

void ArenaPinning::end() {
  done_ = true;
  under_way_.store(false, std::memory_order_relaxed);
  changed_.notify_all();
}

void ArenaPinning::wait_for_copies() const {
  const auto until = steady_clock::now() + kPatience;
  while (way_ == Pinning::kStepwise && copies_() && steady_clock::now() < until) {
    std::this_thread::sleep_for(kPause);
  }
}

// A pause waits for this process's call of the driver, and not for those of others.
ArenaPinning::Outcome ArenaPinning::pin(CUcontext context, uint32_t first, uint32_t count) {
  // Not while others wait for the turn.
  memory_.map_ahead(first, count);
  for (;;) {
    if (const auto turn = turns_.take()) {
      return register_slots(context, first, count) ? Outcome::kPinned : Outcome::kRefused;
    }
    if (pauses_ > 0) return Outcome::kPutOff;
    std::this_thread::sleep_for(kBetweenTurns);
  }
}

bool ArenaPinning::register_slots(CUcontext context, uint32_t first, uint32_t count) const {
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  const CUresult result = driver_.cuMemHostRegister_v2(
      memory_.bytes(first).data(), count * pool_.slot_bytes(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) return true;
  // Unpinned slots work too, at a lower speed.
  log(LogLevel::kInfo, "of the staging memory ", first,
      " slots are pinned, no more: ", error_name(driver_, result));
  return false;
}

}  // namespace gpusnap
