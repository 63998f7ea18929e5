// A pipeline over two streams with pinned double buffers: while one half of a pair is copied and
// computed, the host reads the other and prepares its next input from it. A running state in device
// memory is handed from stream to stream by events.
#include "program.h"

namespace {

constexpr uint32_t kChunk = 4096;
constexpr uint32_t kThreads = 128;

__host__ __device__ inline uint32_t processed(uint32_t input, uint32_t state) {
  for (int round = 0; round < 8; ++round) input = (input ^ state) * 0xc2b2ae35u + (input >> 11);
  return input;
}

__global__ void process(const uint32_t* input, uint32_t* output, uint32_t* state) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t value = processed(input[i], state[i]);
  output[i] = value;
  state[i] += value >> 3;
}

// Everything that one half of the pipeline owns.
struct Lane {
  cudaStream_t stream;
  cudaEvent_t done;
  uint32_t* pinned_in;
  uint32_t* pinned_out;
  uint32_t* device_in = allocate<uint32_t>(kChunk);
  uint32_t* device_out = allocate<uint32_t>(kChunk);
  int step = 0;  // that is on its way, 0: none

  Lane() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CHECK(cudaMallocHost(&pinned_in, kChunk * sizeof(uint32_t)));
    CHECK(cudaMallocHost(&pinned_out, kChunk * sizeof(uint32_t)));
  }
  void release() const {
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(done));
    CHECK(cudaFreeHost(pinned_in));
    CHECK(cudaFreeHost(pinned_out));
    CHECK(cudaFree(device_in));
    CHECK(cudaFree(device_out));
  }
};

void prepare(uint32_t* input, int step, uint32_t carry) {
  for (uint32_t i = 0; i < kChunk; ++i)
    input[i] = i * 2654435761u + static_cast<uint32_t>(step) + carry;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 8000);
  Lane lanes[2];
  std::vector<uint32_t> model(kChunk, 1), model_in(kChunk), model_out(kChunk);
  uint32_t model_carries[2] = {0, 0};
  uint32_t carries[2] = {0, 0};
  uint64_t hash = 0;
  uint32_t* state = upload(model);
  cudaEvent_t handed_over;
  CHECK(cudaEventCreateWithFlags(&handed_over, cudaEventDisableTiming));

  const auto drain = [&](Lane& lane, uint32_t& carry) {
    if (lane.step == 0) return;
    CHECK(cudaEventSynchronize(lane.done));
    hash = hash * 31 + hash_of(lane.pinned_out, kChunk * sizeof(uint32_t));
    carry = lane.pinned_out[static_cast<uint32_t>(lane.step) % kChunk];
    if (lane.step % 15 == 0) {
      std::printf("step %d carry %u hash %016llx\n", lane.step, carry,
                  static_cast<unsigned long long>(hash));
    }
  };
  for (int step = 1; step <= steps; ++step) {
    Lane& lane = lanes[step % 2];
    drain(lane, carries[step % 2]);
    lane.step = step;
    prepare(lane.pinned_in, step, carries[step % 2]);
    CHECK(cudaMemcpyAsync(lane.device_in, lane.pinned_in, kChunk * sizeof(uint32_t),
                          cudaMemcpyHostToDevice, lane.stream));
    if (step > 1) CHECK(cudaStreamWaitEvent(lane.stream, handed_over, 0));
    process<<<kChunk / kThreads, kThreads, 0, lane.stream>>>(lane.device_in, lane.device_out,
                                                             state);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(handed_over, lane.stream));
    CHECK(cudaMemcpyAsync(lane.pinned_out, lane.device_out, kChunk * sizeof(uint32_t),
                          cudaMemcpyDeviceToHost, lane.stream));
    CHECK(cudaEventRecord(lane.done, lane.stream));

    prepare(model_in.data(), step, model_carries[step % 2]);
    for (uint32_t i = 0; i < kChunk; ++i) {
      model_out[i] = processed(model_in[i], model[i]);
      model[i] += model_out[i] >> 3;
    }
    model_carries[step % 2] = model_out[static_cast<uint32_t>(step) % kChunk];
  }
  for (int last = 1; last >= 0; --last) {
    const int which = (steps - last) % 2;
    if (steps - last > 0) drain(lanes[which], carries[which]);
  }
  CHECK(cudaDeviceSynchronize());
  expect_same("state", fetch(state, kChunk), model);
  std::printf("state %016llx carries %u %u\n", static_cast<unsigned long long>(hash_of(model)),
              carries[0], carries[1]);
  for (const Lane& lane : lanes) lane.release();
  CHECK(cudaEventDestroy(handed_over));
  CHECK(cudaFree(state));
  return finish();
}
