// SPDX-License-Identifier: Apache-2.0
#include "interpose/process/workers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace gpusnap {
namespace {

// Where the process has memory mapped, but for the heap's end and what threads have on their
// stacks.
std::vector<std::string> mappings() {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) found.push_back(line.substr(0, line.find('-')));
  return found;
}

// Never destroyed, as the class asks.
Workers& make(int threads, Workers::Heap heap) {
  return *new Workers(threads, heap);
}

TEST(Workers, AnIdleOneTakesWhatThereIs) {
  Workers& workers = make(2, Workers::Heap::kUnused);
  int done = 0;
  const auto wait = workers.spawn([&done] { done = 1; });
  ASSERT_TRUE(wait);
  wait();
  EXPECT_EQ(done, 1);
}

// The arena of a thread that the C library makes at its first allocation is one more mapping.
TEST(Workers, WhatTheyAllocateMapsNothing) {
#ifdef GPUSNAP_SANITIZED
  GTEST_SKIP() << "the sanitizer's heap is another one";
#endif
  Workers& workers = make(2, Workers::Heap::kUsed);
  const auto allocate = [] {
    std::vector<void*> blocks;
    blocks.reserve(100);
    for (int i = 0; i < 100; ++i) blocks.push_back(std::malloc(100));
    for (void* block : blocks) std::free(block);
  };
  allocate();
  const std::vector<std::string> before = mappings();
  const auto first = workers.spawn(allocate), second = workers.spawn(allocate);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  first();
  second();
  EXPECT_EQ(mappings(), before);
}

}  // namespace
}  // namespace gpusnap
