// A vector that grows and shrinks by mapping physical memory: its pieces change places, lie
// unmapped for some time, are mapped twice, and go to another range of addresses. Nothing but the
// contents of that memory is carried from one step to the next. Where two devices reach each other,
// both have pieces, and kernels of both write to all of them.
#include "expandable.h"

#include <deque>
#include <memory>
#include <optional>

#include "app.h"
#include "expandable_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr size_t kMostPieces = 8;

unsigned blocks(size_t pieces) {
  return static_cast<unsigned>((pieces * kCells + kThreads - 1) / kThreads);
}

class Reservation {
 public:
  explicit Reservation(size_t pieces) : bytes_(pieces * kPieceBytes) {
    CHECK(cuMemAddressReserve(&address_, bytes_, 0, 0, 0));
  }
  ~Reservation() { CHECK(cuMemAddressFree(address_, bytes_)); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  CUdeviceptr at(size_t piece) const { return address_ + piece * kPieceBytes; }

 private:
  CUdeviceptr address_ = 0;
  size_t bytes_;
};

// One device with what runs on it.
class Worker {
 public:
  explicit Worker(int ordinal) : device_(ContextKind::kPrimary, ordinal) {
    CHECK(cuCtxGetCurrent(&context_));
    module_.emplace(kExpandablePtx);
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&cells_, kMostPieces * kCells * sizeof(unsigned)));
  }
  ~Worker() {
    make_current();
    CHECK(cuMemFree_v2(cells_));
    CHECK(cuStreamDestroy_v2(stream_));
    module_.reset();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void make_current() const { CHECK(cuCtxSetCurrent(context_)); }
  void wait() const { CHECK(cuStreamSynchronize(stream_)); }
  void seed(CUdeviceptr piece, unsigned salt) const {
    launch(module_->function("seed"), {blocks(1), kThreads}, stream_, piece, salt);
  }
  void stir(CUdeviceptr vector, size_t pieces, unsigned salt) const {
    const auto count = static_cast<unsigned>(pieces);
    launch(module_->function("stir"), {blocks(pieces), kThreads}, stream_, vector, count, salt);
    launch(module_->function("settle"), {blocks(pieces), kThreads}, stream_, vector, count);
  }
  std::vector<unsigned> gather(CUdeviceptr vector, size_t pieces) const {
    const auto count = static_cast<unsigned>(pieces);
    std::vector<unsigned> cells(pieces * kCells);
    launch(module_->function("gather"), {blocks(pieces), kThreads}, stream_, vector, count, cells_);
    CHECK(cuMemcpyDtoHAsync_v2(cells.data(), cells_, cells.size() * sizeof(unsigned), stream_));
    wait();
    return cells;
  }

 private:
  Device device_;
  CUcontext context_ = nullptr;
  std::optional<Module> module_;
  CUstream stream_ = nullptr;
  CUdeviceptr cells_ = 0;
};

class Expandable {
 public:
  Expandable() {
    int count = 0, reaches = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    if (count > 1) CHECK(cuDeviceCanAccessPeer(&reaches, 0, 1));
    if (count > 1 && reaches != 0) CHECK(cuDeviceCanAccessPeer(&reaches, 1, 0));
    for (int device = 0; device < (reaches != 0 ? 2 : 1); ++device) {
      workers_.emplace_back(device);
      accesses_.push_back(
          {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
    const CUmemAllocationProp kind = kind_of(0);
    size_t granularity = 0;
    CHECK(cuMemGetAllocationGranularity(&granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (kPieceBytes % granularity != 0)
      fail("expandable", "a piece is no multiple of the granularity");
    space_ = std::make_unique<Reservation>(kMostPieces);
    for (unsigned salt = 0; salt < 3; ++salt) grow(salt);
  }
  ~Expandable() {
    while (parked_) unpark();
    while (!pieces_.empty()) shrink();
  }

  size_t pieces() const { return pieces_.size(); }

  void step(unsigned step) {
    if (step % 6 == 0 && pieces_.size() < kMostPieces - 1) grow(step);
    if (step % 10 == 3 && pieces_.size() > 3) shrink();
    if (step % 5 == 1) exchange(0, pieces_.size() - 1);
    if (step % 7 == 2 && !parked_) park();
    if (step % 7 == 5 && parked_) unpark();
    if (step % 12 == 7) move_all();
    const Worker& worker = workers_[step % workers_.size()];
    worker.make_current();
    worker.stir(space_->at(0), pieces_.size(), step);
    host_stir(0, pieces_.size(), step);
    worker.wait();
    if (step % 8 == 4) through_another_address(worker, step);
  }

  std::vector<unsigned> device_cells() const {
    workers_.front().make_current();
    return workers_.front().gather(space_->at(0), pieces_.size());
  }
  std::vector<unsigned> host_cells() const {
    std::vector<unsigned> cells;
    for (const Piece& piece : pieces_) {
      cells.insert(cells.end(), piece.cells.begin(), piece.cells.end());
    }
    return cells;
  }
  // The driver's answers about the last piece: its access, and its offset in a range of some size.
  struct Said {
    unsigned long long access = 0;
    uint64_t offset = 0;
    size_t size = 0;
  };
  Said last() const {
    Said said;
    CUdeviceptr begin = 0;
    const CUdeviceptr at = space_->at(pieces_.size() - 1) + 100;
    CHECK(cuMemGetAccess(&said.access, &accesses_.front().location, at));
    CHECK(cuMemGetAddressRange_v2(&begin, &said.size, at));
    said.offset = at - begin;
    return said;
  }

 private:
  struct Piece {
    CUmemGenericAllocationHandle handle = 0;
    int device = 0;
    bool held = true;  // the program has a reference beside the mapping
    std::vector<unsigned> cells;
  };

  static CUmemAllocationProp kind_of(int device) {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return kind;
  }

  void map(const Piece& piece, CUdeviceptr address) const {
    CHECK(cuMemMap(address, kPieceBytes, 0, piece.handle, 0));
    CHECK(cuMemSetAccess(address, kPieceBytes, accesses_.data(), accesses_.size()));
  }
  // So that the memory outlives its mapping.
  void hold(Piece& piece, CUdeviceptr address) const {
    if (piece.held) return;
    CHECK(cuMemRetainAllocationHandle(&piece.handle, reinterpret_cast<void*>(address)));
    piece.held = true;
    CUmemAllocationProp kind{};
    CHECK(cuMemGetAllocationPropertiesFromHandle(&kind, piece.handle));
    if (kind.location.id != piece.device) fail("expandable", "a piece is on another device");
  }

  void grow(unsigned salt) {
    Piece piece;
    piece.device = static_cast<int>(salt % workers_.size());
    const CUmemAllocationProp kind = kind_of(piece.device);
    CHECK(cuMemCreate(&piece.handle, kPieceBytes, &kind, 0));
    const CUdeviceptr address = space_->at(pieces_.size());
    map(piece, address);
    // As many programs do: the mapping alone keeps it.
    if (salt % 4 == 2) {
      CHECK(cuMemRelease(piece.handle));
      piece.held = false;
    }
    workers_.front().make_current();
    workers_.front().seed(address, salt);
    workers_.front().wait();
    for (unsigned cell = 0; cell < kCells; ++cell) piece.cells.push_back(salt * 977u + cell);
    pieces_.push_back(std::move(piece));
  }
  void shrink() {
    const Piece& last = pieces_.back();
    CHECK(cuMemUnmap(space_->at(pieces_.size() - 1), kPieceBytes));
    if (last.held) CHECK(cuMemRelease(last.handle));
    pieces_.pop_back();
  }
  void exchange(size_t one, size_t other) {
    for (const size_t at : {one, other}) {
      hold(pieces_[at], space_->at(at));
      CHECK(cuMemUnmap(space_->at(at), kPieceBytes));
    }
    std::swap(pieces_[one], pieces_[other]);
    for (const size_t at : {one, other}) map(pieces_[at], space_->at(at));
  }
  // The last piece leaves the vector, with what it holds.
  void park() {
    const CUdeviceptr address = space_->at(pieces_.size() - 1);
    hold(pieces_.back(), address);
    CHECK(cuMemUnmap(address, kPieceBytes));
    parked_ = std::move(pieces_.back());
    pieces_.pop_back();
  }
  void unpark() {
    map(*parked_, space_->at(pieces_.size()));
    pieces_.push_back(std::move(*parked_));
    parked_.reset();
  }
  // To another range of addresses.
  void move_all() {
    auto other = std::make_unique<Reservation>(kMostPieces);
    for (size_t i = 0; i < pieces_.size(); ++i) hold(pieces_[i], space_->at(i));
    CHECK(cuMemUnmap(space_->at(0), pieces_.size() * kPieceBytes));
    space_ = std::move(other);
    for (size_t i = 0; i < pieces_.size(); ++i) map(pieces_[i], space_->at(i));
  }

  // The first piece at a second place, which leads to the same memory.
  void through_another_address(const Worker& worker, unsigned step) {
    hold(pieces_.front(), space_->at(0));
    const Reservation second(1);
    map(pieces_.front(), second.at(0));
    worker.stir(second.at(0), 1, step + 1000);
    host_stir(0, 1, step + 1000);
    worker.wait();
    CHECK(cuMemUnmap(second.at(0), kPieceBytes));
  }

  void host_stir(size_t first, size_t count, unsigned salt) {
    std::vector<unsigned> before;
    for (size_t i = first; i < first + count; ++i) {
      before.insert(before.end(), pieces_[i].cells.begin(), pieces_[i].cells.end());
    }
    for (size_t cell = 0; cell < before.size(); ++cell) {
      pieces_[first + cell / kCells].cells[cell % kCells] =
          stirred(before[cell], before[(cell + 1) % before.size()], salt);
    }
  }

  std::deque<Worker> workers_;
  std::vector<CUmemAccessDesc> accesses_;
  std::unique_ptr<Reservation> space_;
  std::vector<Piece> pieces_;
  std::optional<Piece> parked_;
};

int run(int steps) {
  {
    Expandable vector;
    for (int step = 0; step < steps; ++step) {
      vector.step(static_cast<unsigned>(step));
      if (step % 5 != 4) continue;
      const std::vector<unsigned> seen = vector.device_cells();
      must_equal("vector", seen, vector.host_cells());
      const Expandable::Said last = vector.last();
      std::printf("step %d: %zu pieces, access %llu, %" PRIu64 " of %zu bytes, digest %016" PRIx64
                  "\n",
                  step, vector.pieces(), last.access, last.offset, last.size, digest(seen));
    }
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 600));
}
