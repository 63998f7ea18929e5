#include "interpose/snapshot/arena_pinning.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tests/unit/tiers/staging_support.h"

namespace gpusnap::arena_pinning_test {

namespace {

using namespace std::chrono_literals;

constexpr size_t kSlot = 4096;

CUcontext context_of(size_t number) {
  return reinterpret_cast<CUcontext>(number);
}

// Notes what is pinned, and where.
struct Fake {
  struct Pinned {
    const void* begin;
    size_t bytes;
    CUcontext context;
  };
  std::mutex mutex;
  std::vector<Pinned> pinned;
  std::atomic<CUresult> result{CUDA_SUCCESS};
  std::atomic<bool> holds{false};  // a call does not return as long as this is set
  std::atomic<int> inside{0};

  std::vector<Pinned> so_far() {
    const std::lock_guard lock(mutex);
    return pinned;
  }
} fake;
thread_local CUcontext current = nullptr;

Driver make_driver() {
  Driver driver;
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    *context = current;
    return CUDA_SUCCESS;
  };
  driver.cuCtxPushCurrent_v2 = [](CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
  };
  driver.cuCtxPopCurrent_v2 = [](CUcontext* context) {
    *context = std::exchange(current, nullptr);
    return CUDA_SUCCESS;
  };
  driver.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  };
  driver.cuMemHostRegister_v2 = [](void* begin, size_t bytes, unsigned) {
    ++fake.inside;
    while (fake.holds) std::this_thread::sleep_for(1ms);
    const CUresult result = fake.result;
    if (result == CUDA_SUCCESS) {
      const std::lock_guard lock(fake.mutex);
      fake.pinned.push_back({begin, bytes, current});
    }
    --fake.inside;
    return result;
  };
  return driver;
}

const Driver& fake_driver() {
  static const Driver driver = make_driver();
  return driver;
}

// Its thread lasts as long as the process, and so does all that it uses.
struct Pinned {
  explicit Pinned(size_t slots, Pinning way, const NodeLock* turns) : area(kSlot, slots * kSlot) {
    workers = std::make_unique<Workers>(1);
    pinning = std::make_unique<ArenaPinning>(fake_driver(), *area.memory, *area.pool, way, turns);
    pinning->begin(*workers, [this] { return copies.load(); });
  }
  test::StagingArea area;
  std::atomic<bool> copies{false};
  std::unique_ptr<Workers> workers;
  std::unique_ptr<ArenaPinning> pinning;
};

Pinned& make(size_t slots, Pinning way = Pinning::kStepwise, const NodeLock* turns = nullptr) {
  static auto* const all = new std::vector<std::unique_ptr<Pinned>>;  // to the end
  {
    const std::lock_guard lock(fake.mutex);
    fake.pinned.clear();
  }
  fake.result = CUDA_SUCCESS;
  all->push_back(std::make_unique<Pinned>(slots, way, turns));
  return *all->back();
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// The leading slots, one after the other, each once.
void expect_pinned(Pinned& made, size_t slots, CUcontext context) {
  const std::byte* next = made.area.memory->bytes(0).data();
  for (const Fake::Pinned& pinned : fake.so_far()) {
    EXPECT_EQ(pinned.begin, next);
    EXPECT_EQ(pinned.context, context);
    next += pinned.bytes;
  }
  EXPECT_EQ(next, made.area.memory->bytes(0).data() + slots * kSlot);
}

TEST(ArenaPinning, PinsAllSlotsInSequenceInTheFirstContext) {
  Pinned& made = make(11);
  EXPECT_FALSE(made.pinning->under_way());
  made.pinning->add_context(context_of(7));
  made.pinning->add_context(context_of(8));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(7));
  EXPECT_GT(fake.so_far().size(), 1U) << "the driver would have been held for all of it";
}

TEST(ArenaPinning, AtOnceTheContextWaitsForIt) {
  Pinned& made = make(11, Pinning::kAtOnce);
  made.copies = true;
  made.pinning->add_context(context_of(7));
  expect_pinned(made, 11, context_of(7));
  EXPECT_FALSE(made.pinning->under_way());
}

TEST(ArenaPinning, WhatCannotBePinnedIsUsedAsItIs) {
  Pinned& made = make(11);
  fake.result = CUDA_ERROR_OUT_OF_MEMORY;
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  EXPECT_TRUE(fake.so_far().empty());
  EXPECT_TRUE(made.area.pool->acquire(0ns).ok());
}

TEST(ArenaPinning, APauseWaitsForTheCallThatIsUnderWay) {
  Pinned& made = make(11);
  fake.holds = true;
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([] { return fake.inside > 0; }));
  std::atomic<bool> paused{false};
  std::thread pausing([&] {
    const ArenaPinning::Pause pause(made.pinning.get());
    EXPECT_EQ(fake.inside, 0);
    paused = true;
  });
  EXPECT_FALSE(paused);
  fake.holds = false;
  pausing.join();
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(7));
}

TEST(ArenaPinning, NothingIsPinnedWhileThereIsAPause) {
  Pinned& made = make(11);
  {
    const ArenaPinning::Pause pause(made.pinning.get());
    made.pinning->add_context(context_of(7));
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(fake.so_far().empty());
    EXPECT_TRUE(made.pinning->under_way());
  }
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(7));
}

TEST(ArenaPinning, AnotherContextBeginsFromTheFirstSlot) {
  Pinned& made = make(11);
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  {
    const ArenaPinning::Pause pause(made.pinning.get());
    made.pinning->forget_context(context_of(7));
    const std::lock_guard lock(fake.mutex);
    fake.pinned.clear();
  }
  made.pinning->add_context(context_of(9));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(9));
}

// 12 slots are three calls, each of which is put off. A busy machine only makes it later.
TEST(ArenaPinning, CopiesPutItOff) {
  Pinned& made = make(12);
  made.copies = true;
  const auto begun = std::chrono::steady_clock::now();
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 3 * ArenaPinning::kPatience);
  expect_pinned(made, 12, context_of(7));
}

TEST(ArenaPinning, AProgramThatAlwaysCopiesDoesNotPutItOffForEver) {
  Pinned& made = make(5);
  made.copies = true;
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 5, context_of(7));
}

TEST(ArenaPinning, ConcurrentlyNothingPutsItOff) {
  Pinned& made = make(12, Pinning::kConcurrent);
  made.copies = true;
  made.pinning->add_context(context_of(7));
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 12, context_of(7));
}

// To the end, as all that a thread uses here.
const NodeLock* make_lock() {
  return new NodeLock(::testing::TempDir() + "pinning-turns-" + std::to_string(::getpid()));
}

TEST(ArenaPinning, WaitsForItsTurnAndHoldsItWhileItRegisters) {
  static const NodeLock* const lock = make_lock();
  std::optional<NodeLock::Held> others(std::move(lock->try_hold().value()));
  ASSERT_TRUE(others);
  Pinned& made = make(11, Pinning::kStepwise, lock);
  made.pinning->add_context(context_of(7));
  std::this_thread::sleep_for(20ms);  // it would have registered
  EXPECT_TRUE(fake.so_far().empty());
  fake.holds = true;
  others.reset();
  EXPECT_TRUE(comes_true([] { return fake.inside > 0; }));
  EXPECT_FALSE(lock->try_hold().value().has_value()) << "in the driver, without the turn";
  fake.holds = false;
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(7));
  EXPECT_TRUE(lock->try_hold().value().has_value());
}

TEST(ArenaPinning, APauseDoesNotWaitForTheTurnOfAnother) {
  static const NodeLock* const lock = make_lock();
  std::optional<NodeLock::Held> others(std::move(lock->try_hold().value()));
  ASSERT_TRUE(others);
  Pinned& made = make(11, Pinning::kStepwise, lock);
  made.pinning->add_context(context_of(7));
  {
    const ArenaPinning::Pause pause(made.pinning.get());
    EXPECT_TRUE(fake.so_far().empty());
    EXPECT_FALSE(lock->try_hold().value().has_value()) << "the other one still has it";
  }
  others.reset();
  EXPECT_TRUE(comes_true([&] { return !made.pinning->under_way(); }));
  expect_pinned(made, 11, context_of(7));
}

}  // namespace
}  // namespace gpusnap::arena_pinning_test
