// Work in the order of streams: scratch memory that is taken and given back there, a graph that is
// captured, changed by another capture and launched again and again, and a function of the host
// that takes what came of it.
#include <numeric>

#include "program.h"

namespace {

constexpr uint32_t kCells = 4096;
constexpr uint32_t kThreads = 128;

__host__ __device__ inline uint32_t stirred(uint32_t value, uint32_t by) {
  return (value ^ by) * 0x9e3779b1u + (value >> 7);
}

__global__ void stir(uint32_t* cells, uint32_t by) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  cells[i] = stirred(cells[i], by);
}

__global__ void add(uint32_t* cells, const uint32_t* scratch) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  cells[i] += scratch[kCells - 1 - i];
}

struct Taken {
  const uint32_t* pinned = nullptr;
  uint32_t sum = 0;
};

void take(void* taken) {
  auto* into = static_cast<Taken*>(taken);
  into->sum = std::accumulate(into->pinned, into->pinned + kCells, into->sum * 5);
}

// Captures two rounds of stirring.
void capture(cudaStream_t stream, uint32_t* cells, uint32_t by, cudaGraphExec_t* exec) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  stir<<<kCells / kThreads, kThreads, 0, stream>>>(cells, by);
  stir<<<kCells / kThreads, kThreads, 0, stream>>>(cells, by + 1);
  CHECK_LAUNCH();
  CHECK(cudaStreamEndCapture(stream, &graph));
  if (*exec == nullptr) {
    CHECK(cudaGraphInstantiate(exec, graph, 0));
  } else {
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(*exec, graph, &info));
  }
  CHECK(cudaGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 4000);
  std::vector<uint32_t> model(kCells);
  std::iota(model.begin(), model.end(), 3u);
  uint32_t* cells = upload(model);
  uint32_t* pinned = nullptr;
  cudaStream_t stream;
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaMallocHost(&pinned, kCells * sizeof(uint32_t)));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  Taken taken{pinned, 0};
  uint32_t sum = 0;
  uint32_t by = 0;
  for (int step = 1; step <= steps; ++step) {
    if (step % 8 == 1) {
      by = static_cast<uint32_t>(step);
      capture(stream, cells, by, &exec);
    }
    void* scratch = nullptr;
    CHECK(cudaMallocAsync(&scratch, kCells * sizeof(uint32_t), stream));
    CHECK(cudaMemcpyAsync(scratch, cells, kCells * sizeof(uint32_t), cudaMemcpyDeviceToDevice,
                          stream));
    CHECK(cudaGraphLaunch(exec, stream));
    add<<<kCells / kThreads, kThreads, 0, stream>>>(cells, static_cast<uint32_t*>(scratch));
    CHECK_LAUNCH();
    CHECK(cudaFreeAsync(scratch, stream));
    CHECK(
        cudaMemcpyAsync(pinned, cells, kCells * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, take, &taken));
    CHECK(cudaStreamSynchronize(stream));

    const std::vector<uint32_t> before = model;
    for (uint32_t i = 0; i < kCells; ++i) {
      model[i] = stirred(stirred(model[i], by), by + 1) + before[kCells - 1 - i];
    }
    sum = std::accumulate(model.begin(), model.end(), sum * 5);
    if (taken.sum != sum) {
      std::printf("FAILED: the sum differs from the host's at step %d\n", step);
      return 2;
    }
    if (step % 20 == 0) std::printf("step %d sum %u\n", step, taken.sum);
  }
  expect_same("cells", fetch(cells, kCells), model);
  std::printf("cells %016llx\n", static_cast<unsigned long long>(hash_of(model)));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(cells));
  return finish();
}
