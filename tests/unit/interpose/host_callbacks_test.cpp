// SPDX-License-Identifier: Apache-2.0
//
// Functions of the host: the test's own threads run them in the place of a driver's.
#include "interpose/record/host_callbacks.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "interpose/journal/replayer.h"
#include "interpose/model/progress_words.h"
#include "interpose/record/thread_state.h"
#include "tests/support/becomes.h"
#include "tests/support/journal_file.h"

namespace gpusnap {

namespace {

using HostCallbackEntry = std::pair<uint16_t, uint64_t>;  // its kind, and the function's number

// A driver that runs a function at once, on a thread of its own.
thread_local bool t_of_the_driver = false;

Driver driver_with_streams() {
  Driver driver;
  driver.cuCtxGetCurrent = [](CUcontext* context) {
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  driver.cuStreamCreate = [](CUstream* stream, unsigned) {
    *stream = nullptr;
    return CUDA_SUCCESS;
  };
  driver.cuLaunchHostFunc = [](CUstream, CUhostFn function, void* user) {
    std::jthread([function, user] {
      t_of_the_driver = true;
      function(user);
    }).join();
    return CUDA_SUCCESS;
  };
  return driver;
}

class HostCallbacksTest : public ::testing::Test {
 protected:
  HostCallbacksTest() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-host-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~HostCallbacksTest() override {
    // The worker may still hold the lock.
    EXPECT_TRUE(becomes([this] {
      const auto wait = workers_.spawn([] {});
      if (wait) wait();
      return static_cast<bool>(wait);
    }));
    std::filesystem::remove_all(folder_);
  }

  void record() {
    auto file = JournalFile::create(posix_file_system(), folder_, "journal");
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto recorder = Recorder::create(std::move(file.value()), "journal", {}, {}, 0, 0);
    ASSERT_TRUE(recorder.ok()) << recorder.status().message();
    recorder_ = std::move(recorder.value());
    recorder_->append(1, {}, CUDA_SUCCESS);  // entries of functions come after one of a thread
    callbacks_.record_to(recorder_.get());
  }
  // The journal's entries of functions; nothing can be recorded any more.
  std::vector<HostCallbackEntry> journal() {
    recorder_->append(kCutEntry, {}, 0, 0, nullptr, {});
    auto parts = recorder_->seal();
    EXPECT_TRUE(recorder_->writer().settle(parts.back()).status().ok());
    auto replayer = Replayer::open(posix_file_system(), folder_, std::move(parts), 1);
    std::vector<HostCallbackEntry> found;
    Entry entry;
    while (replayer.value()->next(entry).ok() && entry.head.hook != kCutEntry) {
      flags_.push_back(entry.head.flags);
      if (entry.head.hook == kCallbackEntry || entry.head.hook == kCallbackEndEntry) {
        found.emplace_back(entry.head.hook, entry.words[0]);
      }
    }
    EXPECT_EQ(entry.head.hook, kCutEntry);
    return found;
  }
  HostCallback* launch(std::function<void()>& body) {
    auto* callback = new HostCallback;
    callback->callbacks = &callbacks_;
    callback->function = function_of(body);
    const Held held(lock_);
    callbacks_.launched(*callback);
    return callback;
  }
  static HostFunction function_of(std::function<void()>& body) {
    return {.plain = [](void* user) { (*static_cast<std::function<void()>*>(user))(); },
            .user = &body};
  }
  // As the driver does it.
  static void run(HostCallback* callback) {
    std::jthread([callback] { run_host_callback(callback); }).join();
  }
  bool ends(uint64_t number) {
    return becomes([&] {
      const Held held(lock_);
      if (!callbacks_.has_ended(number)) return false;
      callbacks_.take_ended(number);
      return true;
    });
  }

  class Held {
   public:
    explicit Held(CallLock& lock) : lock_(lock) { lock_.lock(); }
    ~Held() { lock_.unlock(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    CallLock& lock_;
  };
  // The lock is a mutex here from the start: all threads but the first one share it.
  struct SharedLock : CallLock {
    SharedLock() {
      begin();
      std::jthread([this] { share(); }).join();
    }
  };

  std::string folder_;
  std::vector<uint8_t> flags_;
  SharedLock lock_;
  CallsInDriver calls_;
  HostMemory memory_;
  ProgressWords words_;
  Deliveries deliveries_{memory_, words_};
  std::atomic<const char*> doubt_{nullptr};
  Workers& workers_ = *new Workers(1);  // never destroyed, as the class asks
  std::atomic<int> ended_{0};
  Driver driver_ = driver_with_streams();
  HostCallbacks callbacks_{{driver_, lock_, calls_, deliveries_, doubt_, workers_},
                           [this] { ++ended_; }};
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(HostCallbacksTest, TheJournalHasThemByTheOrderOfTheirLaunches) {
  record();
  std::string order;
  std::function<void()> first = [&] { order += '1'; }, second = [&] { order += '2'; };
  HostCallback* const one = launch(first);
  HostCallback* const two = launch(second);
  run(two);
  run(one);
  EXPECT_EQ(order, "21");
  const std::vector<HostCallbackEntry> expected = {
      {kCallbackEntry, 1}, {kCallbackEndEntry, 1}, {kCallbackEntry, 0}, {kCallbackEndEntry, 0}};
  EXPECT_EQ(journal(), expected);
}

TEST_F(HostCallbacksTest, AFunctionRunsBetweenItsEntries) {
  record();
  bool running = false;
  std::function<void()> body = [&] {
    const Held held(lock_);
    running = deliveries_.function_runs();
  };
  run(launch(body));
  EXPECT_TRUE(running);
  EXPECT_FALSE(deliveries_.function_runs());
}

TEST_F(HostCallbacksTest, TheJournalSaysWhetherTheOnlyThreadIsInACall) {
  record();
  std::function<void()> body = [] {};
  run(launch(body));
  {
    const CallsInDriver::Scope in_driver(calls_);
    run(launch(body));
    calls_.see_several_threads();
    run(launch(body));
  }
  EXPECT_EQ(journal().size(), 6U);
  const std::vector<uint8_t> in_call = {0, kInCall, 0};
  std::vector<uint8_t> found;
  for (size_t i = 1; i < flags_.size(); i += 2) found.push_back(flags_[i] & kInCall);
  EXPECT_EQ(found, in_call);
}

TEST_F(HostCallbacksTest, RunsOfAGraphAreThoseOfItsLaunchesInOrder) {
  record();
  std::function<void()> body = [] {};
  GraphCallback in_graph;
  in_graph.callbacks = &callbacks_;
  in_graph.function = function_of(body).plain;
  in_graph.user = &body;
  HostCallback* const before = launch(body);
  {
    const Held held(lock_);
    callbacks_.launched(std::vector{&in_graph});
    callbacks_.launched(std::vector{&in_graph});
  }
  EXPECT_FALSE(in_graph.idle());
  for (int i = 0; i < 2; ++i) std::jthread([&] { run_graph_callback(&in_graph); }).join();
  EXPECT_TRUE(in_graph.idle());
  run(before);
  const std::vector<HostCallbackEntry> expected = {{kCallbackEntry, 1}, {kCallbackEndEntry, 1},
                                                   {kCallbackEntry, 2}, {kCallbackEndEntry, 2},
                                                   {kCallbackEntry, 0}, {kCallbackEndEntry, 0}};
  EXPECT_EQ(journal(), expected);
}

TEST_F(HostCallbacksTest, NothingIsJournaledWhenNothingIsRecorded) {
  record();
  bool ran = false;
  std::function<void()> body = [&] { ran = true; };
  HostCallback* const callback = launch(body);
  callbacks_.record_to(nullptr);
  run(callback);
  EXPECT_TRUE(ran);
  EXPECT_TRUE(journal().empty());
}

TEST_F(HostCallbacksTest, AReplayRunsAFunctionWhenItsEntryComesUp) {
  std::atomic<int> ran{0};
  std::function<void()> body = [&] { ++ran; };
  {
    const Held held(lock_);
    callbacks_.remember(function_of(body));
    callbacks_.remember(function_of(body));
    EXPECT_TRUE(callbacks_.contains(1));
    EXPECT_FALSE(callbacks_.contains(2));
    EXPECT_FALSE(callbacks_.has_ended(1));
    callbacks_.begin(1, CUDA_SUCCESS);
    // It cannot have ended: its end takes the lock.
    EXPECT_FALSE(callbacks_.has_ended(1));
    EXPECT_EQ(ended_, 0);
  }
  EXPECT_TRUE(ends(1));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(ended_, 1);
  const Held held(lock_);
  EXPECT_FALSE(callbacks_.contains(1));
  EXPECT_TRUE(callbacks_.contains(0));
  EXPECT_EQ(callbacks_.threads().size(), 1U);
}

// A function may ask the driver where it is, which permits it no calls.
TEST_F(HostCallbacksTest, AReplayRunsAFunctionOnAThreadOfTheDriver) {
  for (const bool by_driver : {true, false}) {
    if (!by_driver) driver_.cuLaunchHostFunc = nullptr;  // an old one
    std::atomic<bool> there{!by_driver};
    std::function<void()> body = [&] {
      there = t_of_the_driver && own_state.standing == Standing::kInFunction;
    };
    uint64_t number = by_driver ? 0 : 1;
    {
      const Held held(lock_);
      callbacks_.remember(function_of(body));
      callbacks_.begin(number, CUDA_SUCCESS);
    }
    EXPECT_TRUE(ends(number));
    EXPECT_EQ(there, by_driver);
  }
}

TEST_F(HostCallbacksTest, ARecordedFunctionIsMarkedAsOne) {
  record();
  Standing within = Standing::kUnknown, behind = Standing::kUnknown;
  std::function<void()> body = [&] { within = own_state.standing; };
  HostCallback* const callback = launch(body);
  std::jthread([&] {
    run_host_callback(callback);
    behind = own_state.standing;
  }).join();
  EXPECT_EQ(within, Standing::kInFunction);
  EXPECT_EQ(behind, Standing::kMet);
}

// There is one worker, and it has not ended the first when the second begins.
TEST_F(HostCallbacksTest, WhatBeginsWhileAllWorkersAreBusyIsRunAfterwards) {
  std::atomic<int> ran{0};
  std::function<void()> body = [&] { ++ran; };
  {
    const Held held(lock_);
    for (int i = 0; i < 3; ++i) callbacks_.remember(function_of(body));
    for (uint64_t i = 0; i < 3; ++i) callbacks_.begin(i, CUDA_SUCCESS);
  }
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(ends(i));
  EXPECT_EQ(ran, 3);
}

TEST_F(HostCallbacksTest, ACallbackIsToldTheRecordedStatusOfItsStream) {
  CUresult told = CUDA_SUCCESS;
  CUstream stream = nullptr;
  struct Received {
    CUresult& status;
    CUstream& stream;
  } user{told, stream};
  const auto own = reinterpret_cast<CUstream>(&user);
  HostFunction function;
  function.callback = [](CUstream given, CUresult status, void* to) {
    static_cast<Received*>(to)->status = status;
    static_cast<Received*>(to)->stream = given;
  };
  function.stream = own;
  function.user = &user;
  {
    const Held held(lock_);
    callbacks_.remember(function);
    callbacks_.begin(0, CUDA_ERROR_LAUNCH_FAILED);
  }
  EXPECT_TRUE(ends(0));
  EXPECT_EQ(told, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(stream, own);
}

TEST_F(HostCallbacksTest, EveryStepOfAReplayIsAMove) {
  std::function<void()> body = [] {};
  std::vector<uint64_t> moves{callbacks_.moves()};
  {
    const Held held(lock_);
    callbacks_.remember(function_of(body));
    moves.push_back(callbacks_.moves());
    callbacks_.begin(0, CUDA_SUCCESS);
    moves.push_back(callbacks_.moves());
  }
  ASSERT_TRUE(ends(0));
  const Held held(lock_);
  // That a worker has taken it, that it has ended, and that this is known.
  EXPECT_EQ(callbacks_.moves(), moves[2] + 3);
  EXPECT_EQ(moves[2], moves[1] + 1);
  EXPECT_EQ(moves[1], moves[0] + 1);
}

}  // namespace

}  // namespace gpusnap
