// The virtual clock: what operations take, and what waits for what. All by event times, which are
// exact where everything is queued behind a gate.

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

// Round figures, so that durations are whole microseconds.
const bool kIsSet = [] {
  setenv("SIMCUDA_CLOCK", "virtual", 1);
  setenv("SIMCUDA_BANDWIDTH", "memory:1G,to_host:1M,to_device:2M,copy:1G,instructions:1000T", 1);
  setenv("SIMCUDA_LATENCY", "kernel:3us,copy:7us,batch:2us", 1);
  return true;
}();

constexpr size_t kWords = 256 * 1024;  // of the buffers: 1 MiB
constexpr double kMicrosecond = 1e-3;  // in the unit of event times

class ClockTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    for (CUstream* stream : {&a_, &b_}) {
      ASSERT_OK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    }
    memory_ = allocate(kWords * 4);
    other_ = allocate(kWords * 4);
    ASSERT_OK(cuMemHostAlloc(&host_, kWords * 4, 0));
    ASSERT_OK(cuMemHostAlloc(&source_, kWords * 4, 0));
    ASSERT_OK(cuCtxSynchronize());
  }
  CUevent record(CUstream stream) {
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    EXPECT_OK(cuEventRecord(event, stream));
    return event;
  }
  // Microseconds of virtual time.
  static double between(CUevent from, CUevent to) {
    float milliseconds = -1;
    EXPECT_OK(cuEventElapsedTime(&milliseconds, from, to));
    return static_cast<double>(milliseconds) / kMicrosecond;
  }
  // The time that the work takes that `queue` puts into stream a_.
  template <class Queue>
  double time_of(Queue queue) {
    Gate gate;
    gate.close(a_);
    CUevent from = record(a_);
    queue();
    CUevent to = record(a_);
    gate.open();
    EXPECT_OK(cuStreamSynchronize(a_));
    return between(from, to);
  }

  CUstream a_ = nullptr;
  CUstream b_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUdeviceptr other_ = 0;
  void* host_ = nullptr;    // copies from the device go here
  void* source_ = nullptr;  // copies to it come from here
};

#define EXPECT_MICROSECONDS(expected, actual) EXPECT_NEAR(expected, actual, 1e-2)

TEST_F(ClockTest, CopiesTakeTheirBytes) {
  EXPECT_MICROSECONDS(7 + 500, time_of([&] { cuMemcpyDtoHAsync_v2(host_, memory_, 500, a_); }));
  EXPECT_MICROSECONDS(7 + 250, time_of([&] { cuMemcpyHtoDAsync_v2(memory_, source_, 500, a_); }));
  EXPECT_MICROSECONDS(7 + 50, time_of([&] { cuMemcpyDtoDAsync_v2(memory_, other_, 50'000, a_); }));
  EXPECT_MICROSECONDS(3 + 50, time_of([&] { cuMemsetD8Async(memory_, 0, 50'000, a_); }));
}

TEST_F(ClockTest, CopiesOfABatchTakeLittleBesidesTheirBytes) {
  CUdeviceptr to[] = {memory_, memory_ + 100'000, memory_ + 200'000};
  CUdeviceptr from[] = {other_, other_ + 300'000, other_ + 150'000};
  size_t sizes[] = {50'000, 20'000, 30'000};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  auto batch = [&] {
    EXPECT_OK(cuMemcpyBatchAsync_v2(to, from, sizes, 3, &attributes, &first, 1, a_));
  };
  EXPECT_MICROSECONDS(7 + 2 * 2 + 100, time_of(batch));
  // Copies of another engine are an operation of their own.
  to[1] = reinterpret_cast<CUdeviceptr>(host_);
  sizes[1] = 500;
  EXPECT_MICROSECONDS(7 + 2 + 80 + 7 + 500, time_of(batch));
}

TEST_F(ClockTest, KernelsTakeTheMemoryThatTheyTouch) {
  EXPECT_MICROSECONDS(3 + 64, time_of([&] { launch_words(fill_, memory_, 16'000, 1, a_); }));
  // It reads each word and writes it back.
  EXPECT_MICROSECONDS(3 + 128, time_of([&] { launch_words(add_, memory_, 16'000, 1, a_); }));
  // Memory of the host is behind the link.
  auto pinned = reinterpret_cast<CUdeviceptr>(host_);
  EXPECT_MICROSECONDS(3 + 640, time_of([&] { launch_words(fill_, pinned, 160, 1, a_); }));
}

TEST_F(ClockTest, MemoryIsCountedInSectors) {
  // One thread: a sector of 32 bytes to read, one to write.
  CUfunction read = function("read");
  void* parameters[] = {&memory_, &other_};
  auto once = [&] { cuLaunchKernel(read, 1, 1, 1, 1, 1, 1, 0, a_, parameters, nullptr); };
  EXPECT_MICROSECONDS(3 + 0.064, time_of(once));
  // 32 threads at one address are one access to one sector.
  auto warp = [&] { cuLaunchKernel(read, 1, 1, 1, 32, 1, 1, 0, a_, parameters, nullptr); };
  EXPECT_MICROSECONDS(3 + 0.064, time_of(warp));
}

TEST_F(ClockTest, OneEngineDoesOneThingAtATime) {
  Gate gate;
  gate.close(a_);
  CUevent opened = record(a_);
  ASSERT_OK(cuStreamWaitEvent(b_, opened, 0));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 500, a_));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 500, b_));
  CUevent a_done = record(a_);
  CUevent b_done = record(b_);
  gate.open();
  ASSERT_OK(cuCtxSynchronize());
  double a = between(opened, a_done);
  double b = between(opened, b_done);
  EXPECT_MICROSECONDS(507, std::min(a, b));
  EXPECT_MICROSECONDS(1014, std::max(a, b));
}

TEST_F(ClockTest, EnginesOverlap) {
  Gate gate;
  gate.close(a_);
  CUevent opened = record(a_);
  ASSERT_OK(cuStreamWaitEvent(b_, opened, 0));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 500, a_));
  EXPECT_OK(cuMemcpyHtoDAsync_v2(other_, source_, 500, b_));
  CUevent a_done = record(a_);
  CUevent b_done = record(b_);
  gate.open();
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_MICROSECONDS(507, between(opened, a_done));
  EXPECT_MICROSECONDS(257, between(opened, b_done));
}

TEST_F(ClockTest, AnEventWaitDelays) {
  Gate gate;
  gate.close(a_);
  CUevent opened = record(a_);
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 500, a_));
  CUevent copied = record(a_);
  ASSERT_OK(cuStreamWaitEvent(b_, copied, 0));
  EXPECT_OK(cuMemcpyHtoDAsync_v2(other_, source_, 500, b_));
  CUevent b_done = record(b_);
  gate.open();
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_MICROSECONDS(507 + 257, between(opened, b_done));
}

TEST_F(ClockTest, ManyOperationsGiveTheSameTimeInEveryRun) {
  double times[2] = {};
  for (double& time : times) {
    time = time_of([&] {
      for (int i = 0; i < 300; ++i) {
        launch_words(add_, memory_, 64 + static_cast<uint32_t>(i), 1, a_);
        cuMemcpyDtoHAsync_v2(host_, memory_, 10, a_);
      }
    });
  }
  EXPECT_EQ(times[0], times[1]);
}

TEST_F(ClockTest, TheHostWaitsForWhatHasNotEnded) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  Gate gate;
  gate.close(a_);
  // A second of virtual time: 100 s of the host's, were it not that it does nothing but wait.
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 1'000'000, a_));
  EXPECT_OK(cuEventRecord(event, a_));
  gate.open();
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventQuery(event));
}

TEST_F(ClockTest, ThreadsThatOnlyWaitLetTimePass) {
  std::thread other([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuMemcpyHtoDAsync_v2(other_, source_, 1'000'000, b_));
    EXPECT_OK(cuStreamSynchronize(b_));
  });
  EXPECT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 1'000'000, a_));
  EXPECT_OK(cuStreamSynchronize(a_));
  other.join();  // this wait is not one in the driver
}

TEST_F(ClockTest, AFullStreamLetsItsHostGoOnInTime) {
  double time = time_of([] {});
  EXPECT_MICROSECONDS(0, time);
  CUevent from = record(a_);
  for (int i = 0; i < 3000; ++i) ASSERT_OK(cuMemcpyDtoHAsync_v2(host_, memory_, 93, a_));
  CUevent to = record(a_);
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_GE(between(from, to), 300'000 - 1);
}

constexpr const char* kTimerPtx = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .entry timer(.param .u64 out, .param .u64 wait) {
  .reg .pred %p<2>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [out]; ld.param.u64 %d2, [wait];
  cvta.to.global.u64 %d3, %d1;
  mov.u64 %d4, %globaltimer;
AGAIN:
  mov.u64 %d5, %globaltimer;
  sub.s64 %d6, %d5, %d4;
  setp.lt.u64 %p1, %d6, %d2;
  @%p1 bra AGAIN;
  st.global.u64 [%d3], %d4;
  ret;
}
)";

TEST_F(ClockTest, TheDeviceReadsTheClock) {
  CUmodule module = nullptr;
  CUfunction timer = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kTimerPtx));
  ASSERT_OK(cuModuleGetFunction(&timer, module, "timer"));
  uint64_t wait = 32'000;
  auto launch = [&](CUdeviceptr out) {
    void* parameters[] = {&out, &wait};
    cuLaunchKernel(timer, 1, 1, 1, 1, 1, 1, 0, a_, parameters, nullptr);
  };
  // Two kernels that wait 32 us each and read the clock once before: the second begins as long
  // after the first as that one took.
  double time = time_of([&] {
    launch(memory_);
    launch(memory_ + 8);
  });
  EXPECT_MICROSECONDS(2 * 32.032, time);
  auto began = download<uint64_t>(memory_, 2);
  EXPECT_EQ(32'032u, began[1] - began[0]);
}

}  // namespace
}  // namespace simcuda::test
