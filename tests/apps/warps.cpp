// Warp intrinsics: shuffles in all four ways, votes, ballots; integer atomics across blocks.
#include "warps.h"

#include <algorithm>
#include <array>
#include <bit>

#include "app.h"

namespace app {

constexpr unsigned kWarps = kLaneValues / kLanes;

struct HostWarps {
  std::vector<unsigned> values = std::vector<unsigned>(kLaneValues);
  std::vector<unsigned> packed = std::vector<unsigned>(kLaneValues);
  std::vector<unsigned> counts = std::vector<unsigned>(kWarps);

  void shuffle() {
    for (unsigned warp = 0; warp < kWarps; ++warp) shuffle_row(warp);
  }
  void shuffle_row(unsigned warp) {
    std::array<unsigned, kLanes> row;
    unsigned* values_here = &values[size_t{warp} * kLanes];
    unsigned* packed_here = &packed[size_t{warp} * kLanes];
    std::transform(values_here, values_here + kLanes, row.begin(), drawn);
    std::sort(row.begin(), row.end());
    unsigned sum = 0, ballot = 0, count = 0;
    bool large = false, all = true;
    std::fill_n(packed_here, kLanes, 0);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      row[lane] = sum += row[lane];
      if ((sum & 1) != 0) {
        ballot |= 1u << lane;
        packed_here[count++] = sum;
      }
      large = large || sum > 0xfff00000u;
      all = all && sum % 64 != 0;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      values_here[lane] = row[lane] + (large ? row[ballot % 32] : 0) + (all ? 1 : 0);
    }
    counts[warp] = static_cast<unsigned>(std::popcount(ballot));
  }
  std::vector<unsigned> tally() const {
    std::vector<unsigned> total = {0, 0};
    for (const unsigned count : counts) {
      if (count > 16) total[0] += count;
      total[1] = std::max(total[1], count);
    }
    return total;
  }
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module("warps.ptx");
  CUfunction shuffle = module.function("shuffle");
  CUfunction tally = module.function("tally");

  HostWarps host;
  Random random(29);
  for (unsigned& value : host.values) value = random.next() + 1;
  const Buffer<unsigned> values(host.values), packed(kLaneValues), counts(kWarps);
  const Buffer<unsigned> total(2);
  for (int step = 1; step <= steps; ++step) {
    CHECK(cuMemsetD32_v2(total.address(), 0, 2));
    launch(shuffle, Shape{.blocks = kLaneValues / kWarpThreads, .threads = kWarpThreads}, nullptr,
           values.address(), packed.address(), counts.address());
    launch(tally, Shape{.blocks = kWarps / 64, .threads = 64}, nullptr, counts.address(),
           total.address());
    host.shuffle();
    const std::vector<unsigned> sums = total.download();
    const std::vector<unsigned> odd = packed.download();
    std::printf("step %d: %u in full warps, at most %u, digest %016" PRIx64 "\n", step, sums[0],
                sums[1], digest(odd));
    must_equal("tally", sums, host.tally());
    must_equal("packed", odd, host.packed);
  }
  must_equal("values", values.download(), host.values);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 300));
}
