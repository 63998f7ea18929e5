// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tiers/backend/job_thread.h"

namespace gpusnap {
namespace {

using Next = PartProgress::Next;

PartProgress::Next next(PartProgress& progress) {
  PartProgress::Job job;
  return progress.wait_for_next(job);
}

// Takes the next job, which has to be there, and runs it.
void run_next(PartProgress& progress) {
  PartProgress::Job job;
  ASSERT_EQ(progress.wait_for_next(job), Next::kJob);
  EXPECT_TRUE(job().ok());
}

PartProgress::Job do_nothing() {
  return [] { return Status(); };
}

TEST(PartProgress, IsWholeWhenAllSlotsAreStored) {
  PartProgress progress;
  EXPECT_EQ(progress.expect(0), PartProgress::Expected::kNew);
  EXPECT_EQ(progress.expect(1), PartProgress::Expected::kNew);
  progress.add_stored(2, {});
  EXPECT_FALSE(progress.sealed());
  progress.seal(2);
  EXPECT_EQ(progress.sealed(), 2U);
  EXPECT_EQ(next(progress), Next::kWhole);
}

TEST(PartProgress, TellsSlotsApart) {
  PartProgress progress;
  progress.take_up({3}, {});
  EXPECT_EQ(progress.expect(3), PartProgress::Expected::kFound);
  EXPECT_EQ(progress.expect(4), PartProgress::Expected::kNew);
  EXPECT_EQ(progress.expect(4), PartProgress::Expected::kTwice);
}

TEST(PartProgress, SlotsThatNobodyBringsAreLost) {
  PartProgress progress;
  progress.take_up({0, 1}, {});
  (void)progress.expect(2);
  progress.seal(4);
  progress.add_job(do_nothing());  // which comes first
  run_next(progress);
  EXPECT_EQ(next(progress), Next::kLost);
}

TEST(PartProgress, ManifestsGoBeforeOtherJobs) {
  PartProgress progress;
  std::string done;
  const auto note = [&](char what) {
    return [&done, what] {
      done += what;
      return Status();
    };
  };
  progress.add_job(note('c'));
  progress.add_urgent_job(note('a'));
  progress.add_urgent_job(note('b'));
  progress.add_job(note('d'));
  for (int i = 0; i < 4; ++i) run_next(progress);
  EXPECT_EQ(done, "abcd");
}

TEST(PartProgress, IsHeldOnceAndWholeWhenItsChunksHaveMoved) {
  PartProgress progress;
  (void)progress.expect(0);
  progress.add_stored(1, {7});
  progress.add_job(do_nothing());
  progress.seal(1);
  EXPECT_EQ(next(progress), Next::kHold);  // before jobs
  run_next(progress);
  progress.copy_begun();
  progress.copy_ended([&] {
    progress.chunk_moved(7);
    return Status();
  });
  progress.wait_for_copies();
  run_next(progress);
  EXPECT_EQ(next(progress), Next::kWhole);
}

TEST(PartProgress, IsNotHeldByTiersThatFailed) {
  PartProgress progress;
  progress.take_up({0}, {7});
  progress.local_failed();
  progress.seal(1);
  progress.add_job(do_nothing());
  run_next(progress);
}

TEST(PartProgress, EndsForTheFirstReason) {
  PartProgress progress;
  progress.add_urgent_job(do_nothing());
  EXPECT_FALSE(progress.gave_up());
  progress.end({Code::kIo, "first"});
  progress.leave({Code::kBusy, "second"});
  EXPECT_TRUE(progress.gave_up());
  EXPECT_TRUE(progress.has_left());
  EXPECT_EQ(next(progress), Next::kEnded);
  EXPECT_EQ(progress.status().message(), "first");
}

TEST(PartProgress, WakesItsThread) {
  PartProgress progress;
  std::thread thread([&] { EXPECT_EQ(next(progress), Next::kWhole); });
  (void)progress.expect(0);
  progress.seal(1);
  progress.add_stored(1, {});
  thread.join();
}

JobThread::Actions silent() {
  return {[] { return false; }, [](const Status&) {}};
}

TEST(JobThread, DoesItsJobsInTheirOrder) {
  std::vector<int> done;
  JobThread thread({}, "jobs", silent());
  std::atomic<bool> last{false};
  for (int i = 0; i < 10; ++i) {
    JobThread::Job job = [&done, &last, i] {
      done.push_back(i);
      last = i == 9;
      return Status();
    };
    ASSERT_TRUE(thread.add(job));
  }
  while (!last) std::this_thread::yield();
  thread.end();
  thread.join();
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(JobThread, LeavesTheJobWhereNoThreadCanBeHad) {
  JobThread thread([](const std::function<void()>&) { return Join(); }, "jobs", silent());
  JobThread::Job job = do_nothing();
  EXPECT_FALSE(thread.add(job));
  EXPECT_TRUE(job != nullptr);
}

TEST(JobThread, DropsJobsOfAPartThatEnds) {
  std::atomic<bool> gave_up{false};
  std::atomic<int> failures{0};
  JobThread thread({}, "jobs",
                   {[&] { return gave_up.load(); },
                    [&](const Status&) {
                      ++failures;
                      gave_up = true;
                    }});
  std::atomic<int> done{0};
  for (int i = 0; i < 3; ++i) {
    JobThread::Job job = [&] {
      ++done;
      return Status(Code::kIo, "no");
    };
    ASSERT_TRUE(thread.add(job));
  }
  while (failures == 0) std::this_thread::yield();
  thread.end();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(failures, 1);
}

TEST(JobThread, BeginsNoJobAfterItsEnd) {
  std::atomic<bool> done{false};
  {
    JobThread thread({}, "jobs", silent());
    thread.end();
    JobThread::Job job = [&] {
      done = true;
      return Status();
    };
    EXPECT_TRUE(thread.add(job));
  }
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace gpusnap
