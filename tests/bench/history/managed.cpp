// SPDX-License-Identifier: Apache-2.0
//
// Managed memory with advice and prefetches. Nothing is written to files, and what was restored
// stays on the device: both are to its advantage. Its part of the device is kept by hand, as the
// memory of a large GPU would hold everything: a checkpoint beyond it is prefetched to the host,
// the one that is restored last first if the order is known, else the oldest.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/apps/app.h"
#include "tests/bench/history/keeper.h"

namespace app {
namespace {

// Migrations of managed memory, by a thread of their own: a call for a prefetch may take as long as
// the prefetch.
class Migrations {
 public:
  Migrations() {
    CHECK(cuCtxGetCurrent(&context_));
    CHECK(cuStreamCreate(&out_, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&in_, CU_STREAM_NON_BLOCKING));
    thread_ = std::thread([this] { run(); });
  }
  ~Migrations() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    for (CUstream stream : {out_, in_}) CHECK(cuStreamDestroy_v2(stream));
  }
  Migrations(const Migrations&) = delete;
  Migrations& operator=(const Migrations&) = delete;

  // In the order of these calls. `moved` says when it has ended; one at a time for each address.
  void begin(CUdeviceptr address, size_t bytes, CUdevice to, CUevent moved) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({address, bytes, to, moved});
      ++open_[address];
    }
    changed_.notify_all();
  }
  // Waits until the last one of the address has ended.
  void wait_for(CUdeviceptr address, CUevent moved) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return open_[address] == 0; });
    }
    CHECK(cuEventSynchronize(moved));
  }

 private:
  struct Job {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CUdevice to = 0;
    CUevent moved = nullptr;
  };

  void run() {
    CHECK(cuCtxSetCurrent(context_));
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = jobs_.front();
      jobs_.pop_front();
      lock.unlock();
      const CUstream stream = job.to == CU_DEVICE_CPU ? out_ : in_;
      CHECK(cuMemAdvise(job.address, job.bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, job.to));
      CHECK(cuMemPrefetchAsync(job.address, job.bytes, job.to, stream));
      CHECK(cuEventRecord(job.moved, stream));
      lock.lock();
      --open_[job.address];
      changed_.notify_all();
    }
  }

  CUcontext context_ = nullptr;
  CUstream out_ = nullptr, in_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::map<CUdeviceptr, int> open_;  // migrations that have not been handed to the driver
  bool is_ending_ = false;
  std::thread thread_;
};

class Managed : public Keeper {
 public:
  explicit Managed(const Shot& shot)
      : shot_(shot), most_on_device_(std::max<size_t>(shot.device_cache_bytes / shot.bytes, 2)) {
    CHECK(cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING));
    for (size_t at = 0; at < shot_.order.size(); ++at) {
      turn_[shot_.order[at]] = at;
      Copy& copy = versions_[shot_.order[at]];
      CHECK(cuMemAllocManaged(&copy.address, shot_.bytes, CU_MEM_ATTACH_GLOBAL));
      CHECK(cuEventCreate(&copy.moved, CU_EVENT_DISABLE_TIMING));
    }
  }
  ~Managed() override {
    migrations_.reset();
    for (const auto& [version, copy] : versions_) {
      CHECK(cuMemFree_v2(copy.address));
      CHECK(cuEventDestroy_v2(copy.moved));
    }
    CHECK(cuStreamDestroy_v2(copies_));
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
      migrations_->wait_for(copy.address, copy.moved);
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
    migrations_->begin(copy.address, shot_.bytes, CU_DEVICE_CPU, copy.moved);
    leaving_.insert(version);
  }

  void send_away() {
    if (leaving_.empty()) begin_to_send(leaves_next());
    const int version = *leaving_.begin();
    migrations_->wait_for(versions_.at(version).address, versions_.at(version).moved);
    leaving_.erase(version);
    on_device_.erase(version);
  }

  // The checkpoints that are restored next, as far as the part of the device goes.
  void prefetch() {
    while (prefetched_ < shot_.order.size() &&
           on_device_.size() < most_on_device_ + restored_now()) {
      const int version = shot_.order[prefetched_++];
      if (!on_device_.insert(version).second) continue;
      const Copy& copy = versions_.at(version);
      migrations_->begin(copy.address, shot_.bytes, 0, copy.moved);
    }
  }
  // The one that is being restored may be the only one that is not there.
  size_t restored_now() const { return prefetched_ <= restored_ ? 1 : 0; }

  const Shot shot_;
  const size_t most_on_device_;
  CUstream copies_ = nullptr;
  std::unique_ptr<Migrations> migrations_ = std::make_unique<Migrations>();
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
