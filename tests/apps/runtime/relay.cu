// Two processes that have each other's device memory open, and wait for each other by events: in
// each step one of them writes the other one's cells. It forks before it has a device.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

namespace {

constexpr uint32_t kCells = 200'000, kThreads = 128, kBlocks = 40;

__host__ __device__ inline uint32_t pushed(uint32_t mine, uint32_t theirs, uint32_t step) {
  return (theirs ^ mine) * 1664525u + step;
}

__host__ __device__ inline uint32_t turned(uint32_t value, uint32_t step) {
  return (value << 7 | value >> 25) + step;
}

__global__ void push(const uint32_t* mine, uint32_t* theirs, uint32_t step) {
  for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < kCells;
       at += gridDim.x * blockDim.x) {
    theirs[at] = pushed(mine[at], theirs[at], step);
  }
}

__global__ void turn(uint32_t* mine, uint32_t step) {
  for (uint32_t at = blockIdx.x * blockDim.x + threadIdx.x; at < kCells;
       at += gridDim.x * blockDim.x) {
    mine[at] = turned(mine[at], step);
  }
}

template <class T>
void say(int other, const T& value) {
  if (send(other, &value, sizeof value, MSG_NOSIGNAL) != ssize_t{sizeof value}) std::exit(1);
}

template <class T>
T hear(int other) {
  T value{};
  if (recv(other, &value, sizeof value, MSG_WAITALL) != ssize_t{sizeof value}) std::exit(1);
  return value;
}

// Computes the cells of both processes on the host.
void model(int steps, std::vector<uint32_t>* cells) {
  for (int step = 0; step < steps; ++step) {
    const std::vector<uint32_t>& from = cells[step % 2];
    std::vector<uint32_t>& to = cells[1 - step % 2];
    for (uint32_t at = 0; at < kCells; ++at) {
      to[at] = turned(pushed(from[at], to[at], step), step);
    }
  }
}

// One of the two: 0 or 1. The digest of its cells.
uint64_t run(int which, int other, int steps) {
  std::vector<uint32_t> cells[] = {std::vector<uint32_t>(kCells, 1u),
                                   std::vector<uint32_t>(kCells, 2u)};
  uint32_t* const mine = upload(cells[which]);
  cudaEvent_t done = nullptr, others = nullptr;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming | cudaEventInterprocess));
  cudaIpcMemHandle_t memory;
  CHECK(cudaIpcGetMemHandle(&memory, mine));
  cudaIpcEventHandle_t event;
  CHECK(cudaIpcGetEventHandle(&event, done));
  say(other, memory);
  say(other, event);
  void* theirs = nullptr;
  CHECK(cudaIpcOpenMemHandle(&theirs, hear<cudaIpcMemHandle_t>(other),
                             cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaIpcOpenEventHandle(&others, hear<cudaIpcEventHandle_t>(other)));
  for (int step = 0; step < steps; ++step) {
    if (step % 2 == which) {
      push<<<kBlocks, kThreads>>>(mine, static_cast<uint32_t*>(theirs), step);
      CHECK_LAUNCH();
      CHECK(cudaEventRecord(done));
      say(other, step);
    } else {
      if (hear<int>(other) != step) std::exit(1);
      CHECK(cudaStreamWaitEvent(nullptr, others, 0));
      turn<<<kBlocks, kThreads>>>(mine, step);
      CHECK_LAUNCH();
    }
  }
  CHECK(cudaDeviceSynchronize());
  model(steps, cells);
  expect_same("cell", fetch(mine, kCells), cells[which]);
  CHECK(cudaIpcCloseMemHandle(theirs));
  CHECK(cudaEventDestroy(others));
  // Nobody has it open any more.
  say(other, which);
  (void)hear<int>(other);
  CHECK(cudaEventDestroy(done));
  CHECK(cudaFree(mine));
  return hash_of(cells[which]);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 40);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  const pid_t child = fork();
  if (child < 0) return 1;
  close(ends[child == 0 ? 1 : 0]);
  const uint64_t digest = run(child == 0 ? 0 : 1, ends[child == 0 ? 0 : 1], steps);
  if (child == 0) return 0;
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  std::printf("cells %016llx\n", static_cast<unsigned long long>(digest));
  return finish();
}
