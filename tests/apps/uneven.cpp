// Several devices of which the first has far more memory to be saved than the others. Each step
// sets a part of each device's memory, changes another one by a kernel, and copies one from device
// to device. Digests of places in between are printed, and of all memory at the end.
#include "uneven.h"

#include <memory>

#include "app.h"
#include "uneven_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr size_t kPart = 64 << 10;      // words: what one command changes
constexpr size_t kLarge = 128 * kPart;  // 32 MiB
constexpr size_t kSmall = 4 * kPart;    // 1 MiB

// The memory of one device, in a context of its own, which each member function makes current.
class Field {
 public:
  Field(int device, size_t words) : words_(words) {
    CHECK(cuCtxCreate_v2(&context_, 0, device));
    CHECK(cuModuleLoadData(&module_, kUnevenPtx));
    CHECK(cuModuleGetFunction(&stir_, module_, "stir"));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&memory_, words * sizeof(unsigned)));
    Random random(static_cast<uint64_t>(device) + 1);
    std::vector<unsigned> start(words);
    for (unsigned& word : start) word = random.next();
    CHECK(cuMemcpyHtoD_v2(memory_, start.data(), words * sizeof(unsigned)));
  }
  ~Field() { CHECK(cuCtxDestroy_v2(context_)); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  // Parts are numbered round and round.
  CUdeviceptr part(size_t number) const {
    return memory_ + number * kPart * sizeof(unsigned) % (words_ * sizeof(unsigned));
  }
  void set_parts(size_t first, size_t count, unsigned value) {
    CHECK(cuCtxSetCurrent(context_));
    for (size_t i = first; i < first + count; ++i) {
      CHECK(cuMemsetD32Async(part(i), value + static_cast<unsigned>(i), kPart, stream_));
    }
  }
  void stir(size_t number, unsigned with) {
    CHECK(cuCtxSetCurrent(context_));
    const unsigned count = kPart;
    launch(stir_, {count / kThreads, kThreads}, stream_, part(number), count, with);
  }
  void send_to(const Field& other, size_t from, size_t to) {
    CHECK(cuCtxSetCurrent(context_));
    CHECK(cuMemcpyPeerAsync(other.part(to), other.context_, part(from), context_,
                            kPart * sizeof(unsigned), stream_));
  }
  void wait() {
    CHECK(cuCtxSetCurrent(context_));
    CHECK(cuStreamSynchronize(stream_));
  }
  uint64_t digest_of(size_t number, size_t words) const {
    CHECK(cuCtxSetCurrent(context_));
    std::vector<unsigned> found(words);
    CHECK(cuMemcpyDtoH_v2(found.data(), part(number), words * sizeof(unsigned)));
    return digest(found);
  }
  size_t words() const { return words_; }

 private:
  const size_t words_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction stir_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
};

int run(int steps) {
  CHECK(cuInit(0));
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  if (devices < 2) fail("uneven", "two devices are needed");
  std::vector<std::unique_ptr<Field>> fields;
  for (int i = 0; i < devices; ++i) {
    fields.push_back(std::make_unique<Field>(i, i == 0 ? kLarge : kSmall));
  }
  for (int step = 0; step < steps; ++step) {
    const auto number = static_cast<unsigned>(step);
    for (auto& field : fields) {
      field->set_parts(29 * number, field == fields.front() ? 40 : 1, number);
      field->stir(7 * number, number);
    }
    for (auto& field : fields) field->wait();
    Field& from = *fields[number % fields.size()];
    from.send_to(*fields[(number + 1) % fields.size()], 3 * number, 5 * number);
    from.wait();
    if (step % 10 != 9) continue;
    for (const auto& field : fields) {
      std::printf("step %d: %016" PRIx64 "\n", step, field->digest_of(5 * number, 256));
    }
  }
  for (const auto& field : fields) {
    std::printf("all: %016" PRIx64 "\n", field->digest_of(0, field->words()));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 60));
}
