// Ranks that do different numbers of steps. In the first half of them all ranks meet in barriers;
// then they leave one by one, the first rank first. One that leaves hands its mass to the first of
// those that go on, gives its device back, at once or only after MPI, and waits in MPI_Finalize.
//
// Barriers and reductions go over the world, a copy of it, its halves, and those that still take
// part; some barriers do not block. The whole mass stays what it was: that is checked.
#include "tests/apps/mpi/uneven.h"

#include <optional>

#include "tests/apps/mpi/ranks.h"
#include "uneven_ptx.h"

namespace app {

constexpr unsigned kCells = 16384;
constexpr unsigned kThreads = 128;
constexpr int kReported = 5;  // every so many steps
constexpr int kShown = 20;

class Communicator {
 public:
  Communicator() { MPI_Comm_dup(MPI_COMM_WORLD, &communicator_); }
  // The ranks of the same colour; none for MPI_UNDEFINED.
  Communicator(MPI_Comm parent, int colour, int rank) {
    MPI_Comm_split(parent, colour, rank, &communicator_);
  }
  ~Communicator() {
    if (communicator_ != MPI_COMM_NULL) MPI_Comm_free(&communicator_);
  }
  Communicator(Communicator&& other) noexcept
      : communicator_(std::exchange(other.communicator_, MPI_COMM_NULL)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(communicator_, other.communicator_);
    return *this;
  }
  operator MPI_Comm() const { return communicator_; }
  bool none() const { return communicator_ == MPI_COMM_NULL; }

  int rank() const {
    int rank = 0;
    MPI_Comm_rank(communicator_, &rank);
    return rank;
  }
  int size() const {
    int size = 0;
    MPI_Comm_size(communicator_, &size);
    return size;
  }
  uint64_t sum(uint64_t value) const {
    uint64_t total = 0;
    MPI_Allreduce(&value, &total, 1, MPI_UINT64_T, MPI_SUM, communicator_);
    return total;
  }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

// A barrier that others may be late for while this rank does something else.
class PassingBarrier {
 public:
  explicit PassingBarrier(MPI_Comm communicator) { MPI_Ibarrier(communicator, &request_); }
  void wait() {
    int done = 0;
    for (MPI_Test(&request_, &done, MPI_STATUS_IGNORE); done == 0;
         MPI_Test(&request_, &done, MPI_STATUS_IGNORE)) {
      rest();
    }
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// A rank's device and what lies on it.
class Gpu {
 public:
  explicit Gpu(int rank)
      : device_(rank % 2 == 0 ? ContextKind::kOwn : ContextKind::kPrimary, own_device()),
        module_(kUnevenPtx),
        kernels_(module_) {
    Random random(static_cast<uint64_t>(rank) + 1);
    std::vector<unsigned> cells(kCells);
    for (unsigned& cell : cells) cell = random.below(1000);
    memory_.emplace(cells);
  }

  void step(int step, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const auto round = static_cast<unsigned>(step * 16 + i);
      launch(kernels_.share, kShape, nullptr, memory_->cells.pointer(), kCells, round % 2, round);
    }
  }
  void deposit(unsigned mass) {
    launch(kernels_.deposit, Shape{}, nullptr, memory_->cells.pointer(), 0u, mass);
  }
  unsigned mass() {
    CHECK(cuMemsetD32_v2(memory_->total.address(), 0, 1));
    launch(kernels_.weigh, Shape{.blocks = 2, .threads = kThreads}, nullptr,
           memory_->cells.pointer(), kCells, memory_->total.pointer());
    return memory_->total.download()[0];
  }
  std::vector<unsigned> cells() const { return memory_->cells.download(); }
  void free_memory() { memory_.reset(); }

 private:
  static constexpr Shape kShape{.blocks = kCells / 2 / kThreads, .threads = kThreads};

  struct Kernels {
    explicit Kernels(const Module& module)
        : share(module.function("share")),
          deposit(module.function("deposit")),
          weigh(module.function("weigh")) {}
    CUfunction share, deposit, weigh;
  };
  struct Memory {
    explicit Memory(const std::vector<unsigned>& values) : cells(values) {}
    Buffer<unsigned> cells;
    Buffer<unsigned> total{1};
  };

  Device device_;
  Module module_;
  Kernels kernels_;
  std::optional<Memory> memory_;
};

class Rank {
 public:
  Rank(const World& world, std::optional<Gpu>& gpu, int steps)
      : world_(world),
        gpu_(gpu),
        steps_(steps),
        report_(world.rank),
        half_(MPI_COMM_WORLD, world.rank % 2, world.rank),
        active_(MPI_COMM_WORLD, 0, world.rank) {
    gpu_.emplace(world.rank);
    whole_ = all_.sum(gpu_->mass());
  }

  int run() {
    for (int step = 0; !active_.none(); ++step) {
      if (step < together()) {
        step_with_all(step);
      } else {
        step_with_active(step);
      }
      const bool last = step + 1 == end(world_.rank);
      if (step % kReported == 0 || last) {
        report_.line("step %d: digest %016" PRIx64, step, digest(gpu_->cells()));
      }
      if (step % kShown == 0 || last) report_.progress("step %d", step);
      if (someone_leaves(step + 1)) part(last);
    }
    return report_.finish();
  }

 private:
  int together() const { return (steps_ + 1) / 2; }
  // The first step that a rank does no more.
  int end(int rank) const { return together() + (steps_ - together()) * (rank + 1) / world_.size; }
  bool someone_leaves(int step) const {
    for (int rank = 0; rank < world_.size; ++rank) {
      if (end(rank) == step) return true;
    }
    return false;
  }
  int rounds() const { return 2 + world_.rank % 3; }

  void step_with_all(int step) {
    gpu_->step(step, rounds());
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % 4 == 1) {
      PassingBarrier barrier(all_);
      gpu_->step(step, 1);
      barrier.wait();
    }
    if (step % 5 == 0) check(all_, step);
    if (step % 5 == 2) {
      report_.line("step %d: half has %" PRIu64, step, half_.sum(gpu_->mass()));
      MPI_Barrier(half_);
    }
  }

  void step_with_active(int step) {
    PassingBarrier barrier(active_);
    gpu_->step(step, rounds());
    barrier.wait();
    if (step % 2 == 0) MPI_Barrier(active_);
    if (step % 3 == 0) check(active_, step);
  }

  void check(const Communicator& communicator, int step) {
    const uint64_t mass = communicator.sum(gpu_->mass());
    report_.line("step %d: %d ranks have %" PRIu64, step, communicator.size(), mass);
    if (mass != whole_) fail("mass", "was made or lost");
  }

  void part(bool leaving) {
    const unsigned mass = leaving ? gpu_->mass() : 0;
    if (leaving) leave_device();
    const uint64_t handed = active_.sum(mass);
    active_ = Communicator(active_, leaving ? MPI_UNDEFINED : 0, world_.rank);
    if (leaving) return;
    if (active_.rank() == 0) gpu_->deposit(static_cast<unsigned>(handed));
    report_.line("%d ranks are left", active_.size());
  }

  // A rank that frees nothing here does so after MPI_Finalize.
  void leave_device() {
    if (world_.rank % 3 == 0) gpu_.reset();
    if (world_.rank % 3 == 1) gpu_->free_memory();
  }

  const World& world_;
  std::optional<Gpu>& gpu_;
  const int steps_;
  Report report_;
  Communicator all_, half_, active_;
  uint64_t whole_ = 0;
};

int run(int steps) {
  std::optional<Gpu> gpu;
  const World world(MPI_THREAD_FUNNELED);
  return Rank(world, gpu, steps).run();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 240));
}
