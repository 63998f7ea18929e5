// Three threads that compute on their own default streams, each its own chain; the first of them
// gathers what the others have every few steps, through device memory and events.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "program.h"

namespace {

constexpr int kThreads = 3;
constexpr int kCells = 2048;
constexpr int kBlock = 128;
constexpr int kGathered = 5;  // every so many steps

__device__ unsigned launches_made[kThreads];

__host__ __device__ inline unsigned turned(unsigned value, unsigned by) {
  return (value << 3 | value >> 29) ^ by * 2246822519u;
}

__global__ void turn(unsigned* cells, unsigned by, int thread) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  cells[at] = turned(cells[at], by + at);
  if (at == 0) launches_made[thread] += 1;
}

__global__ void add(unsigned* sum, const unsigned* cells) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  sum[at] += cells[at];
}

// All threads come together; the last one to come lets the others go.
class Meeting {
 public:
  void join() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++here_ == kThreads) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int here_ = 0, round_ = 0;
};

struct Chain {
  unsigned* cells = nullptr;  // on the device
  cudaEvent_t turned = nullptr;
  std::vector<unsigned> expected;
};

struct Shared {
  Chain chains[kThreads];
  unsigned* sum = nullptr;
  std::vector<unsigned> expected_sum = std::vector<unsigned>(kCells, 0);
  Meeting meeting;
};

void work(Shared& shared, int thread, int steps) {
  Chain& chain = shared.chains[thread];
  CHECK(cudaMalloc(&chain.cells, kCells * sizeof(unsigned)));
  CHECK(cudaEventCreateWithFlags(&chain.turned, cudaEventDisableTiming));
  chain.expected.resize(kCells);
  uint32_t random = thread + 1;
  for (unsigned& value : chain.expected) value = next_random(random);
  CHECK(cudaMemcpyAsync(chain.cells, chain.expected.data(), kCells * sizeof(unsigned),
                        cudaMemcpyHostToDevice));
  for (int step = 1; step <= steps; ++step) {
    const unsigned by = step * 31 + thread;
    turn<<<kCells / kBlock, kBlock>>>(chain.cells, by, thread);
    CHECK_LAUNCH();
    for (int at = 0; at < kCells; ++at) chain.expected[at] = turned(chain.expected[at], by + at);
    CHECK(cudaEventRecord(chain.turned));
    if (step % kGathered != 0) {
      CHECK(cudaStreamSynchronize(nullptr));
      continue;
    }
    shared.meeting.join();
    if (thread == 0) {
      for (const Chain& other : shared.chains) {
        CHECK(cudaStreamWaitEvent(nullptr, other.turned, 0));
        add<<<kCells / kBlock, kBlock>>>(shared.sum, other.cells);
        CHECK_LAUNCH();
      }
      const std::vector<unsigned> sum = fetch(shared.sum, kCells);
      std::printf("step %d: sum %016llx\n", step, static_cast<unsigned long long>(hash_of(sum)));
      for (const Chain& other : shared.chains) {
        for (int at = 0; at < kCells; ++at) shared.expected_sum[at] += other.expected[at];
      }
    }
    shared.meeting.join();
  }
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaEventDestroy(chain.turned));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 2000);
  Shared shared;
  CHECK(cudaMalloc(&shared.sum, kCells * sizeof(unsigned)));
  CHECK(cudaMemset(shared.sum, 0, kCells * sizeof(unsigned)));
  CHECK(cudaDeviceSynchronize());  // no other stream waits for this thread's
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { work(shared, i, steps); });
  for (std::thread& thread : threads) thread.join();

  bool good = fetch(shared.sum, kCells) == shared.expected_sum;
  unsigned made[kThreads];
  CHECK(cudaMemcpyFromSymbol(made, launches_made, sizeof made));
  for (int i = 0; i < kThreads; ++i) {
    good = good && fetch(shared.chains[i].cells, kCells) == shared.chains[i].expected;
    good = good && made[i] == static_cast<unsigned>(steps);
    CHECK(cudaFree(shared.chains[i].cells));
  }
  CHECK(cudaFree(shared.sum));
  if (!good) {
    std::printf("FAILED: the device has something else than the host\n");
    return 2;
  }
  return finish();
}
