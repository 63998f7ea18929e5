#include "interpose/snapshot/stream_waits.h"

#include <gtest/gtest.h>

#include <map>

namespace gpusnap::stream_waits_test {
namespace {

// A device of which time is told by hand. Events are numbered from 1; one passes when it is told
// so.
struct Fake {
  size_t made = 0;
  size_t most = 100;  // that the driver gives
  size_t records = 100;
  std::map<size_t, float> passed;  // when
} fake;

size_t number_of(CUevent event) {
  return reinterpret_cast<size_t>(event);
}

class StreamWaitsTest : public ::testing::Test {
 protected:
  StreamWaitsTest() {
    fake = {};
    driver_.cuEventCreate = [](CUevent* event, unsigned flags) {
      EXPECT_EQ(flags, CU_EVENT_DEFAULT);  // the others have no time
      if (fake.made == fake.most) return CUDA_ERROR_OUT_OF_MEMORY;
      *event = reinterpret_cast<CUevent>(++fake.made);
      return CUDA_SUCCESS;
    };
    driver_.cuEventRecord = [](CUevent event, CUstream) {
      if (fake.records == 0) return CUDA_ERROR_INVALID_HANDLE;
      --fake.records;
      fake.passed.erase(number_of(event));
      return CUDA_SUCCESS;
    };
    driver_.cuEventQuery = [](CUevent event) {
      return fake.passed.contains(number_of(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    };
    driver_.cuEventElapsedTime = [](float* time, CUevent from, CUevent to) {
      *time = fake.passed.at(number_of(to)) - fake.passed.at(number_of(from));
      return CUDA_SUCCESS;
    };
  }
  // Enqueues a wait; the numbers of its events are 2 * i + 1 and 2 * i + 2 while all are new.
  void wait() { waits_.end(waits_.begin(nullptr), nullptr); }
  static void pass(size_t event, float milliseconds) { fake.passed[event] = milliseconds; }

  Driver driver_{};
  StreamWaits waits_{driver_};
};

TEST_F(StreamWaitsTest, AddsUpTheTimeOfAllWaits) {
  wait();
  wait();
  pass(1, 1.0F);
  pass(2, 1.5F);
  pass(3, 2.0F);
  pass(4, 4.0F);
  EXPECT_EQ(waits_.finish(), 2'500'000U);
  EXPECT_EQ(waits_.finish(), 0U);  // the next snapshot
}

TEST_F(StreamWaitsTest, UsesTheEventsOfWaitsThatAreOverAgain) {
  for (size_t i = 0; i < 10; ++i) {
    wait();
    // The event that was given back last is taken first.
    pass(1 + i % 2, 1.0F);
    pass(2 - i % 2, 2.0F);
    waits_.collect();
  }
  EXPECT_EQ(fake.made, 2U);
  EXPECT_EQ(waits_.finish(), 10'000'000U);
}

TEST_F(StreamWaitsTest, CollectsNoWaitThatIsNotOver) {
  wait();
  pass(1, 1.0F);
  waits_.collect();
  wait();
  EXPECT_EQ(fake.made, 4U);
  for (size_t event = 2; event <= 4; ++event) pass(event, static_cast<float>(event));
  EXPECT_EQ(waits_.finish(), 2'000'000U);
}

TEST_F(StreamWaitsTest, AStreamThatHasNotComeToItsWaitAtTheEndDoesNotWait) {
  wait();
  EXPECT_EQ(waits_.finish(), 0U);
  // Its events are still in the stream: others are used meanwhile.
  wait();
  EXPECT_EQ(fake.made, 4U);
  pass(3, 1.0F);
  pass(4, 2.0F);
  EXPECT_EQ(waits_.finish(), 1'000'000U);
  pass(1, 5.0F);
  pass(2, 9.0F);
  EXPECT_EQ(waits_.finish(), 0U);
  wait();
  wait();
  EXPECT_EQ(fake.made, 4U);
}

TEST_F(StreamWaitsTest, GoesWithoutEventsThatTheDriverDoesNotGive) {
  fake.most = 1;
  wait();  // begins and does not end
  wait();  // does not begin
  pass(1, 1.0F);
  EXPECT_EQ(waits_.finish(), 0U);
  EXPECT_EQ(fake.made, 1U);
}

TEST_F(StreamWaitsTest, GoesWithoutEventsThatAreNotRecorded) {
  fake.records = 1;
  wait();
  EXPECT_EQ(waits_.begin(nullptr), nullptr);
  pass(1, 1.0F);
  EXPECT_EQ(waits_.finish(), 0U);
  fake.records = 2;
  wait();
  EXPECT_EQ(fake.made, 2U);
}

}  // namespace
}  // namespace gpusnap::stream_waits_test
