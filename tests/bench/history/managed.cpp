// SPDX-License-Identifier: Apache-2.0
//
// Managed memory with advice and prefetches. Nothing is written to files, and what was restored
// stays on the device: both are to its advantage. Its part of the device is kept by hand, as the
// memory of a large GPU would hold everything: a checkpoint beyond it is prefetched to the host,
// the one that is restored last first if the order is known, else the oldest.
#include <algorithm>
#include <map>
#include <set>

#include "tests/apps/app.h"
#include "tests/bench/history/keeper.h"

namespace app {
namespace {

class Managed : public Keeper {
 public:
  explicit Managed(const Shot& shot)
      : shot_(shot), most_on_device_(std::max<size_t>(shot.device_cache_bytes / shot.bytes, 2)) {
    CHECK(cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&out_, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&in_, CU_STREAM_NON_BLOCKING));
    for (size_t at = 0; at < shot_.order.size(); ++at) {
      turn_[shot_.order[at]] = at;
      Copy& copy = versions_[shot_.order[at]];
      CHECK(cuMemAllocManaged(&copy.address, shot_.bytes, CU_MEM_ATTACH_GLOBAL));
      CHECK(cuEventCreate(&copy.moved, CU_EVENT_DISABLE_TIMING));
    }
  }
  ~Managed() override {
    for (const auto& [version, copy] : versions_) {
      CHECK(cuMemFree_v2(copy.address));
      CHECK(cuEventDestroy_v2(copy.moved));
    }
    for (CUstream stream : {copies_, out_, in_}) CHECK(cuStreamDestroy_v2(stream));
  }

  void write(int version) override {
    while (on_device_.size() >= most_on_device_) send_away();
    const Copy& copy = versions_.at(version);
    CHECK(cuMemAdvise(copy.address, shot_.bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
    CHECK(cuMemPrefetchAsync(copy.address, shot_.bytes, 0, copies_));
    CHECK(cuMemcpyDtoDAsync_v2(copy.address, shot_.buffer, shot_.bytes, copies_));
    CHECK(cuStreamSynchronize(copies_));
    on_device_.insert(version);
    // The next write finds room.
    if (on_device_.size() >= most_on_device_) begin_to_send(leaves_next());
  }

  void restore(int version) override {
    const Copy& copy = versions_.at(version);
    if (is_prefetching_) {
      prefetch();
      CHECK(cuEventSynchronize(copy.moved));
    }
    CHECK(cuMemcpyDtoDAsync_v2(shot_.buffer, copy.address, shot_.bytes, copies_));
    CHECK(cuStreamSynchronize(copies_));
    on_device_.erase(version);
    ++restored_;
    if (is_prefetching_) prefetch();
  }

  void start_prefetching() override {
    wait_until_flushed();
    is_prefetching_ = shot_.hints;
    if (is_prefetching_) prefetch();
  }

  void wait_until_flushed() override {
    while (!leaving_.empty()) send_away();
  }

 private:
  struct Copy {
    CUdeviceptr address = 0;
    CUevent moved = nullptr;  // its last prefetch has ended
  };

  int leaves_next() const {
    const auto later = [this](int a, int b) { return turn_.at(a) < turn_.at(b); };
    return shot_.hints ? *std::max_element(on_device_.begin(), on_device_.end(), later)
                       : *on_device_.begin();
  }

  void begin_to_send(int version) {
    const Copy& copy = versions_.at(version);
    CHECK(cuMemAdvise(copy.address, shot_.bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                      CU_DEVICE_CPU));
    CHECK(cuMemPrefetchAsync(copy.address, shot_.bytes, CU_DEVICE_CPU, out_));
    CHECK(cuEventRecord(copy.moved, out_));
    leaving_.insert(version);
  }

  void send_away() {
    if (leaving_.empty()) begin_to_send(leaves_next());
    const int version = *leaving_.begin();
    CHECK(cuEventSynchronize(versions_.at(version).moved));
    leaving_.erase(version);
    on_device_.erase(version);
  }

  // Those that are restored next, as far as the part of the device goes.
  void prefetch() {
    while (prefetched_ < shot_.order.size() &&
           on_device_.size() < most_on_device_ + restored_now()) {
      const int version = shot_.order[prefetched_++];
      if (!on_device_.insert(version).second) continue;
      const Copy& copy = versions_.at(version);
      CHECK(cuMemAdvise(copy.address, shot_.bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
      CHECK(cuMemPrefetchAsync(copy.address, shot_.bytes, 0, in_));
      CHECK(cuEventRecord(copy.moved, in_));
    }
  }
  // The one that is being restored may be the only one that is not there.
  size_t restored_now() const { return prefetched_ <= restored_ ? 1 : 0; }

  const Shot shot_;
  const size_t most_on_device_;
  CUstream copies_ = nullptr, out_ = nullptr, in_ = nullptr;
  std::map<int, size_t> turn_;  // of each version in the order
  std::map<int, Copy> versions_;
  std::set<int> on_device_, leaving_;
  bool is_prefetching_ = false;
  size_t prefetched_ = 0, restored_ = 0;  // entries of the order
};

}  // namespace

std::unique_ptr<Keeper> make_managed(const Shot& shot) {
  return std::make_unique<Managed>(shot);
}

}  // namespace app
