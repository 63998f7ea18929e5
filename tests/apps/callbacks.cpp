// Functions of the host that run in streams: they take what a copy brought them and hand it to the
// program, which waits for them without asking the driver, and goes on from what they found.
#include "callbacks.h"

#include <array>
#include <condition_variable>
#include <mutex>
#include <numeric>

#include "app.h"
#include "callbacks_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;

// Page-locked memory that one stream copies to, and the sum that its host functions make of it.
class Inbox {
 public:
  explicit Inbox(CUdeviceptr cells) : cells_(cells) {
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Inbox() { CHECK(cuStreamDestroy_v2(stream_)); }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  CUstream stream() const { return stream_; }
  unsigned* memory() { return arrived_.data(); }
  size_t bytes() const { return arrived_.bytes(); }
  void take_in_stream() {
    CHECK(cuLaunchHostFunc(
        stream_, [](void* self) { static_cast<Inbox*>(self)->take(); }, this));
  }
  // The sum of all that has been taken, once `count` were.
  unsigned wait_for(unsigned count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return taken_ >= count; });
    if (was_permitted_) fail("callbacks", "the driver permitted a call within a host function");
    return sum_;
  }

 private:
  // On the driver's thread. The memory is used up: the next copy must bring all of it again.
  void take() {
    std::lock_guard lock(mutex_);
    // Libraries ask the driver whether they are in such a function: it permits no calls there.
    CUdevice device = -1;
    CUdeviceptr base = 0;
    size_t size = 0;
    was_permitted_ |= cuCtxGetDevice(&device) != CUDA_ERROR_NOT_PERMITTED;
    was_permitted_ |= cuMemGetAddressRange_v2(&base, &size, cells_) != CUDA_ERROR_NOT_PERMITTED;
    sum_ = std::accumulate(arrived_.data(), arrived_.data() + kCells, sum_ * 3);
    std::fill_n(arrived_.data(), kCells, 0u);
    ++taken_;
    changed_.notify_all();
  }

  const CUdeviceptr cells_;
  CUstream stream_ = nullptr;
  Pinned<unsigned> arrived_{kCells};
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned sum_ = 0;
  unsigned taken_ = 0;
  bool was_permitted_ = false;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kCallbacksPtx);
  const CUfunction drift = module.function("drift");
  std::array<std::vector<unsigned>, 2> host;
  for (auto& cells : host) {
    cells.resize(kCells);
    std::iota(cells.begin(), cells.end(), 9u);
  }
  const std::array<Buffer<unsigned>, 2> cells{Buffer<unsigned>(host[0]), Buffer<unsigned>(host[1])};
  CHECK(cuCtxSynchronize());
  std::array<Inbox, 2> inboxes{Inbox(cells[0].address()), Inbox(cells[1].address())};
  std::array<unsigned, 2> sums{};
  for (int step = 0; step < steps; ++step) {
    const auto which = static_cast<size_t>(step % 2);
    const auto count = static_cast<unsigned>(step / 2 + 1);
    Inbox& inbox = inboxes[which];
    const unsigned by = sums[0] ^ sums[1];
    launch(drift, {kCells / kThreads, kThreads}, inbox.stream(), cells[which].address(), by);
    CHECK(cuMemcpyDtoHAsync_v2(inbox.memory(), cells[which].address(), inbox.bytes(),
                               inbox.stream()));
    inbox.take_in_stream();
    for (unsigned at = 0; at < kCells; ++at) host[which][at] = drifted(host[which][at], at, by);
    const unsigned expected =
        std::accumulate(host[which].begin(), host[which].end(), sums[which] * 3);
    if (step % 3 == 0) CHECK(cuStreamSynchronize(inbox.stream()));
    sums[which] = inbox.wait_for(count);
    if (sums[which] != expected) fail("callbacks", "a host function saw other bytes");
    if (step % 10 == 9) std::printf("step %d: sums %u %u\n", step, sums[0], sums[1]);
  }
  must_equal("cells", cells[0].download(), host[0]);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
