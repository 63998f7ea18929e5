// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/peer_links.h"

#include <algorithm>

#include "tiers/balance/problem.h"

namespace gpusnap {

namespace {
// A shorter copy takes about as long to begin as to carry its bytes.
constexpr uint64_t kFewestTimedBytes = 512 << 10;
// Two NVLinks of 24 GB/s; slower ones are told by their rank.
constexpr uint64_t kGuessedRate = 48'000'000'000;
}  // namespace

void LinkClock::start(CUstream stream, uint64_t bytes) {
  if (state_ != State::kIdle || bytes < kFewestTimedBytes) return;
  for (CUevent* event : {&begin_, &end_}) {
    if (*event == nullptr && driver_.cuEventCreate(event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
  }
  if (driver_.cuEventRecord(begin_, stream) != CUDA_SUCCESS) return;
  bytes_ = bytes;
  state_ = State::kStarted;
}

void LinkClock::stop(CUstream stream) {
  if (state_ != State::kStarted) return;
  state_ = driver_.cuEventRecord(end_, stream) == CUDA_SUCCESS ? State::kFlying : State::kIdle;
}

void LinkClock::look() {
  if (state_ != State::kFlying) return;
  CUresult result = driver_.cuEventQuery(end_);
  if (result == CUDA_ERROR_NOT_READY) return;
  state_ = State::kIdle;
  float milliseconds = 0;
  if (result == CUDA_SUCCESS) result = driver_.cuEventElapsedTime(&milliseconds, begin_, end_);
  if (result != CUDA_SUCCESS || !(milliseconds > 0)) return;
  const double seen = static_cast<double>(bytes_) / (static_cast<double>(milliseconds) * 1e-3);
  const double before = is_measured_ ? static_cast<double>(rate()) : seen;
  const double rate =
      std::clamp(before + (seen - before) / 4, 1.0, static_cast<double>(balance::kMaxBandwidth));
  is_measured_ = true;
  rate_.store(static_cast<uint64_t>(rate), std::memory_order_relaxed);
}

// By the driver's own scale: 0 is the best.
uint64_t PeerLinks::guess_rate(int from, int to) const {
  int rank = 0;
  if (driver_.cuDeviceGetP2PAttribute != nullptr) {
    (void)driver_.cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, from,
                                          to);
  }
  return kGuessedRate / static_cast<uint64_t>(std::clamp(rank, 0, 9) + 1);
}

void PeerLinks::connect(int from, int to) {
  if (from == to || driver_.cuDeviceCanAccessPeer == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    if (links_.contains(to)) return;
  }
  int can = 0;
  CUresult result = driver_.cuDeviceCanAccessPeer(&can, from, to);
  CUstream stream = nullptr, gate = nullptr;
  if (result == CUDA_SUCCESS && can != 0) {
    int least = 0, greatest = 0;
    result = driver_.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result == CUDA_SUCCESS) {
      result = driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, least);
    }
    if (result == CUDA_SUCCESS) {
      result = driver_.cuStreamCreateWithPriority(&gate, CU_STREAM_NON_BLOCKING, greatest);
    }
  }
  auto link = result == CUDA_SUCCESS && can != 0
                  ? std::make_unique<PeerLink>(driver_, stream, gate, guess_rate(from, to))
                  : nullptr;
  std::lock_guard lock(mutex_);
  links_[to] = std::move(link);
}

std::vector<int> PeerLinks::devices() {
  std::lock_guard lock(mutex_);
  std::vector<int> found;
  for (const auto& [device, link] : links_) {
    if (link != nullptr) found.push_back(device);
  }
  return found;
}

PeerLink* PeerLinks::to(int device) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(device);
  return found == links_.end() ? nullptr : found->second.get();
}

}  // namespace gpusnap
