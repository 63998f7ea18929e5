// SPDX-License-Identifier: Apache-2.0
//
// Eight devices with links of several speeds, on the virtual clock.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr int kDevices = 8;

// The NVLinks of a DGX-1V, and its links to the host, with MB/s in place of GB/s: few bytes take
// long.
const bool kIsSet = [] {
  setenv("SIMCUDA_DEVICES", "8", 1);
  setenv("SIMCUDA_LINKS",
         "0,24M,24M,48M,48M,0,0,0/24M,0,48M,24M,0,48M,0,0/24M,48M,0,48M,0,0,24M,0/"
         "48M,24M,48M,0,0,0,0,24M/48M,0,0,0,0,24M,24M,48M/0,48M,0,0,24M,0,48M,24M/"
         "0,0,24M,0,24M,48M,0,48M/0,0,0,24M,48M,24M,48M,0",
         1);
  setenv("SIMCUDA_CLOCK", "virtual", 1);
  setenv("SIMCUDA_BANDWIDTH", "memory:1T,to_host:12M,to_device:6M,copy:1G,instructions:1000T", 1);
  setenv("SIMCUDA_LATENCY", "kernel:3us,copy:7us,batch:2us", 1);
  return true;
}();

constexpr double kLatency = 7;
constexpr size_t kBytes = 480'000;  // the most that is copied
constexpr size_t kPlaces = 5;       // of each buffer: one is copied from, the others to

struct Copy {
  int to = 0;    // a device, or kHost
  int from = 0;  // a device
  size_t bytes = 0;
};
constexpr int kHost = -1;

// A context on each device, with a buffer.
class LinksTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    contexts_[0] = context_;
    for (int device = 1; device < kDevices; ++device) {
      ASSERT_OK(cuCtxCreate_v2(&contexts_[device], 0, device));
    }
    for (int device = 0; device < kDevices; ++device) {
      ASSERT_OK(cuCtxSetCurrent(contexts_[device]));
      buffers_[device] = allocate(kPlaces * kBytes);
      ASSERT_OK(cuMemsetD8_v2(buffers_[device], static_cast<unsigned char>(device + 1),
                              kPlaces * kBytes));
      ASSERT_OK(cuCtxSynchronize());
    }
    ASSERT_OK(cuMemHostAlloc(&host_, kPlaces * kBytes, CU_MEMHOSTALLOC_PORTABLE));
    ASSERT_OK(cuCtxSetCurrent(context_));
  }
  void TearDown() override {
    EXPECT_OK(cuMemFreeHost(host_));
    for (int device = 1; device < kDevices; ++device) {
      EXPECT_OK(cuCtxDestroy_v2(contexts_[device]));
    }
    EXPECT_OK(cuCtxSetCurrent(context_));
    DriverTest::TearDown();
  }

  // `place`: of those at the same time each has its own.
  void queue(const Copy& copy, size_t place, CUstream stream) {
    ASSERT_LT(place, kPlaces);
    const size_t to = place * kBytes;
    if (copy.to == kHost) {
      ASSERT_OK(cuMemcpyDtoHAsync_v2(static_cast<std::byte*>(host_) + to, buffers_[copy.from],
                                     copy.bytes, stream));
    } else {
      ASSERT_OK(cuMemcpyPeerAsync(buffers_[copy.to] + to, contexts_[copy.to], buffers_[copy.from],
                                  contexts_[copy.from], copy.bytes, stream));
    }
  }

  // When each of the copies ends, in microseconds of virtual time: each in a stream of the device
  // that it comes from, all at once.
  std::vector<double> times_of(const std::vector<Copy>& copies) {
    Gate gate;
    CUstream first = stream_on(0);
    gate.close(first);
    CUevent opened = record(first);
    std::vector<CUevent> ends;
    for (const Copy& copy : copies) {
      CUstream stream = stream_on(copy.from);
      EXPECT_OK(cuStreamWaitEvent(stream, opened, 0));
      queue(copy, ends.size() % (kPlaces - 1) + 1, stream);
      ends.push_back(record(stream));
    }
    gate.open();
    std::vector<double> times;
    for (CUevent end : ends) {
      EXPECT_OK(cuEventSynchronize(end));
      float milliseconds = -1;
      EXPECT_OK(cuEventElapsedTime(&milliseconds, opened, end));
      times.push_back(static_cast<double>(milliseconds) * 1e3);
    }
    EXPECT_OK(cuCtxSetCurrent(context_));
    return times;
  }
  double longest(const std::vector<Copy>& copies) {
    const std::vector<double> times = times_of(copies);
    return *std::max_element(times.begin(), times.end());
  }
  // Makes a context of the device current.
  CUstream stream_on(int device) {
    CUstream stream = nullptr;
    EXPECT_OK(cuCtxSetCurrent(contexts_[device]));
    EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }
  static CUevent record(CUstream stream) {
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    EXPECT_OK(cuEventRecord(event, stream));
    return event;
  }
  // A byte of what was copied to that device first.
  unsigned char byte(int device, size_t offset) {
    unsigned char value = 0;
    EXPECT_OK(cuMemcpyDtoH_v2(&value, buffers_[device] + kBytes + offset, 1));
    return value;
  }

  CUcontext contexts_[kDevices] = {};
  CUdeviceptr buffers_[kDevices] = {};
  void* host_ = nullptr;
};

void expect_times(const std::vector<double>& expected, const std::vector<double>& times) {
  ASSERT_EQ(expected.size(), times.size());
  for (size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(expected[i], times[i], 0.5) << "copy " << i;
}

TEST_F(LinksTest, ACopyTakesItsBytesOverItsLink) {
  expect_times({kLatency + 10'000}, times_of({{1, 0, 240'000}}));
  expect_times({kLatency + 5'000}, times_of({{4, 0, 240'000}}));
  EXPECT_EQ(1, byte(4, 239'999));
  EXPECT_EQ(5, byte(4, 240'000));
}

TEST_F(LinksTest, LinksWorkAtTheSameTime) {
  expect_times({kLatency + 10'000, kLatency + 10'000, kLatency + 10'000, kLatency + 10'000},
               times_of({{1, 0, 240'000}, {4, 0, 480'000}, {0, 1, 240'000}, {kHost, 0, 120'000}}));
}

// In either order.
TEST_F(LinksTest, CopiesOverOneLinkTakeTurns) {
  EXPECT_NEAR(2 * kLatency + 10'000, longest({{4, 0, 240'000}, {4, 0, 240'000}}), 0.5);
}

TEST_F(LinksTest, WithoutALinkACopyPassesTheHost) {
  // As fast as the slower direction, by the engine of the copies to the host.
  expect_times({kLatency + 10'000}, times_of({{5, 0, 60'000}}));
  EXPECT_NEAR(2 * kLatency + 10'000 + 1'000, longest({{5, 0, 60'000}, {kHost, 0, 12'000}}), 0.5);
  EXPECT_EQ(1, byte(5, 59'999));
  EXPECT_EQ(6, byte(5, 60'000));
}

TEST_F(LinksTest, WithinADeviceNothingChanges) {
  expect_times({kLatency + 480}, times_of({{3, 3, 480'000}}));
}

TEST_F(LinksTest, ABatchIsOneOperationForEachLink) {
  CUstream stream = stream_on(0);
  Gate gate;
  gate.close(stream);
  CUevent from = record(stream);
  CUdeviceptr to[] = {buffers_[1] + kBytes, buffers_[4] + kBytes, buffers_[1] + kBytes + 24'000};
  CUdeviceptr source[] = {buffers_[0], buffers_[0], buffers_[0] + 24'000};
  size_t sizes[] = {24'000, 48'000, 24'000};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  ASSERT_OK(cuMemcpyBatchAsync_v2(to, source, sizes, 3, &attributes, &first, 1, stream));
  CUevent end = record(stream);
  gate.open();
  ASSERT_OK(cuStreamSynchronize(stream));
  float milliseconds = 0;
  ASSERT_OK(cuEventElapsedTime(&milliseconds, from, end));
  EXPECT_NEAR(kLatency + 2 + 2'000 + kLatency + 1'000, milliseconds * 1e3, 0.5);
  EXPECT_EQ(1, byte(1, 47'999));
  EXPECT_EQ(1, byte(4, 47'999));
}

// The schedules of the SC'22 talk (slide 46) take what the talk says: 1 KB for each MB there.
TEST_F(LinksTest, TheExampleOfTheSlides) {
  EXPECT_NEAR(kLatency + 40'000, longest({{kHost, 0, 480'000}, {kHost, 6, 240'000}}), 1);
  EXPECT_NEAR(kLatency + 20'000, longest({{4, 0, 480'000}, {kHost, 6, 240'000}}), 1);
  EXPECT_NEAR(kLatency + 6'667,
              longest({{1, 0, 137'000},
                       {4, 0, 275'000},
                       {kHost, 0, 68'000},
                       {4, 6, 160'000},
                       {kHost, 6, 80'000}}),
              1);
}

TEST_F(LinksTest, AttributesTellWhichDevicesReachEachOther) {
  struct Case {
    int from, to, can, rank;
  };
  for (const Case& each :
       {Case{0, 4, 1, 0}, Case{0, 1, 1, 1}, Case{6, 4, 1, 1}, Case{0, 5, 0, 2}}) {
    int value = -1;
    ASSERT_OK(cuDeviceCanAccessPeer(&value, each.from, each.to));
    EXPECT_EQ(each.can, value);
    ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, each.from,
                                      each.to));
    EXPECT_EQ(each.can, value);
    ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                      each.from, each.to));
    EXPECT_EQ(each.can, value);
    ASSERT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, each.from,
                                      each.to));
    EXPECT_EQ(each.rank, value) << each.from << " to " << each.to;
  }
}

TEST_F(LinksTest, PeerAccessNeedsALink) {
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(contexts_[5], 0));
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[4], 0));
  EXPECT_OK(cuCtxDisablePeerAccess(contexts_[4]));
}

}  // namespace
}  // namespace simcuda::test
