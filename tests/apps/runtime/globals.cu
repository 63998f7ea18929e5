// All state lives in __device__ and __constant__ variables: arrays, a counter, a pointer to further
// memory, and one variable that no host code names.
#include "program.h"

namespace {

constexpr uint32_t kCells = 4096;
constexpr uint32_t kTable = 64;

__device__ uint32_t cells[kCells];
__device__ unsigned long long total = 1;
__device__ uint32_t* history;
__device__ uint32_t phase = 3;  // changed by kernels alone
__constant__ uint32_t table[kTable];

__host__ __device__ inline uint32_t new_cell(uint32_t cell, const uint32_t* entries, uint32_t now) {
  for (int round = 0; round < 8; ++round) {
    cell = cell * 1664525u + entries[(cell >> 9) % kTable] + now;
    cell ^= cell >> 15;
  }
  return cell;
}

__host__ __device__ inline uint32_t new_phase(uint32_t now, unsigned long long sum) {
  return now * 5u + static_cast<uint32_t>(sum ^ (sum >> 32));
}

__global__ void advance() {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t cell = new_cell(cells[i], table, phase);
  cells[i] = cell;
  history[i] ^= cell;
  atomicAdd(&total, static_cast<unsigned long long>(cell & 0xffff));
}

__global__ void turn() {
  phase = new_phase(phase, total);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 5000);
  std::vector<uint32_t> host_cells(kCells), entries(kTable), host_history(kCells, 0);
  uint32_t random = 99;
  for (uint32_t& cell : host_cells) cell = next_random(random);
  for (uint32_t& entry : entries) entry = next_random(random);
  unsigned long long host_total = 1;
  uint32_t host_phase = 3;

  CHECK(cudaMemcpyToSymbol(cells, host_cells.data(), kCells * sizeof(uint32_t)));
  CHECK(cudaMemcpyToSymbol(table, entries.data(), kTable * sizeof(uint32_t)));
  uint32_t* memory = upload(host_history);
  CHECK(cudaMemcpyToSymbol(history, &memory, sizeof(memory)));

  for (int step = 1; step <= steps; ++step) {
    advance<<<kCells / 128, 128>>>();
    CHECK_LAUNCH();
    turn<<<1, 1>>>();
    CHECK_LAUNCH();
    for (uint32_t i = 0; i < kCells; ++i) {
      host_cells[i] = new_cell(host_cells[i], entries.data(), host_phase);
      host_history[i] ^= host_cells[i];
      host_total += host_cells[i] & 0xffff;
    }
    host_phase = new_phase(host_phase, host_total);
    if (step % 4 == 0) CHECK(cudaDeviceSynchronize());
    if (step % 10 == 0) {
      unsigned long long sum = 0;
      CHECK(cudaMemcpyFromSymbol(&sum, total, sizeof(sum)));
      std::printf("step %d total %llu\n", step, sum);
      // One entry of the table follows from what the device counted.
      entries[step / 10 % kTable] = static_cast<uint32_t>(sum * 2654435761u);
      CHECK(cudaMemcpyToSymbol(table, &entries[step / 10 % kTable], sizeof(uint32_t),
                               step / 10 % kTable * sizeof(uint32_t)));
    }
  }
  std::vector<uint32_t> result(kCells);
  CHECK(cudaMemcpyFromSymbol(result.data(), cells, kCells * sizeof(uint32_t)));
  expect_same("cell", result, host_cells);
  expect_same("history", fetch(memory, kCells), host_history);
  void* address = nullptr;
  size_t size = 0;
  CHECK(cudaGetSymbolAddress(&address, total));
  CHECK(cudaGetSymbolSize(&size, total));
  unsigned long long sum = 0;
  CHECK(cudaMemcpy(&sum, address, size, cudaMemcpyDeviceToHost));
  expect_same("total", std::vector<unsigned long long>{sum}, {host_total});
  std::printf("cells %016llx total %llu\n", static_cast<unsigned long long>(hash_of(result)), sum);
  CHECK(cudaFree(memory));
  return finish();
}
