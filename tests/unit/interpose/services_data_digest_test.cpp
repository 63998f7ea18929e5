#include "interpose/services/data_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gpusnap {
namespace {

TEST(DataDigest, IsOfAllBytesOfShortData) {
  for (const size_t size : {size_t{1}, size_t{17}, size_t{4096}, size_t{32} << 10}) {
    std::vector<std::byte> data(size, std::byte{7});
    const uint64_t digest = data_digest(data);
    EXPECT_NE(digest, 0U);
    EXPECT_EQ(data_digest(data), digest);
    for (size_t at = 0; at < size; at += 1 + size / 97) {
      data[at] = std::byte{8};
      EXPECT_NE(data_digest(data), digest) << at << " of " << size;
      data[at] = std::byte{7};
    }
  }
}

TEST(DataDigest, OfLongDataLooksAtBothEndsAndBetween) {
  std::vector<std::byte> data(size_t{5} << 20, std::byte{7});
  const uint64_t digest = data_digest(data);
  const auto found = [&](size_t from, size_t to) {
    std::vector<std::byte> changed = data;
    std::fill(changed.begin() + static_cast<ptrdiff_t>(from),
              changed.begin() + static_cast<ptrdiff_t>(to), std::byte{8});
    return data_digest(changed) != digest;
  };
  EXPECT_TRUE(found(0, 1));
  EXPECT_TRUE(found(data.size() - 1, data.size()));
  // As much as there is from sample to sample, wherever it is.
  const size_t step = data.size() / 63;
  for (size_t at = 0; at + step <= data.size(); at += step / 2) EXPECT_TRUE(found(at, at + step));
  data.pop_back();
  EXPECT_NE(data_digest(data), digest);
}

TEST(DataDigest, OfNothingIsSomething) {
  EXPECT_NE(data_digest({}), 0U);
}

}  // namespace
}  // namespace gpusnap
