// SPDX-License-Identifier: Apache-2.0
// Which threads may be inside a call while one of them makes a cut: the rules, over every course of
// a few threads, and the class with real ones.
#include "interpose/record/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/becomes.h"
#include "tiers/unlocked.h"

namespace gpusnap {
namespace {

using Closing = Admission::Closing;

// ---- the rules, over all courses ----

enum class Place : uint8_t { kHost, kWaits, kInside, kCloses, kCuts };

// Threads of the program, and the rules that they go by. A course is a sequence of steps; each step
// is one that a thread may take.
struct Course {
  static constexpr size_t kThreads = 3;
  std::array<Place, kThreads> threads{};
  AdmissionRules rules;
  bool recording = true;

  std::tuple<std::array<Place, kThreads>, bool, bool, int> state() const {
    return {threads, recording, rules.is_closed(), rules.others()};
  }
  size_t count(Place place) const {
    return static_cast<size_t>(std::ranges::count(threads, place));
  }
};

// The steps of one thread: what becomes of the course, or nothing where the thread has no such
// step.
enum class Act : uint8_t { kCome, kEnter, kLeave, kClose, kCut, kGiveUp, kOpen, kEndRecording };
constexpr Act kActs[] = {Act::kCome, Act::kEnter,  Act::kLeave, Act::kClose,
                         Act::kCut,  Act::kGiveUp, Act::kOpen,  Act::kEndRecording};

bool act(Course& course, size_t thread, Act what) {
  Place& place = course.threads[thread];
  AdmissionRules& rules = course.rules;
  switch (what) {
    case Act::kCome:
      if (place != Place::kHost || !course.recording) return false;
      place = Place::kWaits;
      return true;
    case Act::kEnter:
      if (place != Place::kWaits || rules.must_wait()) return false;
      if (course.recording) rules.enter();
      place = course.recording ? Place::kInside : Place::kHost;
      return true;
    case Act::kLeave:
      if (place != Place::kInside) return false;
      rules.leave();
      place = Place::kHost;
      return true;
    case Act::kClose:
      if (place != Place::kInside || !rules.close()) return false;
      place = Place::kCloses;
      return true;
    case Act::kCut:
      if (place != Place::kCloses || rules.others() > 0) return false;
      place = Place::kCuts;
      return true;
    case Act::kGiveUp:
    case Act::kOpen:
      if (place != (what == Act::kOpen ? Place::kCuts : Place::kCloses)) return false;
      rules.open();
      place = Place::kInside;
      return true;
    case Act::kEndRecording:
      if (place != Place::kInside || !course.recording) return false;
      course.recording = false;
      rules.set_recording(false);
      return true;
  }
  return false;
}

void expect_sound(const Course& course) {
  const size_t closing = course.count(Place::kCloses) + course.count(Place::kCuts);
  const size_t inside = course.count(Place::kInside) + closing;
  EXPECT_LE(closing, 1U);
  EXPECT_EQ(course.rules.is_closed(), closing == 1);
  EXPECT_EQ(course.rules.others(), static_cast<int>(inside) - 1);
  EXPECT_EQ(course.rules.is_open(), course.recording && closing == 0);
  // The one that cuts is alone.
  EXPECT_TRUE(course.count(Place::kCuts) == 0 || inside == 1U);
  // Nobody waits but for one that closes.
  EXPECT_EQ(course.rules.must_wait(), closing == 1 && course.recording);
}

TEST(AdmissionRules, HoldOverEveryCourseOfThreeThreads) {
  Course first;
  first.rules.set_recording(true);
  std::set<decltype(first.state())> seen{first.state()};
  std::vector<Course> open{first};
  size_t cuts = 0, waits = 0;
  while (!open.empty() && !HasFailure()) {
    const Course course = open.back();
    open.pop_back();
    expect_sound(course);
    cuts += course.count(Place::kCuts);
    waits += course.rules.must_wait() && course.count(Place::kWaits) != 0 ? 1U : 0U;
    bool can_move = false;
    for (size_t thread = 0; thread < Course::kThreads; ++thread) {
      for (const Act what : kActs) {
        Course next = course;
        if (!act(next, thread, what)) continue;
        // One that closes may always give up: only with the others' steps counts that it moves.
        can_move = can_move || what != Act::kGiveUp;
        if (seen.insert(next.state()).second) open.push_back(next);
      }
    }
    EXPECT_TRUE(can_move || !course.recording) << "a course from which nobody moves";
  }
  EXPECT_GT(seen.size(), 50U);
  EXPECT_GT(cuts, 0U);
  EXPECT_GT(waits, 0U);
}

// ---- threads ----

class AdmissionTest : public ::testing::Test {
 protected:
  static constexpr auto kLong = std::chrono::hours(1);
  AdmissionTest() {
    lock_.begin();
    own_state = {};
    own_state.standing = Standing::kMet;
    admission_.set_mode(Mode::kRecord);
  }
  ~AdmissionTest() override { own_state = {}; }

  // A call of the calling thread, which is in the driver for `during`.
  template <class During>
  void make_call(During&& during) {
    const ForeignLock held(lock_);
    admission_.await_entry();
    admission_.enter();
    {
      const Unlocked unlocked(lock_);
      during();
    }
    admission_.leave_closed();
  }
  CallLock lock_;
  Admission admission_{lock_};
};

TEST_F(AdmissionTest, TheOnlyThreadClosesAtOnce) {
  const std::lock_guard held(lock_);
  admission_.enter();
  EXPECT_EQ(admission_.close(CallLock::Clock::now() + kLong), Closing::kClosed);
  EXPECT_TRUE(admission_.is_closed());
  EXPECT_FALSE(admission_.is_open());
  EXPECT_EQ(admission_.close(CallLock::Clock::now() + kLong), Closing::kElsewhere);
  admission_.open();
  EXPECT_TRUE(admission_.is_open());
  admission_.leave();
}

TEST_F(AdmissionTest, ClosingWaitsForCallsAndHoldsThoseThatCome) {
  std::latch inside(1), may_leave(1);
  std::atomic<bool> left = false, late = false;
  std::jthread one([&] {
    make_call([&] {
      inside.count_down();
      may_leave.wait();
      left = true;
    });
  });
  inside.wait();
  std::jthread leaves, comes;
  {
    const std::lock_guard held(lock_);
    admission_.enter();
    // It leaves only after admission has been closed: a call that comes finds it so.
    leaves = std::jthread([&] {
      EXPECT_TRUE(becomes([&] {
        const ForeignLock look(lock_);
        return admission_.is_closed();
      }));
      comes = std::jthread([&] { make_call([&] { late = true; }); });
      may_leave.count_down();
    });
    EXPECT_EQ(admission_.close(CallLock::Clock::now() + kLong), Closing::kClosed);
    EXPECT_TRUE(left);
    EXPECT_FALSE(late);
    EXPECT_EQ(admission_.others(), 0);
    admission_.open();
    admission_.leave();
  }
  leaves.join();
  comes.join();
  EXPECT_TRUE(late);
  EXPECT_EQ(admission_.others(), -1);
}

TEST_F(AdmissionTest, ClosingGivesUpAtItsDeadlineAndIsOpenAgain) {
  std::latch inside(1), may_leave(1);
  std::jthread one([&] {
    make_call([&] {
      inside.count_down();
      may_leave.wait();
    });
  });
  inside.wait();
  {
    const std::lock_guard held(lock_);
    admission_.enter();
    EXPECT_EQ(admission_.close(CallLock::Clock::now()), Closing::kNotLeft);
    EXPECT_EQ(admission_.others(), 1);
    EXPECT_TRUE(admission_.is_open());
    admission_.leave();
  }
  may_leave.count_down();
}

// The end of the recording is not notified: a cut's end is.
TEST_F(AdmissionTest, ThoseThatWaitGoOnWhenTheRecordingHasEnded) {
  std::atomic<bool> passed = false;
  std::jthread late;
  {
    const std::lock_guard held(lock_);
    admission_.enter();
    ASSERT_EQ(admission_.close(CallLock::Clock::now() + kLong), Closing::kClosed);
    late = std::jthread([&] {
      const ForeignLock entered(lock_);
      admission_.await_entry();
      passed = !admission_.is_recording();
    });
    admission_.set_mode(Mode::kOff);
    admission_.open();
    EXPECT_FALSE(admission_.is_open());
    admission_.leave();
  }
  late.join();
  EXPECT_TRUE(passed);
}

TEST_F(AdmissionTest, AThreadInsideDoesNotWaitForTheEndOfACut) {
  std::atomic<bool> outside = false;
  std::jthread other;
  {
    const std::lock_guard held(lock_);
    admission_.enter();
    ASSERT_EQ(admission_.close(CallLock::Clock::now() + kLong), Closing::kClosed);
    admission_.await_end_of_cut();  // its own
    other = std::jthread([&] {
      const ForeignLock entered(lock_);
      admission_.await_end_of_cut();
      outside = true;
    });
    EXPECT_FALSE(outside);
    admission_.open();
    admission_.leave();
  }
  other.join();
  EXPECT_TRUE(outside);
}

}  // namespace
}  // namespace gpusnap
