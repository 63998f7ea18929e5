// SPDX-License-Identifier: Apache-2.0
#include "tracker/loans.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

TEST(LoansTest, WhatTheOwnerNeedsStays) {
  BlockPool pool(10);
  Loans loans;
  const auto run = loans.grant(pool, 1, 100, 4);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->count, 6U);
  EXPECT_FALSE(loans.grant(pool, 2, 100, 4));
  EXPECT_EQ(pool.take(100).count, 4U);
}

TEST(LoansTest, TheLongestRunIsLent) {
  BlockPool pool(10);
  Loans loans;
  const BlockPool::Run all = pool.take(10);
  pool.give_back({all.first + 1, 2});
  pool.give_back({all.first + 5, 4});
  const auto run = loans.grant(pool, 1, 3, 0);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->first, all.first + 5);
  EXPECT_EQ(run->count, 3U);
}

TEST(LoansTest, ALoanEndsOnce) {
  BlockPool pool(4);
  Loans loans;
  ASSERT_TRUE(loans.grant(pool, 7, 4, 0));
  EXPECT_FALSE(loans.end(pool, 8));
  EXPECT_TRUE(loans.end(pool, 7));
  EXPECT_FALSE(loans.end(pool, 7));
  EXPECT_FALSE(loans.any());
  EXPECT_EQ(pool.free(), 4U);
}

// Borrowers that come, return what they have, and die; an owner that uses its own buffer. A table
// of who has which block is the model.
TEST(LoansTest, RandomHistories) {
  std::mt19937 random(20260727);
  const auto up_to = [&](uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(0, most)(random);
  };
  constexpr uint64_t kNobody = 0, kOwner = 1;
  uint64_t number = kOwner;
  for (int history = 0; history < 1000; ++history) {
    const uint64_t blocks = up_to(64);
    BlockPool pool(blocks);
    Loans loans;
    std::vector<uint64_t> has(blocks, kNobody);
    std::vector<BlockPool::Run> own;
    std::vector<uint64_t> borrowers;
    const auto give = [&](BlockPool::Run run, uint64_t from, uint64_t to) {
      for (uint64_t i = run.first; i < run.first + run.count; ++i) {
        ASSERT_LT(i, blocks);
        ASSERT_EQ(has[i], from) << "block " << i;
        has[i] = to;
      }
    };
    for (int step = 0; step < 100; ++step) {
      const auto free = static_cast<uint64_t>(std::ranges::count(has, kNobody));
      ASSERT_EQ(pool.free(), free);
      switch (up_to(3)) {
        case 0: {
          const uint64_t most = up_to(40), keep = up_to(40);
          const auto run = loans.grant(pool, ++number, most, keep);
          ASSERT_EQ(run.has_value(), most > 0 && free > keep);
          if (!run) break;
          ASSERT_LE(run->count, most);
          ASSERT_LE(run->count + keep, free);
          give(*run, kNobody, number);
          borrowers.push_back(number);
          break;
        }
        case 1: {
          if (borrowers.empty()) break;
          const size_t which = up_to(borrowers.size() - 1);
          const uint64_t gone = borrowers[which];
          borrowers.erase(borrowers.begin() + static_cast<ptrdiff_t>(which));
          const auto run = loans.end(pool, gone);
          ASSERT_TRUE(run);
          give(*run, gone, kNobody);
          ASSERT_EQ(std::ranges::count(has, gone), 0) << "a loan outlives its borrower";
          break;
        }
        case 2: {
          const BlockPool::Run run = pool.take(up_to(20));
          give(run, kNobody, kOwner);
          own.push_back(run);
          break;
        }
        default:
          if (own.empty()) break;
          pool.give_back(own.back());
          give(own.back(), kOwner, kNobody);
          own.pop_back();
      }
      ASSERT_EQ(loans.any(), !borrowers.empty());
    }
  }
}

}  // namespace
}  // namespace gpusnap
