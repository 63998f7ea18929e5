// Copies blocks of its heap of which it has set only a part, as programs do that keep results
// beside their input or have padding in structures. The rest is what malloc found there: it is the
// same in each run as long as nobody else takes a hand in the program's heap, nor moves its stack,
// addresses of which are left behind in it.
#include "heap.h"

#include <array>
#include <memory>
#include <string_view>

#include "app.h"
#include "heap_ptx.h"

namespace app {

// Below and above the size from which malloc maps pages of their own.
constexpr size_t kSizes[] = {24,   40,   72,   104,   136,   200,    264,    392,    520,
                             1032, 2056, 4104, 16392, 65544, 100000, 200000, 3000000};
constexpr size_t kBlocksOfSize = 3;

struct Free {
  void operator()(unsigned* words) const { std::free(words); }
};

class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes)
      : words_(static_cast<unsigned*>(std::malloc(bytes))),
        count_(bytes / sizeof(unsigned)),
        bytes_(bytes) {
    if (words_ == nullptr) fail("malloc", "no memory");
  }

  // Their sum.
  unsigned set(Random& random) {
    unsigned sum = 0;
    for (size_t at = 0; at < count_; at += kSetEvery) sum += words_.get()[at] = random.next();
    return sum;
  }
  unsigned sum_on_device(CUfunction add_up, const Buffer<char>& room, const Buffer<unsigned>& sum) {
    CHECK(cuMemcpyHtoD_v2(room.address(), words_.get(), bytes_));
    CHECK(cuMemsetD32_v2(sum.address(), 0, 1));
    launch(add_up, {.blocks = 2, .threads = 32}, nullptr, room.pointer(),
           static_cast<unsigned>(count_), sum.pointer());
    return sum.download()[0];
  }

 private:
  std::unique_ptr<unsigned, Free> words_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

// Not in the heap themselves: the first bytes of it are the blocks'.
using Blocks = std::array<Block, std::size(kSizes) * kBlocksOfSize>;

void allocate(Blocks& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = Block(kSizes[i / kBlocksOfSize]);
}

// Leaves its bytes in the heap.
void use_heap(Random& random) {
  Blocks blocks;
  allocate(blocks);
  for (Block& block : blocks) block.set(random);
}

void compare(Blocks& blocks, Random& random, CUfunction add_up, const Buffer<char>& room,
             const Buffer<unsigned>& sum, std::vector<unsigned>& found) {
  std::vector<unsigned> host;
  const size_t before = found.size();
  for (Block& block : blocks) {
    host.push_back(block.set(random));
    found.push_back(block.sum_on_device(add_up, room, sum));
  }
  CHECK(cuCtxSynchronize());
  must_equal("sums", std::vector(found.begin() + static_cast<ptrdiff_t>(before), found.end()),
             host);
}

// `anew`: with new blocks in each step, whose bytes others in the process may have left behind.
int run(int steps, bool anew) {
  Random random(11);
  // Before the driver is started, when nothing but the loader has used the heap, and after it.
  Blocks first, second;
  allocate(first);
  use_heap(random);
  const Device device(ContextKind::kOwn);
  const Module module(kHeapPtx);
  CUfunction add_up = module.function("add_up");
  const Buffer<char> room(*std::ranges::max_element(kSizes));
  const Buffer<unsigned> sum(1);
  allocate(second);
  for (int step = 1; step <= steps; ++step) {
    if (anew) allocate(second);
    std::vector<unsigned> found;
    for (Blocks* blocks : {&first, &second}) compare(*blocks, random, add_up, room, sum, found);
    std::printf("step %d: digest %016" PRIx64 "\n", step, digest(found));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  const bool anew = argc == 3 && std::string_view(argv[2]) == "anew";
  return app::run(app::steps_from(anew ? argc - 1 : argc, argv, 20), anew);
}
