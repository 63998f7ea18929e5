// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/tier_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace gpusnap::history {
namespace {

using Answer = TierCache::Answer;
using Asker = TierCache::Asker;

class TierCacheTest : public ::testing::Test {
 protected:
  Claim ask(Version version, uint64_t bytes, Asker asker = Asker::kAnybodyElse) {
    return cache_.ask({version, bytes, true, asker});
  }
  Answer advance(Claim claim) {
    return cache_.advance(
        claim, queue_, [](Version) { return int64_t{1}; },
        [this](Version, int64_t read_ns) { return read_ns <= hidden_ns_; });
  }
  // A checkpoint that is written, and flushed if `flushed`.
  void hold(Version version, uint64_t bytes, bool flushed) {
    ASSERT_EQ(advance(ask(version, bytes)), Answer::kPlaced);
    cache_.apply(version, CopyEvent::kFilled);
    if (flushed) cache_.apply(version, CopyEvent::kStoredBelow);
  }

  TierCache cache_{{12, 1, Evictor::kScore}};
  RestoreQueue queue_;
  int64_t hidden_ns_ = 0;  // reads that take no longer are hidden
};

TEST_F(TierCacheTest, ARequestWaitsForTheFlushOfWhatItReplaces) {
  for (Version version = 0; version < 3; ++version) hold(version, 4, false);
  const Claim claim = ask(9, 4);
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  cache_.apply(0, CopyEvent::kStoredBelow);
  EXPECT_EQ(advance(claim), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{0});
  EXPECT_EQ(cache_.placed().offset, 0);
  EXPECT_EQ(cache_.state(9), CopyState::kWriteInProgress);
  EXPECT_EQ(cache_.state(0), CopyState::kInit);
}

TEST_F(TierCacheTest, ARestoreOfAClaimedCopyMakesTheRequestStartAgain) {
  for (Version version = 0; version < 3; ++version) hold(version, 4, false);
  const Claim claim = ask(9, 4);
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  cache_.apply(0, CopyEvent::kClaim);
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  cache_.apply(1, CopyEvent::kStoredBelow);
  EXPECT_EQ(advance(claim), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{1});
  EXPECT_EQ(cache_.state(0), CopyState::kReadComplete);
}

TEST_F(TierCacheTest, ARequestTakesWhatBecomesEvictableFirst) {
  for (Version version = 0; version < 3; ++version) hold(version, 4, false);
  const Claim claim = ask(9, 4);
  EXPECT_TRUE(cache_.waits_for(claim).empty());
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  ASSERT_EQ(cache_.waits_for(claim).size(), 1);
  EXPECT_EQ(cache_.waits_for(claim).front(), 0);
  cache_.apply(2, CopyEvent::kStoredBelow);
  EXPECT_EQ(advance(claim), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{2});
}

TEST_F(TierCacheTest, NobodyButThePrefetcherWaitsForTheApplication) {
  hold(0, 12, true);
  cache_.apply(0, CopyEvent::kClaim);
  const Claim write = ask(1, 4);
  EXPECT_EQ(advance(write), Answer::kNoRoom);
  const Claim prefetch = ask(2, 4, Asker::kPrefetcher);
  EXPECT_EQ(advance(prefetch), Answer::kWaiting);
  EXPECT_EQ(advance(write), Answer::kNoRoom);
  cache_.apply(0, CopyEvent::kDelivered);
  EXPECT_EQ(advance(prefetch), Answer::kPlaced);
  EXPECT_EQ(advance(write), Answer::kPlaced);
  EXPECT_TRUE(cache_.placed().evicted.empty());
}

TEST_F(TierCacheTest, TwoRequestsClaimDifferentCopies) {
  for (Version version = 0; version < 3; ++version) hold(version, 4, false);
  const Claim first = ask(7, 4), second = ask(8, 8), third = ask(9, 4);
  EXPECT_EQ(advance(first), Answer::kWaiting);
  EXPECT_EQ(advance(second), Answer::kWaiting);
  EXPECT_EQ(advance(third), Answer::kNoRoom);
  cache_.withdraw(second);
  EXPECT_EQ(advance(third), Answer::kWaiting);
  for (Version version = 0; version < 3; ++version) {
    cache_.apply(version, CopyEvent::kStoredBelow);
  }
  EXPECT_EQ(advance(first), Answer::kPlaced);
  EXPECT_EQ(advance(third), Answer::kPlaced);
}

TEST_F(TierCacheTest, WhatIsLargerThanTheCacheHasNoRoom) {
  EXPECT_EQ(advance(ask(0, 13)), Answer::kNoRoom);
}

TEST_F(TierCacheTest, QueuedCopiesStayLongest) {
  for (Version version = 0; version < 3; ++version) hold(version, 4, true);
  for (const Version version : {2, 0}) queue_.hint(version);
  EXPECT_EQ(advance(ask(9, 4)), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{1});
}

// A request would rather wait for another copy, which here takes a nanosecond.
TEST_F(TierCacheTest, AHintedCopyThatIsSlowToReadAgainStays) {
  hold(0, 4, true);
  for (const Version version : {1, 2}) hold(version, 4, false);
  cache_.set_read_time(0, 2);
  for (Version version = 0; version < 3; ++version) queue_.hint(version);
  const Claim claim = ask(9, 4);
  EXPECT_EQ(advance(claim), Answer::kWaiting);
  ASSERT_EQ(cache_.waits_for(claim).size(), 1);
  EXPECT_EQ(cache_.waits_for(claim).front(), 2);
  cache_.withdraw(claim);
  queue_.restored(0);
  EXPECT_EQ(advance(ask(9, 4)), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{0});
}

TEST_F(TierCacheTest, ACopyThatIsSlowToReadAgainGoesBeforeALongerWait) {
  hold(0, 4, true);
  hold(1, 8, false);
  cache_.set_read_time(0, 2);
  for (const Version version : {0, 1}) queue_.hint(version);
  const Claim claim = ask(9, 4);
  const auto ready_in = [](Version) { return int64_t{3}; };
  const auto hides_read = [](Version, int64_t) { return false; };
  EXPECT_EQ(cache_.advance(claim, queue_, ready_in, hides_read), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{0});
}

TEST_F(TierCacheTest, ACopyWhoseReadIsHiddenGoesBeforeAnyWait) {
  hold(0, 4, true);
  for (const Version version : {1, 2}) hold(version, 4, false);
  cache_.set_read_time(0, 2);
  for (Version version = 0; version < 3; ++version) queue_.hint(version);
  hidden_ns_ = 2;
  EXPECT_EQ(advance(ask(9, 4)), Answer::kPlaced);
  EXPECT_EQ(cache_.placed().evicted, std::vector<Version>{0});
}

// Writes, prefetches, flushes, restores and errors in any order, with several requests open.
class AnyLife {
 public:
  explicit AnyLife(uint64_t seed)
      : random_(seed),
        evictor_(static_cast<Evictor>(random_() % 4)),
        cache_({kCapacity, 1, evictor_}) {}

  void run() {
    for (int step = 0; step < 300; ++step) {
      if (random_() % 3 == 0) ask();
      if (random_() % 2 == 0) hint();
      change_a_copy();
      for (const auto& [claim, request] : std::map(open_)) advance(claim);
      ASSERT_NO_FATAL_FAILURE(expect_consistent());
    }
    drain();
  }

 private:
  static constexpr uint64_t kCapacity = 64;

  void ask() {
    const TierCache::Request request = {
        ++newest_, 1 + random_() % 24, random_() % 2 == 0,
        random_() % 3 == 0 ? Asker::kPrefetcher : Asker::kAnybodyElse};
    open_[cache_.ask(request)] = request;
  }
  void hint() {
    if (newest_ == 0) return;
    const Version version = 1 + random_() % newest_;
    queue_.hint(version);
    if (cache_.offset(version)) cache_.set_read_time(version, int64_t(random_() % 9));
  }

  void advance(Claim claim) {
    const Answer answer = cache_.advance(
        claim, queue_, [this](Version) { return int64_t(random_() % 9); },
        [this](Version, int64_t) { return random_() % 2 == 0; });
    if (answer != Answer::kPlaced) {
      if (random_() % 50 != 0) return;
      cache_.withdraw(claim);
      open_.erase(claim);
      return;
    }
    for (const Version version : cache_.placed().evicted) {
      const auto copy = held_.find(version);
      ASSERT_NE(copy, held_.end());
      EXPECT_TRUE(evictable(copy->second.state, copy->second.facts)) << version;
      held_.erase(copy);
    }
    const TierCache::Request& request = open_.at(claim);
    held_[request.version].state =
        request.is_write ? CopyState::kWriteInProgress : CopyState::kReadInProgress;
    open_.erase(claim);
  }

  // Any event that the life cycle allows; a read is always of what a slower tier holds.
  void change_a_copy() {
    if (held_.empty()) return;
    auto& [version, copy] = *std::next(held_.begin(), random_() % held_.size());
    CopyFacts facts = copy.facts;
    facts.stored_below |= copy.state == CopyState::kReadInProgress;
    facts.in_use = random_() % 4 == 0;
    std::vector<CopyEvent> possible;
    for (const CopyEvent event :
         {CopyEvent::kFilled, CopyEvent::kStoredBelow, CopyEvent::kClaim, CopyEvent::kDelivered,
          CopyEvent::kConsumedAbove, CopyEvent::kFail}) {
      if (event == CopyEvent::kFail && random_() % 20 != 0) continue;
      if (next_state(copy.state, event, facts)) possible.push_back(event);
    }
    if (possible.empty()) return;
    apply(version, copy, possible[random_() % possible.size()], facts);
  }

  struct Held {
    CopyState state = CopyState::kInit;
    CopyFacts facts;
  };

  void apply(Version version, Held& copy, CopyEvent event, CopyFacts facts) {
    copy.state = *next_state(copy.state, event, facts);
    facts.stored_below |= event == CopyEvent::kStoredBelow;
    copy.facts = facts;
    cache_.set_facts(version, facts);
    cache_.apply(version, event);
    if (event == CopyEvent::kDelivered) queue_.restored(version);
    if (random_() % 2 == 0) cache_.touch(version);
  }

  void expect_consistent() {
    uint64_t used = 0;
    std::set<Version> found;
    for (const Fragment& fragment : cache_.table().fragments()) {
      if (!fragment.version) continue;
      used += fragment.size;
      found.insert(*fragment.version);
      ASSERT_TRUE(held_.contains(*fragment.version));
    }
    ASSERT_EQ(found.size(), held_.size());
    ASSERT_LE(used, kCapacity);
    for (const auto& [version, copy] : held_) ASSERT_EQ(cache_.state(version), copy.state);
  }

  // Once all copies have been filled, flushed and delivered, every request is placed in the end.
  void drain() {
    while (!open_.empty()) {
      const size_t before = open_.size();
      for (auto& [version, copy] : held_) {
        copy.facts.in_use = false;
        cache_.set_facts(version, copy.facts);
        for (const CopyEvent event :
             {CopyEvent::kFilled, CopyEvent::kStoredBelow, CopyEvent::kDelivered}) {
          if (next_state(copy.state, event, copy.facts)) apply(version, copy, event, copy.facts);
        }
      }
      for (const auto& [claim, request] : std::map(open_)) {
        advance(claim);
        ASSERT_NO_FATAL_FAILURE(expect_consistent());
      }
      ASSERT_LT(open_.size(), before) << "nothing goes on";
    }
  }

  std::mt19937_64 random_;
  const Evictor evictor_;
  TierCache cache_;
  RestoreQueue queue_;
  std::map<Claim, TierCache::Request> open_;
  std::map<Version, Held> held_;
  Version newest_ = 0;
};

TEST(TierCacheHistories, NothingIsLostAndNothingWaitsForEver) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    AnyLife(seed).run();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace gpusnap::history
