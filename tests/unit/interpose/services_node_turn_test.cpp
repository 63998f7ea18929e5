// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/node_turn.h"

#include <gtest/gtest.h>

#include <string>

#include <unistd.h>

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

class NodeTurnTest : public ::testing::Test {
 protected:
  const NodeLock lock_{::testing::TempDir() + "node-turn-" + std::to_string(::getpid())};
};

TEST_F(NodeTurnTest, IsOneProcesssAtATime) {
  NodeTurn mine(&lock_, 1h), yours(&lock_, 1h);
  {
    const auto turn = mine.take();
    ASSERT_TRUE(turn);
    EXPECT_TRUE(turn->is_exclusive());
    EXPECT_FALSE(yours.take());
  }
  EXPECT_TRUE(yours.take());
}

TEST_F(NodeTurnTest, GoesWithoutWhereAnotherKeepsItTooLong) {
  NodeTurn mine(&lock_, 1h), yours(&lock_, 0ns);
  const auto turn = mine.take();
  ASSERT_TRUE(turn);
  const auto without = yours.take();
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->is_exclusive());
}

TEST_F(NodeTurnTest, GoesWithoutWhereThereAreNone) {
  NodeTurn without(nullptr);
  EXPECT_FALSE(without.take()->is_exclusive());
  const NodeLock none(lock_.path() + "/no/../such");
  NodeTurn other(&none, 0ns);
  EXPECT_FALSE(other.take()->is_exclusive());
}

}  // namespace
}  // namespace gpusnap
