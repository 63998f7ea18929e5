// Two streams that wait for each other by words in memory, and words that nothing but such writes
// has ever changed.
#include "signals.h"

#include "app.h"
#include "signals_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr uint64_t kHigh = 0xffffffff00000000u;

// The words on the device, and what the host knows of them.
class Words {
 public:
  explicit Words(CUstream stream) : stream_(stream), host_(kWords), words_(host_) {}
  CUdeviceptr address() const { return words_.address(); }
  const std::vector<uint64_t>& host() const { return host_; }

  // One or some of them, by each of the calls in turn.
  void write(unsigned step, uint64_t value) {
    const unsigned at = step * 7 % (kWords - 3);
    const auto low = static_cast<uint32_t>(value);
    const CUdeviceptr place = address() + at * sizeof(uint64_t);
    switch (step % 7) {
      case 0:
        CHECK(cuStreamWriteValue32_v2(stream_, place, low, 0));
        host_[at] = (host_[at] & kHigh) | low;
        break;
      case 1:
        CHECK(cuStreamWriteValue64_v2(stream_, place, value, 0));
        host_[at] = value;
        break;
      case 2:
        CHECK(
            cuStreamWriteValue32(stream_, place + 4, low, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
        host_[at] = (host_[at] & ~kHigh) | (uint64_t{low} << 32);
        break;
      case 3:
        CHECK(cuStreamWriteValue64(stream_, place, value, 0));
        host_[at] = value;
        break;
      case 4:
        CHECK(cuStreamWriteValue64_v2_ptsz(stream_, place, value, 0));
        host_[at] = value;
        break;
      default:
        write_batch(at, value, step % 7 == 5);
    }
  }

 private:
  void write_batch(unsigned at, uint64_t value, bool old_form) {
    const CUdeviceptr place = address() + at * sizeof(uint64_t);
    CUstreamBatchMemOpParams operations[4]{};
    operations[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, place, value, 0, 0};
    operations[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, place, value,
                               CU_STREAM_WAIT_VALUE_EQ, 0};
    operations[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, place + 8, value & ~kHigh, 0, 0};
    operations[3].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, 0};
    CHECK(old_form ? cuStreamBatchMemOp(stream_, 3, operations, 0)
                   : cuStreamBatchMemOp_v2(stream_, 4, operations, 0));
    host_[at] = value;
    host_[at + 1] = (host_[at + 1] & kHigh) | (value & ~kHigh);
  }

  CUstream stream_;
  std::vector<uint64_t> host_;
  Buffer<uint64_t> words_;
};

CUstream make_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kSignalsPtx);
  const CUfunction fold = module.function("fold");
  const CUstream writer = make_stream(), reader = make_stream();
  {
    Words words(writer);
    std::vector<uint64_t> sums(kWords, 1);
    const Buffer<uint64_t> device_sums(sums);
    // The last turn that was written, and the last that the device has read. `gate`: the last turn
    // that the host let go.
    const Buffer<uint64_t> turns(std::vector<uint64_t>(2));
    const CUdeviceptr written = turns.address(), read = written + sizeof(uint64_t);
    Pinned<uint32_t> gate(1, CU_MEMHOSTALLOC_DEVICEMAP);
    gate[0] = 0;
    CHECK(cuCtxSynchronize());
    for (int step = 0; step < steps; ++step) {
      const auto turn = static_cast<uint32_t>(step + 1);
      CHECK(cuStreamWaitValue32_v2(writer, gate.device_address(), turn, CU_STREAM_WAIT_VALUE_GEQ));
      words.write(static_cast<unsigned>(step), sums[turn % kWords] ^ turn);
      CHECK(cuStreamWriteValue64_v2(writer, written, turn, 0));
      CHECK(cuStreamWaitValue64_v2(reader, written, turn, CU_STREAM_WAIT_VALUE_GEQ));
      launch(fold, {kWords / kThreads, kThreads}, reader, device_sums.address(), words.address());
      CHECK(cuStreamWriteValue32_v2(reader, read, turn, 0));
      CHECK(cuStreamWaitValue32(writer, read, turn, CU_STREAM_WAIT_VALUE_EQ));
      __atomic_store_n(&gate[0], turn, __ATOMIC_SEQ_CST);
      for (unsigned at = 0; at < kWords; ++at) sums[at] = folded(sums[at], words.host()[at], at);
      if (step % 4 == 3) CHECK(cuStreamSynchronize(writer));
      if (step % 20 == 19) {
        must_equal("sums", device_sums.download(), sums);
        std::printf("step %d: %016" PRIx64 "\n", step, digest(sums));
      }
    }
    CHECK(cuStreamSynchronize(reader));
    CHECK(cuStreamSynchronize(writer));
    must_equal("sums", device_sums.download(), sums);
  }
  CHECK(cuStreamDestroy_v2(writer));
  CHECK(cuStreamDestroy_v2(reader));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
