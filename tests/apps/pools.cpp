// Three streams that take memory from pools and give it back in their own order, ordered among
// themselves by events alone: the state of one step is scattered on two streams into memory that
// lives for that step, and gathered on the third.
#include "pools.h"

#include <array>
#include <numeric>

#include "app.h"
#include "pools_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr unsigned kBlocks = (kCells + kThreads - 1) / kThreads;

class Pools {
 public:
  explicit Pools(const std::vector<unsigned>& state) : state_(state) {
    for (CUstream& stream : streams_) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CHECK(cuMemPoolCreate(&pool_, &properties));
    uint64_t threshold = 64 << 10;
    CHECK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(cuCtxSynchronize());
  }
  ~Pools() {
    for (CUevent event : events_) CHECK(cuEventDestroy_v2(event));
    for (CUstream stream : streams_) CHECK(cuStreamDestroy_v2(stream));
    if (kept_ != 0) CHECK(cuMemFree_v2(kept_));
    CHECK(cuMemPoolDestroy(pool_));
  }
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  void step(unsigned salt) {
    std::array<CUdeviceptr, 2> parts{};
    order(2, 2, 0);
    order(2, 2, 1);
    for (unsigned i = 0; i < 2; ++i) {
      const size_t bytes = (kCells + salt % 5 * 100 * i) * sizeof(unsigned);
      if (i == 0) {
        CHECK(cuMemAllocAsync(&parts[i], bytes, streams_[i]));
      } else {
        CHECK(cuMemAllocFromPoolAsync(&parts[i], bytes, pool_, streams_[i]));
      }
      launch(scatter_, {kBlocks, kThreads}, streams_[i], state_.address(), parts[i], salt + i);
      order(i, i, 2);
    }
    launch(gather_, {kBlocks, kThreads}, streams_[2], state_.address(), parts[0], parts[1]);
    // One part goes where it was used last, the other where it came from, behind that.
    CHECK(cuMemFreeAsync(parts[0], streams_[2]));
    if (salt % 4 == 0) {
      keep(parts[1]);
    } else {
      order(2, 2, 1);
      CHECK(cuMemFreeAsync(parts[1], streams_[1]));
    }
  }

  // The state, and the last word of the part that was kept of an earlier step.
  std::vector<unsigned> look() {
    std::vector<unsigned> values(kCells);
    CHECK(cuMemcpyDtoHAsync_v2(values.data(), state_.address(), state_.bytes(), streams_[2]));
    if (kept_ != 0) {
      unsigned last = 0;
      CHECK(cuMemcpyDtoHAsync_v2(&last, kept_ + (kCells - 1) * sizeof last, sizeof last,
                                 streams_[2]));
      values.push_back(last);
    }
    return values;
  }
  void wait(unsigned which) { CHECK(cuStreamSynchronize(streams_[which])); }
  // A pool does not count what a restore had to put elsewhere.
  uint64_t threshold() {
    uint64_t bytes = 0;
    CHECK(cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    return bytes;
  }

 private:
  // Orders all later work of `later` after all that `earlier` has to do.
  void order(unsigned event, unsigned earlier, unsigned later) {
    CHECK(cuEventRecord(events_[event], streams_[earlier]));
    CHECK(cuStreamWaitEvent(streams_[later], events_[event], 0));
  }
  void keep(CUdeviceptr part) {
    if (kept_ != 0) CHECK(cuMemFreeAsync(kept_, streams_[2]));
    kept_ = part;
  }

  Module module_{kPoolsPtx};
  CUfunction scatter_ = module_.function("scatter");
  CUfunction gather_ = module_.function("gather");
  Buffer<unsigned> state_;
  CUmemoryPool pool_ = nullptr;
  std::array<CUstream, 3> streams_{};
  std::array<CUevent, 3> events_{};
  CUdeviceptr kept_ = 0;
};

class HostPools {
 public:
  explicit HostPools(std::vector<unsigned> state) : state_(std::move(state)) {}
  void step(unsigned salt) {
    std::array<std::vector<unsigned>, 2> parts;
    for (unsigned i = 0; i < 2; ++i) {
      for (unsigned at = 0; at < kCells; ++at) {
        parts[i].push_back(mixed(state_[at] + salt + i, at));
      }
    }
    for (unsigned at = 0; at < kCells; ++at) {
      state_[at] = state_[at] * 3 + (parts[0][at] ^ parts[1][kCells - 1 - at]);
    }
    if (salt % 4 == 0) kept_ = {parts[1].back()};
  }
  std::vector<unsigned> look() const {
    std::vector<unsigned> values = state_;
    values.insert(values.end(), kept_.begin(), kept_.end());
    return values;
  }

 private:
  std::vector<unsigned> state_;
  std::vector<unsigned> kept_;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  std::vector<unsigned> state(kCells);
  std::iota(state.begin(), state.end(), 5u);
  Pools pools(state);
  HostPools host(state);
  for (int step = 0; step < steps; ++step) {
    const auto salt = static_cast<unsigned>(step);
    pools.step(salt);
    host.step(salt);
    if (step % 3 == 1) pools.wait(static_cast<unsigned>(step) % 2);
    if (step % 5 != 4) continue;
    const std::vector<unsigned> seen = pools.look();
    pools.wait(2);
    must_equal("state", seen, host.look());
    std::printf("step %d: digest %016" PRIx64 ", a pool that keeps %" PRIu64 " bytes\n", step,
                digest(seen), pools.threshold());
  }
  pools.wait(1);
  pools.wait(2);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 1200));
}
