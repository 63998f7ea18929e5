// Batches of copies: into memory that nothing else ever writes, from the device, from the host, and
// to the host, of rows and of boxes.
#include "batches.h"

#include <array>
#include <cstring>

#include "app.h"
#include "batches_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr size_t kWord = sizeof(unsigned);
// A volume of 16 layers of 16 rows of 16 words.
constexpr size_t kSide = 16, kRow = kSide * kWord;

// Pieces of at most 40 words, all of one batch in another place.
class Batch {
 public:
  void add(CUdeviceptr to, CUdeviceptr from, size_t words) {
    to_.push_back(to);
    from_.push_back(from);
    sizes_.push_back(words * kWord);
  }
  void copy(CUstream stream, bool new_form, CUmemcpySrcAccessOrder order) {
    CUmemcpyAttributes how{};
    how.srcAccessOrder = order;
    size_t first = 0, failed = 0;
    CHECK(new_form ? cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), to_.size(),
                                           &how, &first, 1, stream)
                   : cuMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), to_.size(), &how,
                                        &first, 1, &failed, stream));
  }

 private:
  std::vector<CUdeviceptr> to_, from_;
  std::vector<size_t> sizes_;
};

CUdeviceptr host_address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

class Program {
 public:
  Program() {
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (unsigned at = 0; at < kCells; ++at) host_cells_[at] = at * 3;
    cells_.upload(host_cells_);
    scattered_.upload(host_scattered_);
    volume_.upload(host_volume_);
    CHECK(cuCtxSynchronize());
  }
  ~Program() { CHECK(cuStreamDestroy_v2(stream_)); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step(unsigned number, CUfunction advance) {
    launch(advance, {kCells / kThreads, kThreads}, stream_, cells_.address(), number);
    for (unsigned at = 0; at < kCells; ++at) host_cells_[at] = stepped(host_cells_[at], at, number);
    scatter(number);
    number % 2 == 0 ? bring_in(number) : box(number);
    if (number % 3 == 2) look(number);
  }
  void compare() const {
    CHECK(cuStreamSynchronize(stream_));
    must_equal("cells", cells_.download(), host_cells_);
    must_equal("scattered", scattered_.download(), host_scattered_);
    must_equal("volume", volume_.download(), host_volume_);
  }
  uint64_t sum() const {
    return digest(host_scattered_) ^ digest(host_volume_) ^ digest(host_cells_);
  }

 private:
  // Within the device: 3 pieces, or so many that their places are not told one by one.
  void scatter(unsigned number) {
    Batch batch;
    const unsigned pieces = number % 5 == 4 ? 40 : 3;
    for (unsigned i = 0; i < pieces; ++i) {
      const unsigned to = i * 100 + number * 7 % 60, from = (i * 131 + number * 17) % (kCells - 40);
      batch.add(scattered_.address() + to * kWord, cells_.address() + from * kWord, 40);
      std::copy_n(host_cells_.begin() + from, 40, host_scattered_.begin() + to);
    }
    batch.copy(stream_, number % 2 == 0, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  }

  // From memory that changes as soon as the call returns.
  void bring_in(unsigned number) {
    std::array<unsigned, 30> own;
    own.fill(number * 0x9e3779b9u);
    Batch batch;
    for (const unsigned to : {number * 11 % 3000, 3100 + number * 3 % 900}) {
      batch.add(scattered_.address() + to * kWord, host_address(own.data()), own.size());
      std::copy(own.begin(), own.end(), host_scattered_.begin() + to);
    }
    batch.copy(stream_, number % 4 == 0, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    own.fill(0);
  }

  // Two boxes of 5 * 4 * 3 words.
  void box(unsigned number) {
    std::array<CUDA_MEMCPY3D_BATCH_OP, 2> boxes{};
    for (unsigned i = 0; i < 2; ++i) {
      const size_t to = (i * 8 * kSide + number % 8) * kSide + number % 11;
      const size_t from = (number * 5 + i * 700) % (kCells - 300);
      CUDA_MEMCPY3D_BATCH_OP& box = boxes[i];
      box.dst.type = box.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      box.dst.op.ptr = {volume_.address() + to * kWord, kRow, kSide, {}};
      box.src.op.ptr = {cells_.address() + from * kWord, 6 * kWord, 0, {}};
      box.extent = {5 * kWord, 4, 3};
      box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      for (size_t z = 0; z < 3; ++z) {
        for (size_t y = 0; y < 4; ++y) {
          for (size_t x = 0; x < 5; ++x) {
            host_volume_[to + (z * kSide + y) * kSide + x] =
                host_cells_[from + (z * 4 + y) * 6 + x];
          }
        }
      }
    }
    size_t failed = 0;
    CHECK(number % 4 == 1 ? cuMemcpy3DBatchAsync_v2(boxes.size(), boxes.data(), 0, stream_)
                          : cuMemcpy3DBatchAsync(boxes.size(), boxes.data(), &failed, 0, stream_));
  }

  // Into pinned memory; what is found there goes on into the next steps.
  void look(unsigned number) {
    Batch batch;
    const unsigned from = number * 13 % 3000;
    for (unsigned i = 0; i < 2; ++i) {
      batch.add(host_address(pinned_.data() + i * 40),
                scattered_.address() + (from + i * 50) * kWord, 40);
    }
    batch.copy(stream_, number % 2 == 0, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
    CHECK(cuStreamSynchronize(stream_));
    unsigned sum = number;
    for (unsigned i = 0; i < 80; ++i) sum = sum * 31 + pinned_[i];
    CHECK(cuMemcpyHtoD_v2(cells_.address(), &sum, kWord));
    host_cells_[0] = sum;
    unsigned expected = number;
    for (unsigned i = 0; i < 80; ++i) {
      expected = expected * 31 + host_scattered_[from + i / 40 * 50 + i % 40];
    }
    if (sum != expected) fail("batches", "the host found other bytes");
  }

  CUstream stream_ = nullptr;
  std::vector<unsigned> host_cells_ = std::vector<unsigned>(kCells);
  std::vector<unsigned> host_scattered_ = std::vector<unsigned>(kCells);
  std::vector<unsigned> host_volume_ = std::vector<unsigned>(kSide * kSide * kSide);
  Buffer<unsigned> cells_{kCells}, scattered_{kCells}, volume_{kSide * kSide * kSide};
  Pinned<unsigned> pinned_{80};
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kBatchesPtx);
  const CUfunction advance = module.function("advance");
  Program program;
  // A replay refuses the refused batch again, and names the same copy.
  const Buffer<unsigned> two(2);
  CUdeviceptr to[] = {two.address(), two.address() + kWord}, from[] = {to[1], to[0]};
  size_t sizes[] = {kWord, 0}, first = 0, failed = 77;
  CUmemcpyAttributes how{};
  how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  if (cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, &failed, CU_STREAM_PER_THREAD) ==
      CUDA_SUCCESS) {
    fail("batches", "a copy of nothing was made");
  }
  std::printf("failed: %zu\n", failed);
  for (int step = 0; step < steps; ++step) {
    program.step(static_cast<unsigned>(step), advance);
    if (step % 10 == 9) {
      program.compare();
      std::printf("step %d: %016" PRIx64 "\n", step, program.sum());
    }
  }
  program.compare();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
