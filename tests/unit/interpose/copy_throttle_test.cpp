#include "interpose/snapshot/copy_throttle.h"

#include <gtest/gtest.h>

namespace gpusnap::yielding_test {
namespace {

// A device of which time is told by hand, and whose streams are never busy.
struct Fake {
  float now = 0;
  float recorded[2] = {};
  int events = 0;
  bool makes_events = true;
  bool ready = true;
} fake;

size_t number_of(CUevent event) {
  return reinterpret_cast<size_t>(event) - 1;
}

class CopyThrottleTest : public ::testing::Test {
 protected:
  CopyThrottleTest() {
    fake = {};
    driver_.cuEventCreate = [](CUevent* event, unsigned) {
      if (!fake.makes_events) return CUDA_ERROR_OUT_OF_MEMORY;
      *event = reinterpret_cast<CUevent>(static_cast<size_t>(++fake.events));
      return CUDA_SUCCESS;
    };
    driver_.cuEventRecord = [](CUevent event, CUstream) {
      fake.recorded[number_of(event)] = fake.now;
      return CUDA_SUCCESS;
    };
    driver_.cuEventQuery = [](CUevent) { return fake.ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; };
    driver_.cuEventElapsedTime = [](float* time, CUevent from, CUevent to) {
      *time = fake.recorded[number_of(to)] - fake.recorded[number_of(from)];
      return CUDA_SUCCESS;
    };
  }
  bool stands_back() { return copy_throttle_.stands_back(nullptr); }
  // Whether it does at several looks, some microseconds of the device's time apart.
  bool stands_back_for(int looks) {
    for (int i = 0; i < looks; ++i) {
      if (!stands_back()) return false;
      fake.now += 0.005f;
    }
    return true;
  }

  Driver driver_{};
  ProgramCopies copies_;
  Stopwatch watch_{driver_};
  CopyThrottle copy_throttle_{copies_, watch_};
};

TEST_F(CopyThrottleTest, GrowsWhereTheProgramCopiesNothing) {
  const uint64_t first = copy_throttle_.bytes();
  EXPECT_EQ(copy_throttle_.flights(), 1U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(stands_back());
    copy_throttle_.started();
  }
  EXPECT_GT(copy_throttle_.bytes(), first);
  EXPECT_GT(copy_throttle_.flights(), 1U);
}

TEST_F(CopyThrottleTest, StandsBackUntilTheCopyHasArrivedThenBeginsSmall) {
  const uint64_t first = copy_throttle_.bytes();
  for (int i = 0; i < 20; ++i) copy_throttle_.started();
  ProgramCopies::Ticket copy = copies_.enter();
  EXPECT_TRUE(stands_back_for(5));
  copy.reset();
  EXPECT_FALSE(stands_back());
  EXPECT_EQ(copy_throttle_.bytes(), first);
  EXPECT_EQ(copy_throttle_.flights(), 1U);
}

TEST_F(CopyThrottleTest, ACopyBetweenTwoLooksCountsToo) {
  const uint64_t first = copy_throttle_.bytes();
  for (int i = 0; i < 20; ++i) copy_throttle_.started();
  copies_.enter().reset();
  EXPECT_FALSE(stands_back());
  EXPECT_EQ(copy_throttle_.bytes(), first);
}

TEST_F(CopyThrottleTest, DoesNotStandBackForEver) {
  const uint64_t first = copy_throttle_.bytes();
  // One that stays behind a long kernel: nothing more is gained by waiting for it.
  ProgramCopies::Ticket copy = copies_.enter();
  EXPECT_FALSE(stands_back_for(40));
  EXPECT_GT(copy_throttle_.bytes(), first);
  copy_throttle_.started();
  EXPECT_FALSE(stands_back());
  EXPECT_EQ(copy_throttle_.flights(), 1U);
  // The next one is a reason again.
  ProgramCopies::Ticket next = copies_.enter();
  copy.reset();
  EXPECT_TRUE(stands_back_for(5));
  EXPECT_FALSE(stands_back_for(40));
}

TEST_F(CopyThrottleTest, WaitsForTheDeviceToTellTheTime) {
  ProgramCopies::Ticket copy = copies_.enter();
  fake.ready = false;
  EXPECT_TRUE(stands_back_for(100));
  fake.ready = true;
  EXPECT_FALSE(stands_back_for(100));
}

TEST_F(CopyThrottleTest, WithoutEventsItDoesNotWait) {
  fake.makes_events = false;
  ProgramCopies::Ticket copy = copies_.enter();
  EXPECT_TRUE(stands_back());
  EXPECT_FALSE(stands_back());
}

}  // namespace
}  // namespace gpusnap::yielding_test
