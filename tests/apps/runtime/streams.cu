// Three streams in the order of events. One makes scratch memory, one works it into a field, one
// brings a tile of the field to page-locked memory, where a function of the host changes it, and
// takes it back. The host is ahead of all of them: it waits for a tile two steps later, and the
// tile's sum decides how much scratch memory is asked for then. In between it synchronises with a
// stream that is not the tile's, while the function may be running.
#include "program.h"

namespace {

constexpr uint32_t kSide = 256, kTile = 48, kThreads = 64;

__host__ __device__ inline uint32_t scatter(uint32_t value) {
  value = (value ^ value >> 15) * 0x2c1b3c6du;
  return value ^ value >> 12;
}

__global__ void make(uint32_t* scratch, uint32_t count, uint32_t from) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) scratch[i] = scatter(from + i);
}

__global__ void work_in(const uint32_t* scratch, uint32_t count, uint32_t* field, uint32_t first) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) field[(first + i) % (kSide * kSide)] += 3 * scratch[i] + scratch[count - 1 - i];
}

struct Tile {
  uint32_t* words = nullptr;
  uint64_t sum = 0;
};

void change(void* argument) {
  auto* tile = static_cast<Tile*>(argument);
  tile->sum = 1;
  for (uint32_t i = 0; i < kTile * kTile; ++i) {
    tile->sum = tile->sum * 33 + tile->words[i];
    tile->words[i] = tile->words[i] * 5 + i;
  }
}

// The work of a step, decided by a sum of two steps before.
struct Plan {
  uint32_t count, first, from, to;
  uint32_t seed;
  Plan(uint64_t sum, uint32_t step) : seed(static_cast<uint32_t>(sum >> 9) + step) {
    uint32_t state = seed;
    constexpr uint32_t kRoom = kSide - kTile;
    count = 1000 + next_random(state) % 6000;
    first = next_random(state) % (kSide * kSide);
    from = next_random(state) % kRoom * kSide + next_random(state) % kRoom;
    to = next_random(state) % kRoom * kSide + next_random(state) % kRoom;
  }
};

// The same on the host.
void repeat(const Plan& plan, std::vector<uint32_t>& field, std::vector<uint32_t>& words,
            uint64_t* sum) {
  for (uint32_t i = 0; i < plan.count; ++i) {
    field[(plan.first + i) % (kSide * kSide)] +=
        3 * scatter(plan.seed + i) + scatter(plan.seed + plan.count - 1 - i);
  }
  const auto at = [](uint32_t corner, uint32_t i) {
    return corner + i / kTile * kSide + i % kTile;
  };
  for (uint32_t i = 0; i < kTile * kTile; ++i) words[i] = field[at(plan.from, i)];
  Tile tile{words.data(), 0};
  change(&tile);
  *sum = tile.sum;
  for (uint32_t i = 0; i < kTile * kTile; ++i) field[at(plan.to, i)] = words[i];
}

constexpr size_t kRow = kSide * sizeof(uint32_t), kTileRow = kTile * sizeof(uint32_t);

}  // namespace

int main(int argc, char** argv) {
  const uint32_t steps = static_cast<uint32_t>(steps_of(argc, argv, 2000));
  std::vector<uint32_t> model(kSide * kSide, 7u), words(kTile * kTile);
  uint32_t* field = upload(model);
  cudaStream_t making, working, bringing;
  cudaEvent_t made, worked, brought[2];
  CHECK(cudaStreamCreate(&making));
  CHECK(cudaStreamCreateWithFlags(&working, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&bringing, cudaStreamNonBlocking));
  for (cudaEvent_t* event : {&made, &worked, &brought[0], &brought[1]}) {
    CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  Tile tiles[2];
  for (Tile& tile : tiles) CHECK(cudaMallocHost(&tile.words, kTile * kTile * sizeof(uint32_t)));
  CHECK(cudaDeviceSynchronize());

  std::vector<uint64_t> sums(steps), expected(steps);
  const auto sum_for = [](const std::vector<uint64_t>& from, uint32_t step) {
    return step < 2 ? 11 : from[step - 2];
  };
  for (uint32_t step = 0; step < steps; ++step) {
    Tile& tile = tiles[step % 2];
    if (step >= 2) {
      CHECK(cudaEventSynchronize(brought[step % 2]));
      sums[step - 2] = tile.sum;
    }
    const Plan plan(sum_for(sums, step), step);
    const uint32_t blocks = (plan.count + kThreads - 1) / kThreads;
    void* memory = nullptr;
    CHECK(cudaMallocAsync(&memory, plan.count * sizeof(uint32_t), making));
    auto* scratch = static_cast<uint32_t*>(memory);
    make<<<blocks, kThreads, 0, making>>>(scratch, plan.count, plan.seed);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(made, making));
    CHECK(cudaStreamWaitEvent(working, made, 0));
    if (step >= 1) CHECK(cudaStreamWaitEvent(working, brought[(step - 1) % 2], 0));
    work_in<<<blocks, kThreads, 0, working>>>(scratch, plan.count, field, plan.first);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(worked, working));
    CHECK(cudaFreeAsync(scratch, working));
    CHECK(cudaStreamWaitEvent(bringing, worked, 0));
    CHECK(cudaMemcpy2DAsync(tile.words, kTileRow, field + plan.from, kRow, kTileRow, kTile,
                            cudaMemcpyDeviceToHost, bringing));
    CHECK(cudaLaunchHostFunc(bringing, change, &tile));
    CHECK(cudaMemcpy2DAsync(field + plan.to, kRow, tile.words, kTileRow, kTileRow, kTile,
                            cudaMemcpyHostToDevice, bringing));
    CHECK(cudaEventRecord(brought[step % 2], bringing));
    if (step % 3 == 2) CHECK(cudaStreamSynchronize(working));
    if (step % 10 == 9) {
      std::printf("step %u sum %llu\n", step + 1,
                  static_cast<unsigned long long>(sum_for(sums, step)));
    }
  }
  for (cudaStream_t stream : {making, working, bringing}) CHECK(cudaStreamSynchronize(stream));
  for (uint32_t step = steps < 2 ? 0 : steps - 2; step < steps; ++step) {
    sums[step] = tiles[step % 2].sum;
  }
  for (uint32_t step = 0; step < steps; ++step) {
    repeat(Plan(sum_for(expected, step), step), model, words, &expected[step]);
  }
  expect_same("sums", sums, expected);
  expect_same("field", fetch(field, model.size()), model);
  std::printf("field %016llx\n", static_cast<unsigned long long>(hash_of(model)));
  for (cudaEvent_t event : {made, worked, brought[0], brought[1]}) CHECK(cudaEventDestroy(event));
  for (cudaStream_t stream : {making, working, bringing}) CHECK(cudaStreamDestroy(stream));
  for (const Tile& tile : tiles) CHECK(cudaFreeHost(tile.words));
  CHECK(cudaFree(field));
  return finish();
}
