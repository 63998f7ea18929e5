// Ranks that have each other's device memory open, by cuIpcGetMemHandle and cuIpcOpenMemHandle: no
// byte of it goes through MPI. Each has a strip of a plate, of which the neighbours' kernels write
// the outermost rows, and a board that it and its neighbour write in turn. Between any two that
// write the same there is a barrier, behind which the other one goes on at once. At two of the
// three barriers of a step kernels that write to other ranks' memory are still running: there
// streams wait for events of other ranks.
#include "tests/apps/mpi/neighbours.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "neighbours_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr int kWidth = 192;
constexpr int kHeight = 96;
constexpr unsigned kThreads = 32;
// More than memory that small allocations share.
constexpr unsigned kWords = 600'000;
constexpr int kReported = 5;  // every so many steps
constexpr int kShown = 20;
constexpr int kMoved = 16;        // every so many steps the boards move
constexpr int kNotFollowed = 12;  // at this one, where asked for: before they have moved

// Another rank's memory.
template <class T>
class Theirs {
 public:
  Theirs() = default;
  explicit Theirs(const CUipcMemHandle& handle) {
    CHECK(cuIpcOpenMemHandle_v2(&address_, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  }
  ~Theirs() {
    if (address_ != 0) CHECK(cuIpcCloseMemHandle(address_));
  }
  Theirs(Theirs&& other) noexcept : address_(std::exchange(other.address_, 0)) {}
  Theirs& operator=(Theirs&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  bool is_there() const { return address_ != 0; }
  CUdeviceptr address() const { return address_; }
  T* pointer() const { return reinterpret_cast<T*>(address_); }
  // How far it goes, as the driver says.
  size_t bytes() const {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CHECK(cuMemGetAddressRange_v2(&base, &bytes, address_ + 4));
    return bytes - (address_ - base);
  }

 private:
  CUdeviceptr address_ = 0;
};

// Every rank's.
template <class T>
std::vector<CUipcMemHandle> exchange_handles(const World& world, const Buffer<T>& own) {
  std::vector<CUipcMemHandle> all(static_cast<size_t>(world.size));
  if (world.size == 1) return all;
  CUipcMemHandle handle{};
  CHECK(cuIpcGetMemHandle(&handle, own.address()));
  MPI_Allgather(&handle, sizeof handle, MPI_BYTE, all.data(), sizeof handle, MPI_BYTE,
                MPI_COMM_WORLD);
  return all;
}

// The progress of each rank's kernels: the other ranks' streams wait for it, their hosts do not.
class Progress {
 public:
  explicit Progress(const World& world) {
    if (world.size == 1) return;
    CHECK(cuEventCreate(&own_, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CUipcEventHandle handle{};
    CHECK(cuIpcGetEventHandle(&handle, own_));
    std::vector<CUipcEventHandle> all(static_cast<size_t>(world.size));
    MPI_Allgather(&handle, sizeof handle, MPI_BYTE, all.data(), sizeof handle, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int rank = 0; rank < world.size; ++rank) {
      if (rank == world.rank) continue;
      CHECK(cuIpcOpenEventHandle(&theirs_.emplace_back(), all[static_cast<size_t>(rank)]));
    }
  }
  ~Progress() {
    for (CUevent event : theirs_) CHECK(cuEventDestroy_v2(event));
    if (own_ != nullptr) CHECK(cuEventDestroy_v2(own_));
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void tell(CUstream stream) {
    if (own_ != nullptr) CHECK(cuEventRecord(own_, stream));
  }
  // Behind a barrier that is behind all that was told.
  void await(CUstream stream) {
    for (CUevent event : theirs_) CHECK(cuStreamWaitEvent(stream, event, 0));
  }

 private:
  CUevent own_ = nullptr;
  std::vector<CUevent> theirs_;
};

// Two strips, which hold the heat and the next step's heat in turn.
class Plate {
 public:
  explicit Plate(const World& world)
      : first_(kHeight * world.rank / world.size),
        rows_(kHeight * (world.rank + 1) / world.size - first_) {
    if (world.size > kHeight) fail("neighbours", "a strip needs a row");
    for (size_t i = 0; i < strips_.size(); ++i) {
      const auto handles = exchange_handles(world, strips_[i]);
      const auto rank = static_cast<size_t>(world.rank);
      if (world.rank > 0) above_[i] = Theirs<float>(handles[rank - 1]);
      if (world.rank + 1 < world.size) below_[i] = Theirs<float>(handles[rank + 1]);
    }
    const int above = kHeight * (world.rank - 1) / world.size;
    rows_above_ = world.rank > 0 ? first_ - above : 0;
  }

  void step(CUstream stream) {
    const Shape shape{.blocks = kWidth / kThreads,
                      .threads = kThreads,
                      .block_rows = static_cast<unsigned>(rows_)};
    const size_t from = now_, to = 1 - now_;
    launch(relax_, shape, stream, Strip{strips_[from].pointer(), strips_[to].pointer(), kWidth},
           rows_);
    hand_over(stream, row(to, 1), above_[to], rows_above_ + 1);
    hand_over(stream, row(to, rows_), below_[to], 0);
    now_ = to;
  }

  std::vector<float> heat() const { return strips_[now_].download(); }
  void close() {
    for (auto* side : {&above_, &below_}) {
      for (Theirs<float>& strip : *side) strip = {};
    }
  }

 private:
  std::vector<float> at_start() const {
    std::vector<float> heat;
    for (int y = first_ - 1; y <= first_ + rows_; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        const float edge = y < 0 ? static_cast<float>(x) / kWidth : 0.0f;
        heat.push_back(x == kWidth - 1 ? 1.0f : edge);
      }
    }
    return heat;
  }

  const float* row(size_t strip, int y) const {
    return strips_[strip].pointer() + static_cast<size_t>(y) * kWidth;
  }

  void hand_over(CUstream stream, const float* from, const Theirs<float>& theirs, int y) {
    if (!theirs.is_there()) return;
    launch(hand_over_, Shape{.blocks = kWidth / kThreads, .threads = kThreads}, stream, from,
           theirs.pointer() + static_cast<size_t>(y) * kWidth, kWidth);
  }

  const int first_, rows_;
  int rows_above_ = 0;
  Module module_{kNeighboursPtx};
  CUfunction relax_ = module_.function("relax");
  CUfunction hand_over_ = module_.function("hand_over");
  std::array<Buffer<float>, 2> strips_{Buffer<float>(at_start()), Buffer<float>(at_start())};
  std::array<Theirs<float>, 2> above_, below_;
  size_t now_ = 0;
};

// Its own rank and the one to the right write it in turn.
class Board {
 public:
  explicit Board(const World& world) : world_(world) { open(); }

  void stir_own(CUstream stream, unsigned step) { stir(stream, own_.pointer(), 2 * step); }
  void stir_theirs(CUstream stream, unsigned step) {
    if (theirs_.is_there()) stir(stream, theirs_.pointer(), 2 * step + 1);
  }
  // Nobody has the old one open any more.
  void move() {
    close();
    MPI_Barrier(MPI_COMM_WORLD);
    Buffer<unsigned> fresh(kWords);
    CHECK(cuMemcpyDtoD_v2(fresh.address(), own_.address(), own_.bytes()));
    own_ = std::move(fresh);
    open();
  }
  // By new handles.
  void share_again() {
    close();
    MPI_Barrier(MPI_COMM_WORLD);
    open();
  }
  std::vector<unsigned> words() const { return own_.download(); }
  size_t bytes_of_theirs() const { return theirs_.is_there() ? theirs_.bytes() : 0; }
  void close() { theirs_ = {}; }

 private:
  void open() {
    const auto handles = exchange_handles(world_, own_);
    if (world_.size > 1) {
      theirs_ = Theirs<unsigned>(handles[static_cast<size_t>(world_.left())]);
    }
  }
  void stir(CUstream stream, unsigned* board, unsigned with) {
    launch(stir_, Shape{.blocks = 16, .threads = kThreads}, stream, board, kWords, with);
  }

  const World& world_;
  Module module_{kNeighboursPtx};
  CUfunction stir_ = module_.function("stir");
  Buffer<unsigned> own_{std::vector<unsigned>(kWords, 1)};
  Theirs<unsigned> theirs_;
};

// Shares memory in a way that no checkpoint follows.
void share_by_descriptor() {
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, own_device()};
  kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t bytes = 0;
  CHECK(cuMemGetAllocationGranularity(&bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory = 0;
  CHECK(cuMemCreate(&memory, bytes, &kind, 0));
  int file = -1;
  CHECK(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ::close(file);
  CHECK(cuMemRelease(memory));
}

// `gate`: a file that the first rank waits for before the second step; null: none. `ends`: at a
// later step there are no more checkpoints.
int run(int steps, const char* gate, bool ends) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kOwn, own_device());
  Stream stream;
  Plate plate(world);
  Board board(world);
  Progress progress(world);
  for (int step = 1; step <= steps; ++step) {
    const auto number = static_cast<unsigned>(step);
    while (gate != nullptr && step == 2 && world.rank == 0 && access(gate, F_OK) != 0) rest();
    board.stir_own(stream, number);
    stream.wait();
    MPI_Barrier(MPI_COMM_WORLD);
    board.stir_theirs(stream, number);
    plate.step(stream);
    progress.tell(stream);
    MPI_Barrier(MPI_COMM_WORLD);
    progress.await(stream);
    MPI_Barrier(MPI_COMM_WORLD);
    const bool last = step == steps;
    if (step % kReported == 0 || step % kMoved == 0 || last) stream.wait();
    if (step % kReported == 0 || last) {
      report.line("step %d: plate %016" PRIx64 ", board %016" PRIx64 ", opened %zu bytes", step,
                  digest(plate.heat()), digest(board.words()), board.bytes_of_theirs());
    }
    if (step % kShown == 0 || last) report.progress("step %d", step);
    if (step % kMoved == 0) board.move();
    if (ends && step == kNotFollowed) {
      share_by_descriptor();
      board.share_again();
    }
  }
  // Memory that another rank has open must not be freed.
  plate.close();
  board.close();
  MPI_Barrier(MPI_COMM_WORLD);
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  const bool ends = argc == 3 && std::strcmp(argv[2], "ends") == 0;
  const char* const gate = argc > 2 && !ends ? argv[2] : nullptr;
  return app::run(app::steps_from(std::min(argc, 2), argv, 60), gate, ends);
}
