// The bandwidth from the device to pinned memory by the size of a transfer, as in figure 9 of the
// paper: pieces scattered over device memory that are copied one by one, or first put side by side
// in a buffer on the device, which is copied in large pieces meanwhile (two halves in turn).
//
//   transfers [MIB]
//
// Prints a line of JSON for each size.
#include <vector>

#include "tests/apps/app.h"

namespace app {

constexpr size_t kStride = 2;              // every second piece of the source is copied
constexpr size_t kHalf = size_t{2} << 20;  // of the buffer
constexpr size_t kMostPieces = 16384;      // enough to measure, few enough to be quick
constexpr size_t kSizes[] = {4 << 10,    16 << 10,   64 << 10,   256 << 10,
                             1024 << 10, 4096 << 10, 16384 << 10};

class Timer {
 public:
  Timer() {
    CHECK(cuEventCreate(&start_, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&end_, CU_EVENT_DEFAULT));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start(CUstream stream) { CHECK(cuEventRecord(start_, stream)); }
  double seconds(CUstream stream) {
    float milliseconds = 0;
    CHECK(cuEventRecord(end_, stream));
    CHECK(cuEventSynchronize(end_));
    CHECK(cuEventElapsedTime(&milliseconds, start_, end_));
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  CUevent start_ = nullptr, end_ = nullptr;
};

class Transfers {
 public:
  explicit Transfers(size_t bytes)
      : bytes_(bytes), source_(bytes * kStride), buffer_(2 * kHalf), host_(bytes) {
    CHECK(cuStreamCreate(&gather_, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&out_, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : full_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (CUevent& event : empty_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemsetD8_v2(source_.address(), 1, source_.bytes()));
    CHECK(cuCtxSynchronize());
  }

  // Bytes a second.
  double direct(size_t piece) {
    const size_t pieces = pieces_of(piece);
    timer_.start(out_);
    for (size_t i = 0; i < pieces; ++i) {
      CHECK(cuMemcpyDtoHAsync_v2(host_.data() + i * piece, source_.address() + i * piece * kStride,
                                 piece, out_));
    }
    return static_cast<double>(pieces * piece) / timer_.seconds(out_);
  }

  double buffered(size_t piece) {
    const size_t pieces = pieces_of(piece), in_half = kHalf / piece;
    timer_.start(out_);
    size_t half = 0;
    for (size_t begin = 0; begin < pieces; begin += in_half, half ^= 1) {
      const size_t count = std::min(in_half, pieces - begin);
      const CUdeviceptr to = buffer_.address() + half * kHalf;
      if (begin >= 2 * in_half) CHECK(cuStreamWaitEvent(gather_, empty_[half], 0));
      for (size_t i = 0; i < count; ++i) {
        CHECK(cuMemcpyDtoDAsync_v2(
            to + i * piece, source_.address() + (begin + i) * piece * kStride, piece, gather_));
      }
      CHECK(cuEventRecord(full_[half], gather_));
      CHECK(cuStreamWaitEvent(out_, full_[half], 0));
      CHECK(cuMemcpyDtoHAsync_v2(host_.data() + begin * piece, to, count * piece, out_));
      CHECK(cuEventRecord(empty_[half], out_));
    }
    return static_cast<double>(pieces * piece) / timer_.seconds(out_);
  }

 private:
  size_t pieces_of(size_t piece) const { return std::min(bytes_ / piece, kMostPieces); }

  size_t bytes_;
  Buffer<std::byte> source_, buffer_;
  Pinned<std::byte> host_;
  CUstream gather_ = nullptr, out_ = nullptr;
  CUevent full_[2] = {}, empty_[2] = {};
  Timer timer_;
};

int run(size_t bytes) {
  const Device device(ContextKind::kPrimary);
  Transfers transfers(bytes);
  for (const size_t size : kSizes) {
    transfers.direct(size);  // once for nothing: pages and clocks warm up
    const double direct = transfers.direct(size);
    std::printf("{\"bytes\": %zu, \"direct\": %.0f", size, direct);
    if (size <= kHalf) std::printf(", \"buffered\": %.0f", transfers.buffered(size));
    std::printf("}\n");
  }
  return 0;
}

}  // namespace app

int main(int argc, char** argv) {
  const int megabytes = app::steps_from(argc, argv, 256);
  return app::run(static_cast<size_t>(std::max(megabytes, 16)) << 20);
}
