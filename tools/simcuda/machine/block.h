// A block in execution: its warps, shared memory and barriers.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tools/simcuda/machine/warp.h"

namespace simcuda {

// State that all blocks of a launch share.
struct LaunchContext {
  const Launch* launch = nullptr;
  const ExtentTable* memory = nullptr;  // the launch's, and the workspace
  const Code* code = nullptr;
  const CodeFunction* kernel = nullptr;
  uint32_t threads = 0;          // of a block
  uint64_t shared_bytes = 0;     // static, dynamic and reserved
  uint64_t reserved_shared = 0;  // where the reserved part begins
  uint64_t local_bytes = 0;      // of a thread
  uint64_t grid_id = 0;
  uint64_t operations = 0;    // executed so far: the clock
  uint64_t instructions = 0;  // of all threads
  Traffic traffic;
  uint64_t timer = 0;  // nanoseconds since the launch began, as %globaltimer counts them
  const std::atomic<bool>* cancel = nullptr;
};

class Block {
 public:
  explicit Block(LaunchContext& context);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void start(Dim3 index);
  // About `slices` turns of each warp, each of about `operations`. kBlocked: nothing can ever move
  // again.
  Stop run(uint32_t slices, uint64_t operations);
  const Fault& fault() const { return fault_; }

  // For the warps.
  void arrive(Warp& warp, Group& group, const BarrierSite& site);
  void lanes_exited() { recheck_ = true; }
  LaunchContext& context() { return context_; }
  Dim3 index() const { return index_; }

 private:
  static constexpr uint32_t kNumbered = 16;  // as bar and barrier name them
  static constexpr uint32_t kOfCluster = kNumbered;
  static constexpr uint32_t kBarriers = kNumbered + 1;
  struct Barrier {
    uint32_t arrived = 0;   // threads
    uint32_t expected = 0;  // 0: all that have not exited
    uint32_t popc = 0;
    bool all = true, any = false;
  };
  uint32_t live_threads() const;
  void release(uint32_t barrier);
  void release_complete();
  Stop deadlock();

  LaunchContext& context_;
  Dim3 index_;
  std::vector<Warp> warps_;
  std::vector<std::byte> shared_;
  struct FreeBytes {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, FreeBytes> local_;
  std::array<Barrier, kBarriers> barriers_{};
  std::array<const Extent*, kHints> hints_{};
  FramePool frames_;
  bool recheck_ = false;
  Fault fault_;
};

// One line about what went wrong, for a fault of `warp` at its fault_op.
std::string describe_fault(const LaunchContext& context, const Warp& warp, Dim3 block);

}  // namespace simcuda
