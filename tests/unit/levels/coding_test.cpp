// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/coding.h"

#include <gtest/gtest.h>

#include <random>

#include "tiers/levels/groups.h"

namespace gpusnap::levels {
namespace {

using Blocks = std::vector<std::vector<std::byte>>;

std::vector<const std::byte*> readable(const Blocks& blocks) {
  std::vector<const std::byte*> pointers;
  for (const auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}
std::vector<std::byte*> writable(Blocks& blocks) {
  std::vector<std::byte*> pointers;
  for (auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

Blocks coded(const LevelScheme& scheme, size_t bytes) {
  std::mt19937_64 random(scheme.data * 100 + scheme.parity);
  Blocks data(scheme.data, std::vector<std::byte>(bytes));
  for (auto& block : data) {
    for (std::byte& byte : block) byte = static_cast<std::byte>(random());
  }
  Blocks parity(scheme.parity, std::vector<std::byte>(bytes));
  Encoder(scheme).encode(bytes, readable(data), writable(parity));
  data.insert(data.end(), parity.begin(), parity.end());
  return data;
}

// All shards come back from every choice of as many as are needed.
void recovers_from_everything(const LevelScheme& scheme, size_t bytes) {
  const Blocks shards = coded(scheme, bytes);
  for (uint32_t chosen = 0; chosen < (1U << scheme.shards()); ++chosen) {
    std::vector<uint32_t> present, wanted;
    for (uint32_t shard = 0; shard < scheme.shards(); ++shard) {
      ((chosen >> shard) & 1 ? present : wanted).push_back(shard);
    }
    const auto recovery = Recovery::make(scheme, present, wanted);
    ASSERT_EQ(recovery.ok(), present.size() == scheme.data);
    if (!recovery.ok()) continue;
    Blocks from;
    for (const uint32_t shard : present) from.push_back(shards[shard]);
    Blocks to(wanted.size(), std::vector<std::byte>(bytes));
    recovery.value().recover(bytes, readable(from), writable(to));
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(to[i], shards[wanted[i]]) << name_of(scheme) << ", " << chosen;
    }
  }
}

TEST(Coding, EveryLossUpToTheParityIsMadeGood) {
  for (uint32_t data = 1; data <= 6; ++data) {
    for (uint32_t parity = 1; parity <= 4; ++parity) {
      for (const size_t bytes : {1U, 64U, 1000U}) recovers_from_everything({data, parity}, bytes);
    }
  }
}

TEST(Coding, APartnerHasACopy) {
  const Blocks shards = coded({1, 1}, 300);
  EXPECT_EQ(shards[0], shards[1]);
}

// All square parts of the matrix that ends and begins anywhere: no luck is needed where m is large.
TEST(Coding, TheLargestSchemeLosesItsFirstAndLastShards) {
  const LevelScheme scheme{kMostDataShards, kMostParityShards};
  const Blocks shards = coded(scheme, 128);
  for (uint32_t first = 0; first <= scheme.shards() - scheme.parity; ++first) {
    std::vector<uint32_t> present, wanted;
    Blocks from;
    for (uint32_t shard = 0; shard < scheme.shards(); ++shard) {
      if (shard >= first && shard < first + scheme.parity) {
        wanted.push_back(shard);
      } else {
        present.push_back(shard);
        from.push_back(shards[shard]);
      }
    }
    const auto recovery = Recovery::make(scheme, present, wanted);
    ASSERT_TRUE(recovery.ok());
    Blocks to(wanted.size(), std::vector<std::byte>(128));
    recovery.value().recover(128, readable(from), writable(to));
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(to[i], shards[wanted[i]]);
  }
}

TEST(Coding, RefusesWhatCannotBe) {
  const LevelScheme scheme{2, 1};
  const std::vector<uint32_t> none;
  for (const std::vector<uint32_t>& present :
       {std::vector<uint32_t>{0}, {0, 0}, {0, 3}, {0, 1, 2}}) {
    EXPECT_EQ(Recovery::make(scheme, present, none).status().code(), Code::kInvalid);
  }
  const std::vector<uint32_t> present{0, 1};
  const std::vector<uint32_t> unknown{3};
  EXPECT_EQ(Recovery::make(scheme, present, unknown).status().code(), Code::kInvalid);
}

TEST(Groups, EachShardHasANodeOfItsOwnInTheOwnersGroup) {
  for (uint32_t data = 1; data <= 5; ++data) {
    for (uint32_t parity = 1; parity <= 3; ++parity) {
      const LevelScheme scheme{data, parity};
      for (uint32_t nodes = scheme.shards(); nodes <= 4 * scheme.shards(); ++nodes) {
        std::vector<uint32_t> load(nodes);
        for (uint32_t owner = 0; owner < nodes; ++owner) {
          const auto chosen = holders(owner, nodes, scheme);
          ASSERT_EQ(chosen.size(), scheme.shards());
          EXPECT_EQ(chosen.front(), owner);
          std::vector<bool> seen(nodes);
          for (const uint32_t node : chosen) {
            ASSERT_LT(node, nodes);
            EXPECT_FALSE(seen[node]);
            seen[node] = true;
            ++load[node];
          }
          // Groups do not reach into each other.
          const uint32_t group = owner / scheme.shards();
          const uint32_t groups = nodes / scheme.shards();
          for (const uint32_t node : chosen) {
            EXPECT_EQ(std::min(node / scheme.shards(), groups - 1), std::min(group, groups - 1));
          }
        }
        // Each node holds as much as any other.
        for (const uint32_t shards : load) EXPECT_EQ(shards, scheme.shards());
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap::levels
