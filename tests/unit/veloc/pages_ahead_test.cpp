// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/pages_ahead.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace gpusnap::veloc {
namespace {

constexpr uint64_t kPage = 4096, kStep = 16 * kPage, kSteps = 40;
constexpr uint64_t kBytes = kStep * kSteps - 3 * kPage;  // the last step is shorter

class PagesAheadTest : public ::testing::Test {
 protected:
  PagesAheadTest() {
    void* const area = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(area, MAP_FAILED);
    memory_ = static_cast<std::byte*>(area);
  }
  ~PagesAheadTest() override { munmap(memory_, kBytes); }

  uint64_t pages_there() const {
    std::vector<unsigned char> there(kBytes / kPage);
    EXPECT_EQ(mincore(memory_, kBytes, there.data()), 0);
    uint64_t count = 0;
    for (const unsigned char each : there) count += each & 1;
    return count;
  }

  std::byte* memory_ = nullptr;
};

TEST_F(PagesAheadTest, AllPagesAreThereAndWhatWasWrittenStays) {
  for (uint64_t at = 0; at < kBytes; at += 5 * kPage) memory_[at + 7] = std::byte{0x5a};
  EXPECT_LT(pages_there(), kBytes / kPage);
  PagesAhead ahead(memory_, kBytes, kStep, 3);
  for (uint64_t step = 0; step < kSteps; ++step) {
    // In use while pages are made.
    memory_[step * kStep + 1] = std::byte{0x3c};
    ahead.wait_for(step);
  }
  EXPECT_EQ(pages_there(), kBytes / kPage);
  for (uint64_t at = 0; at < kBytes; at += 5 * kPage) EXPECT_EQ(memory_[at + 7], std::byte{0x5a});
  for (uint64_t at = 0; at < kBytes; at += kStep) EXPECT_EQ(memory_[at + 1], std::byte{0x3c});
}

TEST_F(PagesAheadTest, WithoutThreadsNobodyWaits) {
  PagesAhead ahead(memory_, kBytes, kStep, 0);
  for (uint64_t step = 0; step < kSteps; ++step) ahead.wait_for(step);
  EXPECT_EQ(pages_there(), 0);
}

TEST_F(PagesAheadTest, EndsBeforeAllIsMade) {
  for (int round = 0; round < 50; ++round) {
    PagesAhead ahead(memory_, kBytes, kStep, 2);
    if (round % 2 == 0) ahead.wait_for(static_cast<uint64_t>(round) % kSteps);
  }
}

// Memory that cannot be written: the pages cannot be made, and nobody waits for ever.
TEST_F(PagesAheadTest, WhatCannotBeMadeIsNotWaitedFor) {
  ASSERT_EQ(mprotect(memory_, kBytes, PROT_NONE), 0);
  PagesAhead ahead(memory_, kBytes, kStep, 2);
  for (uint64_t step = 0; step < kSteps; ++step) ahead.wait_for(step);
}

}  // namespace
}  // namespace gpusnap::veloc
