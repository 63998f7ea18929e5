// SPDX-License-Identifier: Apache-2.0
//
// Links read from simcuda, which has been told them, and a schedule that its devices carry out.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "interpose/cuda_abi.h"
#include "interpose/device/device_links.h"
#include "tiers/balance/balance.h"

namespace gpusnap {
namespace {

using balance::Flow;
using balance::kHost;
using balance::Problem;

constexpr size_t kDevices = 8;
// NVLinks of a DGX-1V; the speeds of the SC'22 talk (slide 15).
constexpr int kLinks[kDevices][kDevices] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                            {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                            {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                            {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
constexpr double kNvlink = 24e9;
constexpr double kToHost = 12e9;
constexpr double kLatency = 10e-6;  // simcuda's default

std::string matrix() {
  std::string text;
  for (const auto& row : kLinks) {
    if (!text.empty()) text += '/';
    for (size_t i = 0; i < kDevices; ++i) {
      text += (i == 0 ? "" : ",") + (row[i] == 0 ? "0" : std::to_string(24 * row[i]) + "G");
    }
  }
  return text;
}

// The driver is loaded once, with these settings.
template <class Function>
Function* call(const char* name) {
  static void* const library = [] {
    setenv("SIMCUDA_DEVICES", "8", 1);
    setenv("SIMCUDA_LINKS", matrix().c_str(), 1);
    setenv("SIMCUDA_CLOCK", "virtual", 1);
    setenv("SIMCUDA_BANDWIDTH", "to_host:12G", 1);
    void* const loaded = dlopen(SIMCUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) throw std::runtime_error(dlerror());
    return loaded;
  }();
  if (name == nullptr) return reinterpret_cast<Function*>(library);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define CUDA(name) (*call<decltype(::name)>(#name))
#define ASSERT_OK(expression) ASSERT_EQ(CUDA_SUCCESS, expression)
#define EXPECT_OK(expression) EXPECT_EQ(CUDA_SUCCESS, expression)

Problem read_problem() {
  EXPECT_OK(CUDA(cuInit)(0));
  Result<std::unique_ptr<DeviceLinks>> links =
      links_of_driver(reinterpret_cast<void*>(call<void()>(nullptr)));
  if (!links.ok()) throw std::runtime_error(links.status().message());
  Result<Topology> topology = read_topology(*links.value(), MeasuredLinks::kOneOfEachRank);
  if (!topology.ok()) throw std::runtime_error(topology.status().message());
  for (const Status& each : topology->left_out) ADD_FAILURE() << each.message();
  return topology->bandwidths;
}

TEST(TopologyOfSimcuda, BandwidthsAreThoseThatWereSetAndNoContextIsLeft) {
  const Problem found = read_problem();
  ASSERT_EQ(found.devices(), kDevices);
  for (size_t i = 0; i < kDevices; ++i) {
    EXPECT_NEAR(kToHost, static_cast<double>(found.host_bandwidth[i]), 1e-3 * kToHost);
    for (size_t j = 0; j < kDevices; ++j) {
      const double expected = kNvlink * kLinks[i][j];
      EXPECT_NEAR(expected, static_cast<double>(found.peer(i, j)), 1e-3 * expected)
          << i << " to " << j;
    }
    unsigned flags = 0;
    int is_active = -1;
    ASSERT_OK(CUDA(cuDevicePrimaryCtxGetState)(static_cast<int>(i), &flags, &is_active));
    EXPECT_EQ(is_active, 0) << i;
  }
}

// The bytes of a schedule's problem, on their devices.
class Transfer {
 public:
  Transfer(const Problem& problem, const std::vector<Flow>& flows) : flows_(flows) {
    for (size_t i = 0; i < kDevices; ++i) {
      EXPECT_OK(CUDA(cuCtxCreate_v2)(&contexts_[i], 0, static_cast<int>(i)));
      const uint64_t bytes = problem.remainders[i] + problem.spare[i];
      if (bytes == 0) continue;
      EXPECT_OK(CUDA(cuMemAlloc_v2)(&buffers_[i], bytes));
      EXPECT_OK(CUDA(cuMemsetD8_v2)(buffers_[i], static_cast<unsigned char>(i + 1), bytes));
      EXPECT_OK(CUDA(cuCtxSynchronize)());
    }
    EXPECT_OK(CUDA(cuMemHostAlloc)(&host_, kHostBytes, CU_MEMHOSTALLOC_PORTABLE));
  }
  ~Transfer() {
    EXPECT_OK(CUDA(cuMemFreeHost)(host_));
    for (CUcontext context : contexts_) EXPECT_OK(CUDA(cuCtxDestroy_v2)(context));
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Carries the flows out, one stream a link, and returns when the last of them has ended, in
  // seconds of the virtual clock after the first one began.
  double run() {
    std::vector<CUevent> begins;
    std::vector<CUevent> ends;
    std::vector<uint64_t> sent(kDevices);
    std::vector<uint64_t> received(kDevices);
    uint64_t to_host = 0;
    for (const Flow& flow : flows_) {
      CUstream stream = nullptr;
      EXPECT_OK(CUDA(cuCtxSetCurrent)(contexts_[flow.from]));
      EXPECT_OK(CUDA(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
      begins.push_back(record(stream));
      const CUdeviceptr from = buffers_[flow.from] + sent[flow.from];
      if (flow.to == kHost) {
        EXPECT_OK(CUDA(cuMemcpyDtoHAsync_v2)(static_cast<char*>(host_) + to_host, from, flow.bytes,
                                             stream));
        to_host += flow.bytes;
      } else {
        EXPECT_OK(CUDA(cuMemcpyPeerAsync)(buffers_[flow.to] + received[flow.to], contexts_[flow.to],
                                          from, contexts_[flow.from], flow.bytes, stream));
        received[flow.to] += flow.bytes;
      }
      sent[flow.from] += flow.bytes;
      ends.push_back(record(stream));
    }
    double last = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      EXPECT_OK(CUDA(cuEventSynchronize)(ends[i]));
      float milliseconds = 0;
      EXPECT_OK(CUDA(cuEventElapsedTime)(&milliseconds, begins[i], ends[i]));
      last = std::max(last, static_cast<double>(milliseconds) / 1e3);
    }
    return last;
  }

  // Each byte that was sent has arrived, in the order of the flows, and none beyond.
  void check() {
    std::vector<uint64_t> received(kDevices);
    uint64_t to_host = 0;
    for (const Flow& flow : flows_) {
      const auto value = static_cast<unsigned char>(flow.from + 1);
      std::vector<unsigned char> bytes(flow.bytes);
      if (flow.to == kHost) {
        std::copy_n(static_cast<unsigned char*>(host_) + to_host, flow.bytes, bytes.begin());
        to_host += flow.bytes;
      } else {
        EXPECT_OK(
            CUDA(cuMemcpyDtoH_v2)(bytes.data(), buffers_[flow.to] + received[flow.to], flow.bytes));
        received[flow.to] += flow.bytes;
      }
      EXPECT_EQ(static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), value)), flow.bytes)
          << flow.from << " to " << flow.to;
    }
  }

 private:
  static constexpr uint64_t kHostBytes = 8 << 20;

  static CUevent record(CUstream stream) {
    CUevent event = nullptr;
    EXPECT_OK(CUDA(cuEventCreate)(&event, CU_EVENT_DEFAULT));
    EXPECT_OK(CUDA(cuEventRecord)(event, stream));
    return event;
  }

  const std::vector<Flow> flows_;
  CUcontext contexts_[kDevices] = {};
  CUdeviceptr buffers_[kDevices] = {};
  void* host_ = nullptr;
};

// The example of slide 46, with a hundredth of its bytes.
TEST(TopologyOfSimcuda, DevicesCarryOutASchedule) {
  constexpr uint64_t kUnit = 10'000;
  Problem problem = read_problem();
  problem.remainders[0] = 480 * kUnit;
  problem.remainders[6] = 240 * kUnit;
  problem.spare[1] = 140 * kUnit;
  problem.spare[4] = 480 * kUnit;
  const Result<balance::Plan> plan = balance::balance(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Transfer transfer(problem, plan->flows);
  EXPECT_NEAR(0.06667e-3 + kLatency, transfer.run(), 0.001e-3);
  transfer.check();
}

}  // namespace
}  // namespace gpusnap
