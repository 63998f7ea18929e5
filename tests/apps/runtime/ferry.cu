// Work that is handed over in batches: copies of rows and of boxes into memory that nothing else
// writes, managed memory that is moved and discarded, a library that the program loads itself, and
// callbacks that tell the program how far its stream has come.
#include <algorithm>
#include <array>
#include <atomic>

#include "program.h"

namespace {

constexpr uint32_t kCells = 4096, kThreads = 128, kBlocks = kCells / kThreads;
constexpr size_t kWord = sizeof(uint32_t);

__host__ __device__ inline uint32_t moved(uint32_t value, uint32_t at, uint32_t by) {
  return (value ^ by) * 1664525u + at;
}

__global__ void move(uint32_t* cells, uint32_t by) {
  const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  cells[at] = moved(cells[at], at, by);
}

__global__ void fill(uint32_t* cells, uint32_t by) {
  const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  cells[at] = moved(by, at, by);
}

// Adds to its own count, and the count to the word that it is given.
constexpr const char* kLibrary = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 calls = 0;
.visible .entry count(.param .u64 word) {
  .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [word];
  ld.global.u32 %r1, [calls];
  add.u32 %r2, %r1, 1;
  st.global.u32 [calls], %r2;
  ld.global.u32 %r3, [%d1];
  add.u32 %r4, %r3, %r2;
  st.global.u32 [%d1], %r4;
  ret;
}
)";

class Library {
 public:
  Library() {
    CHECK(cudaLibraryLoadData(&library_, kLibrary, nullptr, nullptr, 0, nullptr, nullptr, 0));
    unsigned count = 0;
    CHECK(cudaLibraryGetKernelCount(&count, library_));
    if (count != 1) std::exit(1);
    CHECK(cudaLibraryEnumerateKernels(&kernel_, 1, library_));
    size_t bytes = 0;
    CHECK(cudaLibraryGetGlobal(&calls_, &bytes, library_, "calls"));
  }
  ~Library() { CHECK(cudaLibraryUnload(library_)); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void count(uint32_t* word, cudaStream_t stream) {
    void* parameters[] = {&word};
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), 1, 1, parameters, 0, stream));
  }
  uint32_t calls() const { return fetch(static_cast<const uint32_t*>(calls_), 1)[0]; }

 private:
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  void* calls_ = nullptr;
};

// Pieces of 20 words, and a box of 5 * 4 * 3 of a volume of 16 * 16 * 16.
void scatter(uint32_t step, uint32_t* to, uint32_t* volume, uint32_t* from,
             std::vector<uint32_t>& to_model, std::vector<uint32_t>& volume_model,
             const std::vector<uint32_t>& from_model, cudaStream_t stream) {
  std::array<void*, 3> targets;
  std::array<const void*, 3> sources;
  std::array<size_t, 3> sizes;
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t there = i * 1000 + step * 13 % 900, here = (step * 31 + i * 977) % (kCells - 20);
    targets[i] = to + there;
    sources[i] = from + here;
    sizes[i] = 20 * kWord;
    std::copy_n(from_model.begin() + here, 20, to_model.begin() + there);
  }
  cudaMemcpyAttributes how{};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  CHECK(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), 3, &how, &first, 1,
                             stream));
  const uint32_t there = (step % 8 * 16 + step % 9) * 16 + step % 11, here = step * 7 % 3000;
  cudaMemcpy3DBatchOp box{};
  box.dst.type = box.src.type = cudaMemcpyOperandTypePointer;
  box.dst.op.ptr.ptr = volume + there;
  box.dst.op.ptr.rowLength = 16 * kWord;
  box.dst.op.ptr.layerHeight = 16;
  box.src.op.ptr.ptr = from + here;
  box.extent = make_cudaExtent(5 * kWord, 4, 3);
  box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  CHECK(cudaMemcpy3DBatchAsync(1, &box, 0, stream));
  for (uint32_t z = 0; z < 3; ++z) {
    for (uint32_t y = 0; y < 4; ++y) {
      std::copy_n(from_model.begin() + here + (z * 4 + y) * 5, 5,
                  volume_model.begin() + there + (z * 16 + y) * 16);
    }
  }
}

std::atomic<uint32_t> told{0};

void tell(cudaStream_t, cudaError_t status, void* step) {
  if (status == cudaSuccess) told += static_cast<uint32_t>(reinterpret_cast<uintptr_t>(step));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 2000);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<uint32_t> cells_model(kCells, 3u), to_model(kCells), volume_model(kCells);
  uint32_t *cells = upload(cells_model), *to = upload(to_model), *volume = upload(volume_model);
  uint32_t* managed = nullptr;
  CHECK(cudaMallocManaged(&managed, kCells * kWord));
  std::fill_n(managed, kCells, 0u);
  CHECK(cudaDeviceSynchronize());
  {
    Library library;
    const cudaMemLocation on_device{cudaMemLocationTypeDevice, 0};
    uint32_t told_model = 0, called = 0;
    for (int i = 1; i <= steps; ++i) {
      const auto step = static_cast<uint32_t>(i);
      void* discarded = managed;
      size_t bytes = kCells * kWord, first = 0;
      cudaMemLocation place = on_device;
      CHECK(step % 2 == 0 ? cudaMemDiscardBatchAsync(&discarded, &bytes, 1, 0, stream)
                          : cudaMemDiscardAndPrefetchBatchAsync(&discarded, &bytes, 1, &place,
                                                                &first, 1, 0, stream));
      move<<<kBlocks, kThreads, 0, stream>>>(cells, told_model);
      CHECK_LAUNCH();
      fill<<<kBlocks, kThreads, 0, stream>>>(managed, step);
      CHECK_LAUNCH();
      library.count(cells, stream);
      ++called;
      for (uint32_t at = 0; at < kCells; ++at) {
        cells_model[at] = moved(cells_model[at], at, told_model);
      }
      cells_model[0] += called;
      scatter(step, to, volume, cells, to_model, volume_model, cells_model, stream);
      CHECK(cudaStreamAddCallback(stream, tell,
                                  reinterpret_cast<void*>(static_cast<uintptr_t>(step)), 0));
      CHECK(cudaMemPrefetchBatchAsync(&discarded, &bytes, 1, &place, &first, 1, 0, stream));
      CHECK(cudaStreamSynchronize(stream));
      const uint32_t chosen = step % kCells;
      told_model += step;
      if (told != told_model || managed[chosen] != moved(step, chosen, step)) {
        std::printf("FAILED: step %u was told %u\n", step, told.load());
        return 1;
      }
      if (i % 10 == 0) std::printf("step %d told %u\n", i, told.load());
    }
    expect_same("cell", fetch(cells, kCells), cells_model);
    expect_same("piece", fetch(to, kCells), to_model);
    expect_same("volume", fetch(volume, kCells), volume_model);
    if (library.calls() != called) std::exit(1);
  }
  std::printf("values %016llx\n", static_cast<unsigned long long>(hash_of(cells_model)));
  CHECK(cudaFree(managed));
  CHECK(cudaFree(cells));
  CHECK(cudaFree(to));
  CHECK(cudaFree(volume));
  CHECK(cudaStreamDestroy(stream));
  return finish();
}
