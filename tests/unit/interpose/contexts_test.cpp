// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/contexts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "interpose/model/value_waits.h"

namespace gpusnap {
namespace {

using std::chrono::seconds;

// A driver that has a current context and makes events, which are over when a test says so.
CUcontext current_context_of_test = nullptr;
uintptr_t events_made = 0;
std::set<CUevent> events_over;
bool events_refused = false, records_refused = false;

CUcontext context_of(uintptr_t number) {
  return reinterpret_cast<CUcontext>(number);
}
CUstream stream_of(uintptr_t number) {
  return reinterpret_cast<CUstream>(number);
}

class ContextsTest : public testing::Test {
 protected:
  ContextsTest() {
    current_context_of_test = nullptr;
    events_made = 0;
    events_over.clear();
    events_refused = records_refused = false;
    driver_.cuCtxGetCurrent = [](CUcontext* context) {
      *context = current_context_of_test;
      return CUDA_SUCCESS;
    };
    driver_.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    driver_.cuCtxPopCurrent_v2 = [](CUcontext*) { return CUDA_SUCCESS; };
    driver_.cuEventCreate = [](CUevent* event, unsigned) {
      if (events_refused) return CUDA_ERROR_OUT_OF_MEMORY;
      *event = reinterpret_cast<CUevent>(++events_made);
      return CUDA_SUCCESS;
    };
    driver_.cuEventRecord = [](CUevent, CUstream stream) {
      EXPECT_EQ(stream, CU_STREAM_LEGACY);
      return records_refused ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    };
    driver_.cuEventQuery = [](CUevent event) {
      return events_over.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    };
  }

  // Whether work_of() gives what a synchronisation has to wait for.
  bool has_work(CUcontext context) {
    const ProgramWork work = contexts_.work_of(context);
    if (work.legacy != nullptr) contexts_.give_mark(work.legacy);
    return work.legacy != nullptr;
  }
  // In a known context, which is current.
  void begin(uintptr_t context, CUdevice device) {
    current_context_of_test = context_of(context);
    EXPECT_TRUE(contexts_.add(context_of(context), device));
  }

  Driver driver_{};
  Contexts contexts_{driver_};
  ValueWaits waits_{driver_, contexts_};
};

TEST_F(ContextsTest, ASynchronisationWaitsForAllStreamsOfTheCurrentContext) {
  begin(1, 0);
  begin(2, 0);
  contexts_.add_stream(stream_of(7));
  const ProgramWork work = contexts_.work_of(nullptr);
  EXPECT_EQ(work.streams, std::vector{stream_of(7)});
  ASSERT_NE(work.legacy, nullptr);
  contexts_.give_mark(work.legacy);
  EXPECT_TRUE(has_work(context_of(2)));
  EXPECT_FALSE(has_work(context_of(1)));  // it is not the current one
  contexts_.begin_capture(stream_of(7));
  EXPECT_FALSE(has_work(nullptr));
  contexts_.end_capture(stream_of(7));
  EXPECT_TRUE(has_work(nullptr));
  current_context_of_test = context_of(3);
  EXPECT_FALSE(has_work(nullptr));  // it is not known
  EXPECT_EQ(events_made, 1U);
}

TEST_F(ContextsTest, WithoutAMarkThereIsNothingToWaitFor) {
  begin(1, 0);
  events_refused = true;
  EXPECT_FALSE(has_work(nullptr));
  events_refused = false;
  records_refused = true;
  EXPECT_FALSE(has_work(nullptr));
  records_refused = false;
  EXPECT_TRUE(has_work(nullptr));
  EXPECT_EQ(events_made, 1U);  // the one that was not recorded is used again
}

TEST_F(ContextsTest, NumbersFollowTheOrderAndAreNotUsedAgain) {
  begin(9, 0);
  begin(3, 1);
  EXPECT_FALSE(contexts_.add(context_of(9), 0));
  EXPECT_EQ(contexts_.number_of(context_of(9)), 0U);
  EXPECT_EQ(contexts_.number_of(context_of(3)), 1U);
  contexts_.forget(context_of(3));
  EXPECT_TRUE(contexts_.is_single());
  begin(3, 1);
  EXPECT_EQ(contexts_.number_of(context_of(3)), 2U);
  EXPECT_EQ(contexts_.with_number(2), context_of(3));
  EXPECT_EQ(contexts_.with_number(1), nullptr);
  const std::vector<KnownContext> all = contexts_.by_number();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].handle, context_of(9));
  EXPECT_EQ(all[1].handle, context_of(3));
}

// The address of a context says nothing about its age.
TEST_F(ContextsTest, TheFirstContextOfADeviceIsThatWithTheLeastNumber) {
  begin(9, 1);
  begin(3, 1);
  begin(5, 0);
  EXPECT_EQ(contexts_.on_device(1), context_of(9));
  current_context_of_test = context_of(3);
  EXPECT_EQ(contexts_.on_device(1), context_of(3));
  EXPECT_EQ(contexts_.on_device(2), nullptr);
}

TEST_F(ContextsTest, KeysTellKnownContextsApart) {
  begin(9, 0);
  begin(3, 0);
  EXPECT_EQ(contexts_.key_of(context_of(7)), 0U);
  EXPECT_NE(contexts_.key_of(context_of(9)), 0U);
  EXPECT_NE(contexts_.key_of(context_of(9)), contexts_.key_of(context_of(3)));
}

TEST_F(ContextsTest, StreamsBelongToTheContextInWhichTheyWereMade) {
  current_context_of_test = context_of(9);
  contexts_.add_stream(stream_of(1));  // of an unknown one: nothing is kept
  EXPECT_TRUE(contexts_.is_empty());
  begin(9, 0);
  contexts_.add_stream(stream_of(2));
  begin(3, 0);
  contexts_.add_stream(stream_of(4));
  EXPECT_EQ(contexts_.streams_of(context_of(9)), std::vector{stream_of(2)});
  contexts_.remove_stream(stream_of(2));
  EXPECT_EQ(contexts_.streams(), (std::map<CUcontext, std::vector<CUstream>>{
                                     {context_of(9), {}}, {context_of(3), {stream_of(4)}}}));
}

// Threads have default streams of their own under one handle.
TEST_F(ContextsTest, ACaptureIsOpenUntilItHasEndedAsOftenAsItBegan) {
  contexts_.begin_capture(stream_of(2));
  contexts_.begin_capture(stream_of(2));
  contexts_.end_capture(stream_of(3));
  contexts_.end_capture(stream_of(2));
  EXPECT_TRUE(contexts_.is_capturing());
  contexts_.end_capture(stream_of(2));
  EXPECT_FALSE(contexts_.is_capturing());
  contexts_.begin_capture(stream_of(2));
  contexts_.remove_stream(stream_of(2));
  EXPECT_FALSE(contexts_.is_capturing());
}

TEST_F(ContextsTest, MarksAreUsedAgainInTheirContext) {
  begin(9, 0);
  const CUevent mark = contexts_.take_mark();
  contexts_.give_mark(mark);
  begin(3, 0);
  EXPECT_NE(contexts_.take_mark(), mark);
  EXPECT_EQ(contexts_.take_mark(context_of(9)), mark);
  contexts_.give_mark(context_of(9), mark);
  contexts_.forget(context_of(9));
  EXPECT_NE(contexts_.take_mark(context_of(9)), mark);
  events_refused = true;
  EXPECT_EQ(contexts_.take_mark(context_of(9)), nullptr);
}

TEST_F(ContextsTest, ACutWaitsForStreamsThatWait) {
  begin(9, 0);
  const ValueWaits::Time begin_of_all{};
  EXPECT_FALSE(waits_.puts_off_cut(begin_of_all, seconds(30)));
  const CUevent mark = contexts_.take_mark();
  waits_.add(mark);
  EXPECT_TRUE(waits_.puts_off_cut(begin_of_all, seconds(30)));
  events_over.insert(mark);
  EXPECT_FALSE(waits_.puts_off_cut(begin_of_all, seconds(30)));
  EXPECT_EQ(contexts_.take_mark(), mark) << "it was not given back";
}

TEST_F(ContextsTest, ACutIsPutOffForAWhileAndThenTriedOnce) {
  begin(9, 0);
  waits_.add(contexts_.take_mark());
  const ValueWaits::Time first{seconds(100)};
  EXPECT_TRUE(waits_.puts_off_cut(first, seconds(30)));
  EXPECT_TRUE(waits_.puts_off_cut(first + seconds(29), seconds(30)));
  EXPECT_FALSE(waits_.puts_off_cut(first + seconds(30), seconds(30)));
  EXPECT_TRUE(waits_.puts_off_cut(first + seconds(31), seconds(30)));
}

TEST_F(ContextsTest, WaitsEndWithTheirContext) {
  begin(9, 0);
  waits_.add(contexts_.take_mark());
  waits_.forget_context(context_of(9));
  contexts_.forget(context_of(9));
  EXPECT_FALSE(waits_.puts_off_cut({}, seconds(30)));
}

TEST_F(ContextsTest, FewWaitsAreKept) {
  begin(9, 0);
  std::vector<CUevent> marks;
  for (size_t i = 0; i < ValueWaits::kMost; ++i) {
    marks.push_back(contexts_.take_mark());
    waits_.add(marks.back());
  }
  const CUevent beyond = contexts_.take_mark();
  waits_.add(beyond);
  EXPECT_EQ(contexts_.take_mark(), beyond) << "it was kept";
  // Waits that are over make room, as far as the first that is not.
  events_over.insert(marks[0]);
  waits_.add(beyond);
  EXPECT_EQ(contexts_.take_mark(), marks[0]);
  events_over.insert(marks.begin(), marks.end());
  EXPECT_TRUE(waits_.puts_off_cut({}, seconds(30))) << "of the last one is nothing known";
}

}  // namespace
}  // namespace gpusnap
