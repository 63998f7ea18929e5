#include "tiers/backend/backend.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "backend_support.h"
#include "tiers/io/io_options.h"

namespace gpusnap::test {
namespace {

TEST_F(BackendTest, KeepsCheckpoints) {
  start();
  Saver saver(*memory_, "/store", job_);
  for (uint64_t epoch = 1; epoch <= 5; ++epoch) {
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    expect_back(epoch);
  }
  EXPECT_EQ(backend_->counters().committed, 5U);
  saver.go();
  drain();
  expect_no_leftovers();
}

TEST_F(BackendTest, CommitsInTheOrderOfEpochs) {
  start();
  Saver saver(*memory_, "/store", job_);
  const uint32_t first = saver.fill(1);
  const uint32_t second = saver.save(2, 1);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(saver.client().outcome(second));
  saver.client().seal(first);
  EXPECT_TRUE(saver.wait(first).ok());
  const Status saved = saver.wait(second);
  EXPECT_TRUE(saved.ok()) << saved.message();
  expect_back(2);
  saver.go();
  drain();
}

TEST_F(BackendTest, TwoNeverGoToOnePlace) {
  start();
  Saver saver(*memory_, "/store", job_);
  const uint32_t first = saver.fill(1);
  while (backend_->counters().checkpoints == 0) std::this_thread::sleep_for(1ms);
  const uint32_t second = saver.save(1);
  EXPECT_EQ(saver.wait(second).code(), Code::kBusy);
  saver.client().seal(first);
  EXPECT_TRUE(saver.wait(first).ok());
  expect_back(1);
  saver.go();
  drain();
  expect_no_leftovers();
}

TEST_F(BackendTest, WhatWasSealedOutlivesItsClient) {
  start();
  {
    Saver saver(*memory_, "/store", job_);
    saver.open_journal();
    saver.save(1);
    saver.save(2);
    saver.fill(3);
  }
  drain();
  expect_back(1);
  expect_back(2);
  EXPECT_FALSE(files_.exists("/store/demo/e3/r0.manifest"));
  expect_no_leftovers();
  EXPECT_EQ(std::ranges::count_if(files_.paths(),
                                  [](const std::string& p) { return p.find("/e3/") != p.npos; }),
            0);
}

TEST_F(BackendTest, JournalsAreDurableBeforeManifests) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.open_journal();
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    EXPECT_GE(saver.client().durable(saver.journal()), saver.journal_slots());
    expect_back(epoch);
  }
  saver.client().seal(saver.journal());
  EXPECT_TRUE(saver.wait(saver.journal()).ok());
  saver.go();
  drain();
  files_.crash(Survival::kNothing);
  expect_back(3);
}

TEST_F(BackendTest, AbandonedCheckpointsLeaveNothing) {
  start();
  Saver saver(*memory_, "/store", job_);
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) saver.client().abandon(saver.fill(epoch));
  EXPECT_TRUE(saver.wait(saver.save(4)).ok());
  saver.go();
  drain();
  expect_back(4);
  for (const std::string& path : files_.paths()) {
    EXPECT_NE(path.find("/e4/"), std::string::npos) << path;
  }
}

// No more threads than so many at the same time.
class FewThreads {
 public:
  explicit FewThreads(int most) : most_(most) {}
  Spawn spawn() {
    return [this](std::function<void()> body) -> Join {
      if (++running_ > most_) {
        --running_;
        return {};
      }
      auto thread = std::make_shared<std::thread>(std::move(body));
      return [this, thread] {
        thread->join();
        --running_;
      };
    };
  }

 private:
  const int most_;
  std::atomic<int> running_{0};
};

class ThreadsTest : public BackendTest, public ::testing::WithParamInterface<bool> {};

// With a local tier and without.
TEST_P(ThreadsTest, AsManyAsItNamesAreEnough) {
  constexpr uint64_t kGivenUp = 300;
  Backend::Options options;
  if (GetParam()) {
    options.ssd = {{"/ssd", 1 << 20}};
    options.policy = PlacementPolicy::kSsdOnly;
  }
  options.forerunners = 2;
  FewThreads threads(Backend::kThreads + static_cast<int>(options.workers + options.forerunners) +
                     kIoThreads);
  options.spawn = threads.spawn();
  Saver saver(*memory_, "/store", job_);
  const auto give_up = [&](uint64_t epoch) {
    const auto stream = saver.client().open(StreamKind::kCheckpoint, encode(saver.text(epoch)));
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    saver.client().abandon(stream.value());
  };
  // Before the backend's first look, and as fast as it goes.
  for (uint64_t epoch = 1; epoch <= kGivenUp; ++epoch) give_up(epoch);
  start(std::move(options));
  while (backend_->counters().failed < kGivenUp) std::this_thread::sleep_for(1ms);
  for (uint64_t epoch = 1; epoch <= kGivenUp; ++epoch) give_up(epoch);
  const Status saved = saver.wait(saver.save(kGivenUp + 1));
  EXPECT_TRUE(saved.ok()) << saved.message();
  saver.go();
  drain();
  EXPECT_EQ(warnings_with("thread"), 0U);
  expect_back(kGivenUp + 1);
}

INSTANTIATE_TEST_SUITE_P(Tiers, ThreadsTest, ::testing::Bool());

TEST_F(BackendTest, WithTooFewThreadsACheckpointFails) {
  for (int most = 0; most < 2; ++most) {
    FewThreads threads(most);
    Backend::Options options;
    options.spawn = threads.spawn();
    start(std::move(options));
    Saver saver(*memory_, "/store", job_);
    const Status saved = saver.wait(saver.save(1));
    EXPECT_NE(saved.message().find("cannot start the checkpoint thread"), std::string::npos)
        << saved.message();
    saver.go();
    drain();
  }
}

TEST_F(BackendTest, PrunesWhatIsNotKept) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.keep = 2;
  saver.open_journal();
  for (uint64_t epoch = 1; epoch <= 4; ++epoch) EXPECT_TRUE(saver.wait(saver.save(epoch)).ok());
  EXPECT_FALSE(files_.exists("/store/demo/e2/r0.manifest"));
  expect_back(3);
  expect_back(4);
  saver.go();
  drain();
}

TEST_F(BackendTest, MergesLongChains) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.chain = 2;
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  EXPECT_TRUE(saver.wait(saver.save(2, 1)).ok());
  const auto store = Store::open(files_, "/store", false);
  const auto chain = [&] { return store.value()->find(job_.name + "@2")->chain; };
  for (int i = 0; i < 60'000 && chain() != 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(chain(), 0U);
  expect_back(2);
  saver.go();
  drain();
}

TEST_F(BackendTest, LetsCheckpointsPassBeforeItMerges) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.chain = 2;
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  const uint32_t second = saver.fill(2, 1);
  const uint32_t third = saver.fill(3, 2);
  saver.client().seal(second);
  EXPECT_TRUE(saver.wait(second).ok());
  const auto store = Store::open(files_, "/store", false);
  const auto chain = [&](const char* id) { return store.value()->find(job_.name + id)->chain; };
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(chain("@2"), 1U) << "merged while another one was on its way";
  saver.client().seal(third);
  EXPECT_TRUE(saver.wait(third).ok());
  for (int i = 0; i < 60'000 && chain("@3") != 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(chain("@3"), 0U);
  expect_back(2);
  expect_back(3);
  saver.go();
  drain();
}

TEST_F(BackendTest, RefusesWhatMakesNoSense) {
  start();
  Saver saver(*memory_, "/store", job_);
  const auto open = [&](StreamKind kind, const std::string& text) {
    const uint32_t stream = saver.client().open(kind, text).value();
    const auto slot = saver.client().claim(60s);
    const Piece piece{0, 0, kSlot};
    saver.client().hand_over(stream, slot.value(), kSlot, {&piece, 1});
    saver.client().seal(stream);
    return saver.wait(stream);
  };
  EXPECT_EQ(open(StreamKind::kCheckpoint, "nonsense").code(), Code::kInvalid);
  EXPECT_EQ(open(StreamKind::kJournal, encode(saver.text(1))).code(), Code::kInvalid);
  // No manifest; pieces beyond the bytes.
  EXPECT_FALSE(open(StreamKind::kCheckpoint, encode(saver.text(1))).ok());
  const uint32_t stream =
      saver.client().open(StreamKind::kCheckpoint, encode(saver.text(2))).value();
  const auto slot = saver.client().claim(60s);
  const Piece piece{0, 0, 2 * kSlot};
  saver.client().hand_over(stream, slot.value(), kSlot, {&piece, 1});
  Manifest other = manifest_of(job_, 3);
  saver.hand_over_manifest(stream, other, {});
  saver.client().seal(stream);
  EXPECT_FALSE(saver.wait(stream).ok());
  EXPECT_TRUE(saver.wait(saver.save(5)).ok());
  saver.go();
  drain();
  expect_back(5);
  expect_no_leftovers();
}

// A failure on the backend's own thread that must not happen: the process goes on, and clients are
// told.
TEST_F(BackendTest, ALoopThatFailsLeavesTheAreaUnserved) {
  Backend::Options options;
  options.warn = [](const std::string&) { throw std::bad_alloc(); };
  backend_ = std::move(Backend::make(files_, *memory_, std::move(options)).value());
  thread_ = std::thread([this] { backend_->run(); });
  Saver saver(*memory_, "/store", job_);
  EXPECT_TRUE(memory_->is_served());
  (void)saver.client().open(StreamKind::kCheckpoint, "nonsense").value();
  thread_.join();
  backend_.reset();
  EXPECT_FALSE(memory_->is_served());
  // Another backend takes what is in the area.
  auto& header = memory_->header();
  header.server.store(static_cast<uint32_t>(::getpid()));
  start();
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  saver.go();
  drain();
  expect_back(1);
}

// The file system fails at each of its operations in turn.
TEST_F(BackendTest, EveryFailureIsTold) {
  job_.ranges = {20000, 100};
  size_t operations = 1;
  for (size_t at = 0; at < operations; ++at) {
    for (const bool takes_effect : {false, true}) {
      FaultFileSystem::Fault fault;
      fault.operation = at;
      fault.failure = device_failure(EIO);
      fault.takes_effect = takes_effect;
      files_.inject(fault);
      start();
      Saver saver(*memory_, "/store", job_);
      saver.open_journal();
      const uint64_t epoch = 2 * at + (takes_effect ? 2 : 1);
      const Status saved = saver.wait(saver.save(epoch));
      operations = std::max(operations, files_.operations());
      files_.heal();
      if (saved.ok()) expect_back(epoch);
      saver.go();
      drain();
      files_.erase("/store/demo/" + journal_name(job_));
    }
  }
  EXPECT_GT(operations, 10U);
}

// One that ends as soon as it is told to, and another one that goes on: at any moment.
TEST_F(BackendTest, AnotherOneTakesOver) {
  for (int round = 0; round < 60; ++round) {
    start();
    Saver saver(*memory_, "/store", job_);
    saver.open_journal();
    const uint64_t epoch = 2 * static_cast<uint64_t>(round) + 1;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
      stop();
      start();
    });
    const uint32_t first = saver.save(epoch);
    const uint32_t second = saver.save(epoch + 1);
    stopper.join();
    const Status saved = saver.wait(first);
    EXPECT_TRUE(saved.ok()) << saved.message();
    EXPECT_TRUE(saver.wait(second).ok());
    expect_back(epoch);
    expect_back(epoch + 1);
    saver.go();
    drain();
    expect_no_leftovers();
    files_.erase("/store/demo/" + journal_name(job_));
  }
}

class SmallPool : public BackendTest {
 protected:
  SmallPool() : BackendTest(2) {}
};

TEST_F(SmallPool, TwoSlotsAreEnough) {
  start();
  job_.ranks = 2;
  Saver saver(*memory_, "/store", job_);
  Job other = job_;
  other.rank = 1;
  Saver rank(*memory_, "/store", other);
  std::thread thread([&] {
    for (uint64_t epoch = 1; epoch <= 3; ++epoch) EXPECT_TRUE(rank.wait(rank.save(epoch)).ok());
  });
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) EXPECT_TRUE(saver.wait(saver.save(epoch)).ok());
  thread.join();
  saver.go();
  rank.go();
  drain();
}

}  // namespace
}  // namespace gpusnap::test
