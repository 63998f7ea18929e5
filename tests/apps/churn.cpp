// Allocation churn: blocks of many sizes are allocated, filled in several ways, mixed with one
// another, copied and freed, some of them with a pitch. The host mirrors the bytes of every block.
#include "churn.h"

#include <algorithm>

#include "app.h"
#include "churn_ptx.h"

namespace app {

constexpr size_t kLive = 24;

struct Block {
  CUdeviceptr address = 0;
  size_t pitch = 0;                // bytes
  unsigned width = 0, height = 1;  // words, rows
  unsigned born = 0;
  std::vector<unsigned> mirror;
};

class Heap {
 public:
  Heap() {
    for (unsigned number = 0; number < kLive; ++number) blocks_.push_back(make(number));
  }
  ~Heap() {
    for (const Block& block : blocks_) CHECK(cuMemFree_v2(block.address));
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // One step: stir some blocks, copy one, and replace one. Prints what the replaced one held.
  void step(unsigned number) {
    for (int round = 0; round < 6; ++round) stir(pick(), pick(), random_.next());
    copy(pick(), pick());
    Block& gone = pick();
    const std::vector<unsigned> words = read(gone);
    std::printf("step %u: block of step %u with %u x %u words, digest %016" PRIx64 "\n", number,
                gone.born, gone.width, gone.height, digest(words));
    must_equal("block", words, gone.mirror);
    CHECK(cuMemFree_v2(gone.address));
    gone = make(number);
  }

 private:
  Block& pick() { return blocks_[random_.below(kLive)]; }

  Block make(unsigned number) {
    Block block;
    block.born = number;
    if (random_.below(4) == 0) {
      block.width = 30 + random_.below(100);
      block.height = 5 + random_.below(60);
      CHECK(cuMemAllocPitch_v2(&block.address, &block.pitch, block.width * sizeof(unsigned),
                               block.height, 4));
    } else {
      block.width = 1 + random_.below(1u << (6 + random_.below(9)));
      block.pitch = block.width * sizeof(unsigned);
      CHECK(cuMemAlloc_v2(&block.address, block.pitch));
    }
    fill(block);
    return block;
  }

  void fill(Block& block) {
    const size_t words = static_cast<size_t>(block.width) * block.height;
    const unsigned value = random_.next();
    if (block.height > 1) {
      for (size_t at = 0; at < words; ++at) block.mirror.push_back(random_.next());
      transfer(block, block.mirror.data(), true);
    } else if (value % 3 == 0) {
      block.mirror.assign(words, value);
      CHECK(cuMemsetD32_v2(block.address, value, words));
    } else if (value % 3 == 1) {
      const unsigned byte = value >> 8 & 0xff;
      block.mirror.assign(words, byte * 0x01010101u);
      CHECK(cuMemsetD8_v2(block.address, static_cast<unsigned char>(byte), block.pitch));
    } else {
      for (size_t at = 0; at < words; ++at) block.mirror.push_back(random_.next());
      CHECK(cuMemcpyHtoD_v2(block.address, block.mirror.data(), block.pitch));
    }
  }

  static void transfer(const Block& block, unsigned* words, bool to_device) {
    CUDA_MEMCPY2D copy{};
    copy.WidthInBytes = block.width * sizeof(unsigned);
    copy.Height = block.height;
    copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    if (to_device) {
      copy.srcHost = words;
      copy.dstDevice = block.address;
      copy.dstPitch = block.pitch;
      copy.srcPitch = copy.WidthInBytes;
    } else {
      copy.dstHost = words;
      copy.srcDevice = block.address;
      copy.srcPitch = block.pitch;
      copy.dstPitch = copy.WidthInBytes;
    }
    CHECK(cuMemcpy2D_v2(&copy));
  }

  static std::vector<unsigned> read(const Block& block) {
    std::vector<unsigned> words(block.mirror.size());
    if (block.height > 1) {
      transfer(block, words.data(), false);
    } else {
      CHECK(cuMemcpyDtoH_v2(words.data(), block.address, block.pitch));
    }
    return words;
  }

  // `other` is read by its first row only: that lies without gaps.
  void stir(Block& block, const Block& other, unsigned salt) {
    if (&block == &other) return;
    const auto words = static_cast<unsigned>(block.mirror.size());
    launch(stir_, Shape{.blocks = (words + 127) / 128, .threads = 128}, nullptr, block.address,
           static_cast<unsigned long long>(block.pitch), block.width, block.height, other.address,
           other.width, salt);
    for (unsigned at = 0; at < words; ++at) {
      block.mirror[at] = stirred(block.mirror[at], other.mirror[at % other.width], salt);
    }
  }

  static void copy(Block& to, const Block& from) {
    if (&to == &from) return;
    const size_t words = std::min(to.width, from.width);
    CHECK(cuMemcpyDtoD_v2(to.address, from.address, words * sizeof(unsigned)));
    std::copy_n(from.mirror.begin(), words, to.mirror.begin());
  }

  Module module_{kChurnPtx};
  CUfunction stir_ = module_.function("stir");
  Random random_{17};
  std::vector<Block> blocks_;
};

int run(int steps) {
  const Device device(ContextKind::kOwn);
  size_t free_bytes = 0, total_bytes = 0;
  CHECK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
  if (free_bytes > total_bytes || total_bytes == 0) fail("cuMemGetInfo", "makes no sense");
  {
    Heap heap;
    for (int step = 1; step <= steps; ++step) heap.step(static_cast<unsigned>(step));
  }
  CHECK(cuCtxSynchronize());
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 1500));
}
