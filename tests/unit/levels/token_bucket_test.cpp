// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/token_bucket.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tiers/levels/level_settings.h"

namespace gpusnap::levels {
namespace {

// A sender that waits as told never gets more through, in any time, than the rate and a
// burst; and nobody is held back who sends less.
TEST(TokenBucket, HoldsItsBoundOverAnyTime) {
  std::mt19937_64 random(7);
  for (int history = 0; history < 60; ++history) {
    const uint64_t rate = 1000 + random() % 1'000'000;
    const uint64_t burst = random() % 100'000;
    TokenBucket bucket(rate, burst);
    std::vector<std::pair<int64_t, uint64_t>> passed;  // when, bytes
    int64_t now = static_cast<int64_t>(random() % 1'000'000'000);
    for (int i = 0; i < 200; ++i) {
      const uint64_t bytes = 1 + random() % 20'000;
      const int64_t wait = bucket.take(bytes, now);
      ASSERT_GE(wait, 0);
      now += wait;
      passed.emplace_back(now, bytes);
      if (random() % 4 == 0) now += static_cast<int64_t>(random() % 3'000'000'000);
    }
    for (size_t first = 0; first < passed.size(); ++first) {
      uint64_t bytes = 0;
      for (size_t last = first; last < passed.size(); ++last) {
        bytes += passed[last].second;
        const double seconds = static_cast<double>(passed[last].first - passed[first].first) / 1e9;
        const double most = seconds * static_cast<double>(rate) + static_cast<double>(burst) +
                            static_cast<double>(passed[first].second) + 1;
        ASSERT_LE(static_cast<double>(bytes), most);
      }
    }
  }
}

TEST(TokenBucket, HoldsNobodyBackWhoSendsLess) {
  TokenBucket bucket(1'000'000, 10'000);
  for (int64_t now = 0; now < 1'000'000'000; now += 10'000'000) {
    EXPECT_EQ(bucket.take(9'000, now), 0);
  }
}

TEST(TokenBucket, ZeroIsWithoutABound) {
  TokenBucket bucket(0, 0);
  EXPECT_EQ(bucket.take(UINT64_MAX, 0), 0);
}

TEST(LevelSettings, SchemesAreReadAsTheyAreWritten) {
  EXPECT_EQ(parse_level_scheme("partner"), (LevelScheme{1, 1}));
  EXPECT_EQ(parse_level_scheme("rs:4+2"), (LevelScheme{4, 2}));
  EXPECT_EQ(parse_level_scheme("rs:32+8"), (LevelScheme{32, 8}));
  for (const char* const wrong :
       {"", "rs", "rs:", "rs:4", "rs:4+", "rs:+2", "rs:0+2", "rs:4+0", "rs:33+1", "rs:4+9",
        "rs:04+2", "rs:4+2 ", "partners", "rs:-1+2"}) {
    EXPECT_FALSE(parse_level_scheme(wrong)) << wrong;
  }
  EXPECT_EQ(name_of(LevelScheme{4, 2}), "rs:4+2");
  EXPECT_EQ(name_of(LevelScheme{1, 1}), "partner");
}

TEST(LevelSettings, PeersAreHostsAndPorts) {
  EXPECT_EQ(parse_peer("node1:7000"), (PeerAddress{"node1", 7000}));
  EXPECT_EQ(parse_peer("[::1]:1"), (PeerAddress{"::1", 1}));
  EXPECT_EQ(name_of(*parse_peer("[fe80::1]:65535")), "[fe80::1]:65535");
  for (const char* const wrong :
       {"", "node1", "node1:", ":7000", "node1:0", "node1:65536", "::1:7000", "no de:1", "a:b"}) {
    EXPECT_FALSE(parse_peer(wrong)) << wrong;
  }
}

TEST(LevelSettings, WhatIsMissingIsNamed) {
  LevelSettings settings;
  EXPECT_EQ(problem_of(settings, false), "");
  settings.scheme = LevelScheme{2, 1};
  EXPECT_NE(problem_of(settings, false).find("GPUSNAP_SSD"), std::string::npos);
  EXPECT_NE(problem_of(settings, true).find("GPUSNAP_LEVEL_KEY"), std::string::npos);
  settings.key = "/key";
  EXPECT_NE(problem_of(settings, true).find("GPUSNAP_PEERS"), std::string::npos);
  settings.peers = {{"a", 1}, {"b", 1}, {"c", 1}};
  EXPECT_EQ(problem_of(settings, true), "");
}

}  // namespace
}  // namespace gpusnap::levels
