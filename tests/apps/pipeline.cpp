// A pipeline over two streams: pinned double buffers, asynchronous copies in both directions, and
// events that order copying and computing. Kernels get their arguments as one packed buffer.
#include "pipeline.h"

#include <algorithm>
#include <array>

#include "app.h"
#include "pipeline_ptx.h"

namespace app {

constexpr unsigned kColumns = 256;

class Event {
 public:
  explicit Event(unsigned flags) { CHECK(cuEventCreate(&event_, flags)); }
  ~Event() { CHECK(cuEventDestroy_v2(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator CUevent() const { return event_; }

 private:
  CUevent event_ = nullptr;
};

class Stream {
 public:
  Stream() { CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)); }
  ~Stream() { CHECK(cuStreamDestroy_v2(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

void launch_packed(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
                   std::array<CUdeviceptr, 3> arguments) {
  size_t bytes = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, nullptr, extra));
}

// One of the two buffers that take turns.
struct Turn {
  Pinned<float> input{kSamples};
  Pinned<float> output{kSamples};
  Event copied_in{CU_EVENT_DISABLE_TIMING};
  Event computed{CU_EVENT_DEFAULT};
  Event copied_out{CU_EVENT_DEFAULT};
};

class HostFilter {
 public:
  HostFilter() {
    for (unsigned tap = 0; tap < kTaps; ++tap) taps.push_back(1.0f / static_cast<float>(tap + 2));
  }
  std::vector<float> feed(std::span<const float> chunk) {
    std::copy(chunk.begin(), chunk.end(), history_.begin() + kTaps - 1);
    std::vector<float> output(kSamples);
    for (unsigned at = 0; at < kSamples; ++at) {
      output[at] = filtered(history_.data(), taps.data(), at);
      state[at % kColumns] = folded(state[at % kColumns], output[at]);
    }
    std::copy_n(history_.end() - (kTaps - 1), kTaps - 1, history_.begin());
    return output;
  }
  std::vector<float> taps;
  std::vector<unsigned> state = std::vector<unsigned>(kColumns, 1);

 private:
  std::vector<float> history_ = std::vector<float>(kTaps - 1 + kSamples, 0.0f);
};

class Pipeline {
 public:
  Pipeline() {
    taps_on_device_.upload(host_.taps);
    history_.upload(std::vector<float>(history_.count(), 0.0f));
    state_.upload(host_.state);
  }

  void begin(int chunk) {
    Turn& turn = turns_[chunk % 2];
    for (float& sample : turn.input.span()) sample = random_.unit() - 0.5f;
    expected_[chunk % 2] = host_.feed(turn.input.span());
    const CUdeviceptr arriving = history_.address() + (kTaps - 1) * sizeof(float);
    // The chunk before is still in use until its kernels have run.
    if (chunk > 0) CHECK(cuStreamWaitEvent(copies_, turns_[(chunk + 1) % 2].computed, 0));
    CHECK(cuMemcpyHtoDAsync_v2(arriving, turn.input.data(), turn.input.bytes(), copies_));
    CHECK(cuEventRecord(turn.copied_in, copies_));
    CHECK(cuStreamWaitEvent(kernels_, turn.copied_in, 0));
    // The output of two chunks ago must have left before it is overwritten.
    if (chunk > 1) CHECK(cuStreamWaitEvent(kernels_, turn.copied_out, 0));
    const Buffer<float>& output = outputs_[chunk % 2];
    launch_packed(filter_, kSamples / 128, 128, kernels_,
                  {history_.address(), taps_on_device_.address(), output.address()});
    launch_packed(carry_, 1, kColumns, kernels_,
                  {history_.address(), output.address(), state_.address()});
    CHECK(cuEventRecord(turn.computed, kernels_));
    CHECK(cuStreamWaitEvent(copies_, turn.computed, 0));
    CHECK(cuMemcpyDtoHAsync_v2(turn.output.data(), output.address(), output.bytes(), copies_));
    CHECK(cuEventRecord(turn.copied_out, copies_));
  }

  // Waits for a chunk, by polling or not, and tells what came out.
  void end(int chunk) {
    Turn& turn = turns_[chunk % 2];
    if (chunk % 3 == 0) {
      CUresult result = CUDA_ERROR_NOT_READY;
      while (result == CUDA_ERROR_NOT_READY) {
        result = cuEventQuery(turn.copied_out);
        usleep(200);
      }
      CHECK(result);
    } else {
      CHECK(cuEventSynchronize(turn.copied_out));
    }
    float milliseconds = -1;
    CHECK(cuEventElapsedTime(&milliseconds, turn.computed, turn.copied_out));
    if (milliseconds < 0) fail("cuEventElapsedTime", "time ran backwards");
    const std::vector<float> output(turn.output.span().begin(), turn.output.span().end());
    std::printf("chunk %d: first %.9g, digest %016" PRIx64 "\n", chunk,
                static_cast<double>(output[0]), digest(output));
    must_equal("output", output, expected_[chunk % 2]);
  }

  void finish() {
    CHECK(cuStreamSynchronize(kernels_));
    if (const CUresult idle = cuStreamQuery(copies_); idle != CUDA_ERROR_NOT_READY) CHECK(idle);
    const std::vector<unsigned> state = state_.download();
    std::printf("state digest %016" PRIx64 "\n", digest(state));
    must_equal("state", state, host_.state);
  }

 private:
  Module module_{kPipelinePtx};
  CUfunction filter_ = module_.function("filter");
  CUfunction carry_ = module_.function("carry");
  Stream copies_, kernels_;
  std::array<Turn, 2> turns_;
  std::array<std::vector<float>, 2> expected_;
  Buffer<float> history_{kTaps - 1 + kSamples}, taps_on_device_{kTaps};
  std::array<Buffer<float>, 2> outputs_{Buffer<float>(kSamples), Buffer<float>(kSamples)};
  Buffer<unsigned> state_{kColumns};
  Random random_{31};
  HostFilter host_;
};

int run(int steps) {
  const Device device(ContextKind::kOwn);
  Pipeline pipeline;
  for (int chunk = 0; chunk < steps; ++chunk) {
    pipeline.begin(chunk);
    if (chunk > 0) pipeline.end(chunk - 1);
  }
  pipeline.end(steps - 1);
  pipeline.finish();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 900));
}
