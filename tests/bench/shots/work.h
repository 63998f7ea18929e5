// SPDX-License-Identifier: Apache-2.0
//
// The work of a shot: sizes of checkpoints and the order of restores (GPU cache and
// prefetch paper, section 5.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpusnap::shots {

enum class Sizes : uint8_t { kUniform, kVariable };
enum class Order : uint8_t { kSequential, kReverse, kIrregular };

struct Work {
  std::vector<uint64_t> bytes;  // by checkpoint, in the order of writes
  std::vector<uint64_t> order;  // checkpoints, in the order of restores
};

// `median` is the size of each checkpoint, or about the median of all shots. The same `seed` and
// `process` give the same work.
//
// The paper's traces of reverse time migration are not public; it tells that sizes rise over the
// first snapshots, that a shot of 384 has 38 to 50 GB, and that the median is about 128 MB. Here
// sizes rise linearly over the first quarter and stay on a plateau, with 10% of noise; a shot's
// total is drawn from the published range.
Work make_work(Sizes sizes, Order order, size_t checkpoints, uint64_t median, uint64_t seed,
               unsigned process);

}  // namespace gpusnap::shots
