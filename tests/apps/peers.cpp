// Two devices, a context on each: kernels of each read the other's memory, and what they have is
// copied from one to the other.
#include "peers.h"

#include <array>
#include <numeric>

#include "app.h"
#include "peers_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr unsigned kBlocks = (kCells + kThreads - 1) / kThreads;

// One of the two, current while it is made and while `with` runs.
class Side {
 public:
  Side(CUdevice device, const std::vector<unsigned>& cells) {
    CHECK(cuCtxCreate_v2(&context_, 0, device));
    CHECK(cuModuleLoadData(&module_, kPeersPtx));
    CHECK(cuModuleGetFunction(&join_, module_, "join"));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&cells_, bytes()));
    CHECK(cuMemAlloc_v2(&inbox_, bytes()));
    CHECK(cuMemcpyHtoD_v2(cells_, cells.data(), bytes()));
    CHECK(cuMemsetD32_v2(inbox_, 0, kCells));
    CHECK(cuCtxSynchronize());
  }
  ~Side() { CHECK(cuCtxDestroy_v2(context_)); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  static constexpr size_t bytes() { return kCells * sizeof(unsigned); }
  void reach(const Side& other) {
    CHECK(cuCtxSetCurrent(context_));
    CHECK(cuCtxEnablePeerAccess(other.context_, 0));
  }
  // The other's cells, where they are.
  void join_with(const Side& other) {
    CHECK(cuCtxSetCurrent(context_));
    launch(join_, {kBlocks, kThreads}, stream_, cells_, other.cells_);
    CHECK(cuStreamSynchronize(stream_));
  }
  void send_to(const Side& other) {
    CHECK(cuCtxSetCurrent(context_));
    CHECK(cuMemcpyPeerAsync(other.inbox_, other.context_, cells_, context_, bytes(), stream_));
    CHECK(cuStreamSynchronize(stream_));
  }
  void join_with_inbox() {
    CHECK(cuCtxSetCurrent(context_));
    launch(join_, {kBlocks, kThreads}, stream_, cells_, inbox_);
    CHECK(cuStreamSynchronize(stream_));
  }
  std::vector<unsigned> cells() const {
    std::vector<unsigned> values(kCells);
    CHECK(cuMemcpyDtoH_v2(values.data(), cells_, bytes()));
    return values;
  }

 private:
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction join_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr cells_ = 0, inbox_ = 0;
};

int run(int steps) {
  CHECK(cuInit(0));
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  if (devices < 2) fail("peers", "two devices are needed");
  std::array<std::vector<unsigned>, 2> host;
  for (unsigned i = 0; i < 2; ++i) {
    host[i].resize(kCells);
    std::iota(host[i].begin(), host[i].end(), 1 + i * 1000);
  }
  Side left(0, host[0]);
  Side right(1, host[1]);
  left.reach(right);
  right.reach(left);
  auto join = [&](std::vector<unsigned>& mine, const std::vector<unsigned>& theirs) {
    for (unsigned at = 0; at < kCells; ++at) mine[at] = joined(mine[at], theirs[at], at);
  };
  for (int step = 0; step < steps; ++step) {
    left.join_with(right);
    join(host[0], host[1]);
    left.send_to(right);
    const std::vector<unsigned> sent = host[0];
    if (step % 2 == 0) {
      right.join_with_inbox();
      join(host[1], sent);
    } else {
      right.join_with(left);
      join(host[1], host[0]);
    }
    if (step % 10 != 9) continue;
    must_equal("left", left.cells(), host[0]);
    must_equal("right", right.cells(), host[1]);
    std::printf("step %d: digests %016" PRIx64 " %016" PRIx64 "\n", step, digest(host[0]),
                digest(host[1]));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 1000));
}
