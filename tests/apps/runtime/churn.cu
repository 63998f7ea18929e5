// Memory comes and goes: each step allocates another size, fills it from a live allocation, and
// frees an old one. The live allocations carry the data on.
#include <deque>

#include "program.h"

namespace {

constexpr size_t kLive = 20;

__host__ __device__ inline uint32_t mixed(const uint32_t* from, size_t size, size_t i,
                                          uint32_t seed) {
  uint32_t value = seed + static_cast<uint32_t>(i);
  for (size_t k = 0; k < 4; ++k) value = value * 31u + from[(i * 7 + k * 13) % size];
  return value;
}

__global__ void fill(uint32_t* to, size_t size, const uint32_t* from, size_t from_size,
                     uint32_t seed) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) to[i] = mixed(from, from_size, i, seed);
}

struct Piece {
  uint32_t* device;
  std::vector<uint32_t> model;
};

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 3000);
  std::deque<Piece> live;
  uint32_t random = 5;
  std::vector<uint32_t> first(1000);
  for (uint32_t& value : first) value = next_random(random);
  live.push_back({upload(first), first});

  for (int step = 1; step <= steps; ++step) {
    // From some hundred bytes to a quarter of a megabyte, small ones more often.
    const uint32_t most = next_random(random) % 65536;
    const size_t size = 50 + (most >> next_random(random) % 8);
    const Piece& source = live[next_random(random) % live.size()];
    Piece piece{allocate<uint32_t>(size), std::vector<uint32_t>(size)};
    const uint32_t seed = next_random(random);
    const auto blocks = static_cast<unsigned int>((size + 127) / 128);
    fill<<<blocks, 128>>>(piece.device, size, source.device, source.model.size(), seed);
    CHECK_LAUNCH();
    for (size_t i = 0; i < size; ++i) {
      piece.model[i] = mixed(source.model.data(), source.model.size(), i, seed);
    }
    live.push_back(std::move(piece));
    if (live.size() > kLive) {
      const size_t old = next_random(random) % (live.size() - 1);
      CHECK(cudaFree(live[old].device));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(old));
    }
    if (step % 20 == 0) {
      const Piece& newest = live.back();
      const std::vector<uint32_t> found = fetch(newest.device, newest.model.size());
      expect_same("piece", found, newest.model);
      std::printf("step %d size %zu hash %016llx\n", step, found.size(),
                  static_cast<unsigned long long>(hash_of(found)));
    }
  }
  uint64_t all = 0;
  for (const Piece& piece : live) {
    const std::vector<uint32_t> found = fetch(piece.device, piece.model.size());
    expect_same("piece", found, piece.model);
    all = all * 31 + hash_of(found);
    CHECK(cudaFree(piece.device));
  }
  std::printf("live %zu hash %016llx\n", live.size(), static_cast<unsigned long long>(all));
  return finish();
}
