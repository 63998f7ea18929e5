// Streams run on their own; only what CUDA orders is ordered.

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

class StreamTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&a_, CU_STREAM_DEFAULT));
    ASSERT_OK(cuStreamCreate(&b_, CU_STREAM_DEFAULT));
    ASSERT_OK(cuStreamCreate(&free_, CU_STREAM_NON_BLOCKING));
    memory_ = allocate(4);
    ASSERT_OK(cuMemsetD32_v2(memory_, 1, 1));
    ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&seen_), 4, 0));
    ASSERT_OK(cuCtxSynchronize());
    *seen_ = 0;
  }
  // The value of memory_ that a copy in `stream` sees while `writer` holds a write of 2 back.
  uint32_t seen_while_held(CUstream writer, CUstream stream) {
    Gate gate;
    gate.close(writer);
    EXPECT_OK(cuMemsetD32Async(memory_, 2, 1, writer));
    EXPECT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_, 4, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    uint32_t seen = *seen_;
    gate.open();
    EXPECT_OK(cuCtxSynchronize());
    return seen;
  }

  CUstream a_ = nullptr;
  CUstream b_ = nullptr;
  CUstream free_ = nullptr;
  CUdeviceptr memory_ = 0;
  uint32_t* seen_ = nullptr;
};

TEST_F(StreamTest, WorkIsQueuedNotDone) {
  Gate gate;
  gate.close(a_);
  EXPECT_OK(cuMemsetD32Async(memory_, 2, 1, a_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(a_));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_OK(cuStreamQuery(a_));
  EXPECT_EQ(2u, word(memory_));
}

TEST_F(StreamTest, AForgottenDependencyShows) {
  EXPECT_EQ(1u, seen_while_held(a_, b_));
  EXPECT_EQ(2u, word(memory_));
}

TEST_F(StreamTest, ANonBlockingStreamPassesTheDefaultStream) {
  EXPECT_EQ(1u, seen_while_held(nullptr, free_));
}

TEST_F(StreamTest, TheDefaultStreamPassesANonBlockingStream) {
  EXPECT_EQ(1u, seen_while_held(free_, nullptr));
}

TEST_F(StreamTest, AnEventOrdersStreams) {
  Gate gate;
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_OK(cuEventQuery(event));
  gate.close(a_);
  EXPECT_OK(cuMemsetD32Async(memory_, 2, 1, a_));
  EXPECT_OK(cuEventRecord(event, a_));
  EXPECT_OK(cuStreamWaitEvent(free_, event, 0));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_, 4, free_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(free_));
  gate.open();
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuStreamSynchronize(free_));
  EXPECT_EQ(2u, *seen_);
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
}

TEST_F(StreamTest, TheDefaultStreamWaitsForBlockingStreams) {
  Gate gate;
  gate.close(a_);
  EXPECT_OK(cuMemsetD32Async(memory_, 2, 1, a_));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_, 4, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_EQ(2u, *seen_);
}

TEST_F(StreamTest, BlockingStreamsWaitForTheDefaultStream) {
  Gate gate;
  gate.close(nullptr);
  EXPECT_OK(cuMemsetD32Async(memory_, 2, 1, CU_STREAM_LEGACY));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_, 4, b_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(b_));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(b_));
  EXPECT_EQ(2u, *seen_);
}

TEST_F(StreamTest, TheThreadsOwnDefaultStreamIsAnother) {
  // It is blocking, so that it waits for the legacy one; but two threads' own do not wait for each
  // other.
  Gate gate;
  gate.close(CU_STREAM_PER_THREAD);
  EXPECT_OK(cuMemsetD32Async_ptsz(memory_, 2, 1, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(nullptr));
  std::thread([&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuStreamQuery_ptsz(nullptr));
    EXPECT_OK(cuMemcpyDtoHAsync_v2_ptsz(seen_, memory_, 4, nullptr));
    EXPECT_OK(cuStreamSynchronize_ptsz(nullptr));
    EXPECT_EQ(1u, *seen_);
  }).join();
  EXPECT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_, 4, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_EQ(2u, *seen_);
}

TEST_F(StreamTest, SynchronousCopiesOfTheThreadsOwnStreamDoNotWaitForTheDefaultStreamsOfOthers) {
  Gate gate;
  std::thread([&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    gate.close(CU_STREAM_PER_THREAD);
  }).join();
  uint32_t value = 0;
  EXPECT_OK(cuMemcpyDtoH_v2_ptds(&value, memory_, 4));
  EXPECT_EQ(1u, value);
  gate.open();
}

TEST_F(StreamTest, CopiesFromPageableMemoryTakeItAsItIs) {
  Gate gate;
  uint32_t value = 7;
  gate.close(a_);
  EXPECT_OK(cuMemcpyHtoDAsync_v2(memory_, &value, 4, a_));
  value = 8;
  gate.open();
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(7u, word(memory_));
}

TEST_F(StreamTest, CopiesFromPinnedMemoryReadItWhenTheyRun) {
  Gate gate;
  *seen_ = 7;
  gate.close(a_);
  EXPECT_OK(cuMemcpyHtoDAsync_v2(memory_, seen_, 4, a_));
  *seen_ = 8;
  gate.open();
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(8u, word(memory_));
}

TEST_F(StreamTest, CopiesToPageableMemoryAreDoneWhenTheyReturn) {
  uint32_t value = 0;
  EXPECT_OK(cuMemsetD32Async(memory_, 9, 1, a_));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(&value, memory_, 4, a_));
  EXPECT_EQ(9u, value);
}

TEST_F(StreamTest, CopiesWithinTheDeviceDoNotWait) {
  Gate gate;
  CUdeviceptr other = allocate(4);
  gate.close(nullptr);
  EXPECT_OK(cuMemcpyDtoD_v2(other, memory_, 4));
  EXPECT_OK(cuMemsetD32_v2(memory_, 3, 1));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  gate.open();
  EXPECT_EQ(1u, word(other));
  EXPECT_EQ(3u, word(memory_));
}

TEST_F(StreamTest, ADestroyedStreamDoesWhatItHas) {
  Gate gate;
  gate.close(a_);
  EXPECT_OK(cuMemsetD32Async(memory_, 5, 1, a_));
  EXPECT_OK(cuStreamDestroy_v2(a_));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(a_));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(a_));
  gate.open();
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(5u, word(memory_));
}

TEST_F(StreamTest, FreeWaitsForTheDevice) {
  std::atomic<bool> done = false;
  ASSERT_OK(cuLaunchHostFunc(
      a_,
      [](void* flag) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        *static_cast<std::atomic<bool>*>(flag) = true;
      },
      &done));
  EXPECT_OK(cuMemFree_v2(memory_));
  EXPECT_TRUE(done);
}

struct Called {
  CUstream stream = nullptr;
  CUresult status = CUDA_ERROR_UNKNOWN;
  CUresult inner = CUDA_SUCCESS;
};

TEST_F(StreamTest, HostFunctionsRunInOrderAndMayNotCallTheDriver) {
  Called called;
  ASSERT_OK(cuStreamAddCallback(
      a_,
      [](CUstream stream, CUresult status, void* user) {
        int count = 0;
        *static_cast<Called*>(user) = {stream, status, cuDeviceGetCount(&count)};
      },
      &called, 0));
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(a_, called.stream);
  EXPECT_CU(CUDA_SUCCESS, called.status);
  EXPECT_CU(CUDA_ERROR_NOT_PERMITTED, called.inner);
}

TEST_F(StreamTest, EventsTellTime) {
  CUevent from = nullptr;
  CUevent to = nullptr;
  CUevent untimed = nullptr;
  float milliseconds = -1;
  ASSERT_OK(cuEventCreate(&from, 0));
  ASSERT_OK(cuEventCreate(&to, 0));
  ASSERT_OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, from, to));
  EXPECT_OK(cuEventRecord(from, a_));
  Gate gate;
  gate.close(a_);
  EXPECT_OK(cuEventRecordWithFlags(to, a_, 0));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, from, to));
  gate.open();
  EXPECT_OK(cuEventSynchronize(to));
  EXPECT_OK(cuEventElapsedTime_v2(&milliseconds, from, to));
  EXPECT_GE(milliseconds, 0.0F);
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, untimed, to));
}

TEST_F(StreamTest, TellsAboutItself) {
  CUstream stream = nullptr;
  unsigned flags = 0;
  int priority = 0;
  CUcontext context = nullptr;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  ASSERT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
  EXPECT_OK(cuStreamGetFlags(stream, &flags));
  EXPECT_EQ(unsigned{CU_STREAM_NON_BLOCKING}, flags);
  EXPECT_OK(cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(-5, priority);
  EXPECT_OK(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context_, context);
  EXPECT_OK(cuStreamIsCapturing(stream, &capture));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, capture);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 99));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(reinterpret_cast<CUstream>(context_)));
}

TEST_F(StreamTest, ThreadsMayShareEverything) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      ASSERT_OK(cuCtxSetCurrent(context_));
      CUstream own = nullptr;
      ASSERT_OK(cuStreamCreate(&own, t % 2));
      for (int i = 0; i < kRounds; ++i) {
        CUdeviceptr p = 0;
        uint32_t value = 0;
        uint32_t wanted = static_cast<uint32_t>(t * kRounds + i);
        ASSERT_OK(cuMemAlloc_v2(&p, 64));
        ASSERT_OK(cuMemsetD32Async(p, wanted, 16, own));
        ASSERT_OK(cuMemcpyDtoHAsync_v2(&value, p + 60, 4, own));
        ASSERT_EQ(wanted, value);
        ASSERT_OK(cuMemFree_v2(p));
      }
      ASSERT_OK(cuStreamDestroy_v2(own));
    });
  }
  for (auto& thread : threads) thread.join();
}

// ---- words that streams write and wait for ----

TEST_F(StreamTest, AStreamWaitsForAWordOfAnother) {
  ASSERT_OK(cuMemsetD32_v2(memory_, 0, 1));
  // Neither of the streams below waits for the default stream.
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuStreamWaitValue32_v2(free_, memory_, 5, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(free_));
  CUstream other = nullptr;
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(cuStreamWriteValue32_v2(other, memory_, 4, 0));
  EXPECT_OK(cuStreamSynchronize(other));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(free_));
  EXPECT_OK(cuStreamWriteValue32(other, memory_, 6, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  EXPECT_OK(cuStreamSynchronize(free_));
  EXPECT_OK(cuStreamDestroy_v2(other));
}

TEST_F(StreamTest, AStreamWaitsForAWordOfTheHost) {
  uint64_t* words = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&words), 16, CU_MEMHOSTALLOC_DEVICEMAP));
  words[0] = words[1] = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  const uint64_t high = uint64_t{1} << 40;
  EXPECT_OK(cuStreamWaitValue64_v2(a_, address, high, CU_STREAM_WAIT_VALUE_AND));
  EXPECT_OK(cuStreamWriteValue64_v2(a_, address + 8, high + 3, 0));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(a_));
  EXPECT_EQ(0u, words[1]);
  std::atomic_ref(words[0]).store(high | 1);
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(high + 3, words[1]);
  EXPECT_OK(cuMemFreeHost(words));
}

TEST_F(StreamTest, ABatchOfWordsIsInOrder) {
  const CUdeviceptr memory = allocate(16);
  ASSERT_OK(cuMemsetD8_v2(memory, 0, 16));
  CUstreamBatchMemOpParams ops[4]{};
  ops[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, memory, 0x1122334455667788, 0, 0};
  ops[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, memory, 0x55667788, CU_STREAM_WAIT_VALUE_EQ,
                      0};
  ops[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, 0};
  ops[3].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, memory + 4, 9, 0, 0};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a_, 4, ops, 0));
  EXPECT_OK(cuStreamBatchMemOp_v2(a_, 4, ops, 0));
  EXPECT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(0x55667788u, word(memory));
  EXPECT_EQ(9u, word(memory + 4));
}

TEST_F(StreamTest, WordsMustBeWherePlacesForThemAre) {
  CUdeviceptr managed = 0;
  uint32_t own = 0;
  ASSERT_OK(cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
  for (CUdeviceptr bad : {managed, memory_ + 2, reinterpret_cast<CUdeviceptr>(&own)}) {
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(a_, bad, 1, 0));
  }
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64_v2(a_, memory_, 1, 0));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuStreamWaitValue32_v2(a_, memory_, 1, CU_STREAM_WAIT_VALUE_FLUSH));
  EXPECT_OK(cuMemFree_v2(managed));
}

// ---- attributes ----

TEST_F(StreamTest, AttributesAreKeptAndCopied) {
  CUstreamAttrValue value{};
  EXPECT_OK(cuStreamGetAttribute(a_, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_EQ(CU_SYNC_POLICY_AUTO, value.syncPolicy);
  value.syncPolicy = CU_SYNC_POLICY_SPIN;
  EXPECT_OK(cuStreamSetAttribute(a_, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_OK(cuStreamCopyAttributes(b_, a_));
  value = {};
  EXPECT_OK(cuStreamGetAttribute(b_, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_EQ(CU_SYNC_POLICY_SPIN, value.syncPolicy);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamGetAttribute(a_, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
}

}  // namespace
}  // namespace simcuda::test
