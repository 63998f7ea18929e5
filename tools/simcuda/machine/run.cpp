// A launch: its blocks in order, one at a time unless one waits for others.
#include <algorithm>
#include <cstring>
#include <deque>

#include "tools/simcuda/machine/block.h"

namespace simcuda {
namespace {

// Turns of a block's warps before it must share the machine with the blocks after it: only blocks
// that wait for others take that long.
constexpr uint32_t kBlockTurn = 100;
// A grid whose blocks wait for one another is resident as a whole.
constexpr uint32_t kSharedTurn = 1;
// Operations of a warp before the next one has its turn: fewer where blocks may only be waiting.
constexpr uint64_t kWarpTurn = 20000;
constexpr uint64_t kSharedWarpTurn = 1000;
constexpr size_t kMostResident = 4096;

Dim3 block_index(uint64_t number, Dim3 grid) {
  return {static_cast<uint32_t>(number % grid.x), static_cast<uint32_t>(number / grid.x % grid.y),
          static_cast<uint32_t>(number / grid.x / grid.y)};
}

class Runner {
 public:
  explicit Runner(LaunchContext& context)
      : context_(context),
        blocks_(uint64_t{context.launch->grid.x} * context.launch->grid.y *
                context.launch->grid.z) {}

  Fault run() {
    while (next_ < blocks_ || !resident_.empty()) {
      const size_t most = context_.launch->cooperative ? blocks_ : resident_.size() + 1;
      while (next_ < blocks_ && resident_.size() < std::min(most, kMostResident)) begin();
      if (!turn()) return fault_;
    }
    return {};
  }

 private:
  void begin() {
    std::unique_ptr<Block> block;
    if (idle_.empty()) {
      block = std::make_unique<Block>(context_);
    } else {
      block = std::move(idle_.back());
      idle_.pop_back();
    }
    block->start(block_index(next_++, context_.launch->grid));
    resident_.push_back(std::move(block));
  }

  // One turn of each resident block; false on a fault.
  bool turn() {
    const bool alone = resident_.size() == 1;
    for (size_t i = 0; i < resident_.size();) {
      const Stop stop =
          resident_[i]->run(alone ? kBlockTurn : kSharedTurn, alone ? kWarpTurn : kSharedWarpTurn);
      if (stop == Stop::kFault) {
        fault_ = resident_[i]->fault();
        return false;
      }
      if (stop == Stop::kDone) {
        idle_.push_back(std::move(resident_[i]));
        resident_.erase(resident_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return true;
  }

  LaunchContext& context_;
  uint64_t blocks_;
  uint64_t next_ = 0;
  std::deque<std::unique_ptr<Block>> resident_;
  std::vector<std::unique_ptr<Block>> idle_;
  Fault fault_;
};

// The memory by which blocks of a cooperative launch wait for one another: its size, and a barrier.
struct Workspace {
  alignas(16) std::byte bytes[kWorkspaceBytes] = {};
  void add_to(ExtentTable& table) {
    constexpr uint32_t kSize = kWorkspaceBytes;
    std::memcpy(bytes, &kSize, sizeof kSize);
    const Extent extent{kWorkspace, kWorkspaceBytes, bytes};
    const auto after =
        std::upper_bound(table.extents.begin(), table.extents.end(), extent,
                         [](const Extent& a, const Extent& b) { return a.address < b.address; });
    table.extents.insert(after, extent);
  }
};

}  // namespace

Fault run(const Launch& launch, Counters& counters, const std::atomic<bool>& cancel,
          LaunchTotals* totals) {
  LaunchContext context;
  context.launch = &launch;
  Workspace workspace;
  ExtentTable with_workspace;
  context.memory = launch.memory.get();
  if (launch.cooperative) {
    if (launch.memory) with_workspace = *launch.memory;
    workspace.add_to(with_workspace);
    context.memory = &with_workspace;
  }
  context.code = launch.kernel->code;
  context.kernel = &context.code->functions[launch.kernel->function];
  context.threads = launch.block.x * launch.block.y * launch.block.z;
  context.shared_bytes = launch.dynamic_shared_bytes > 0
                             ? context.code->dynamic_shared_base + launch.dynamic_shared_bytes
                             : context.kernel->shared_bytes;
  if (context.code->uses_reserved_shared) {
    context.reserved_shared = (context.shared_bytes + 15) / 16 * 16;
    context.shared_bytes = context.reserved_shared + kReservedShared;
  }
  context.local_bytes = (context.kernel->stack_bytes + 15) / 16 * 16;
  context.grid_id = counters.launches.fetch_add(1, std::memory_order_relaxed) + 1;
  context.cancel = &cancel;
  Runner runner(context);
  Fault fault = runner.run();
  counters.thread_instructions.fetch_add(context.instructions, std::memory_order_relaxed);
  if (totals != nullptr) {
    *totals = {context.traffic.device_sectors * kSectorBytes,
               context.traffic.host_sectors * kSectorBytes, context.instructions, context.timer};
  }
  return fault;
}

}  // namespace simcuda
