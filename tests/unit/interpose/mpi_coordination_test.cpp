// Ranks that are threads, over an MPI that is a few lines: all of them must come to the same
// decisions, and none may wait for one that does not come.
#include "interpose/mpi/coordination.h"

#include "interpose/mpi/cut_barriers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace gpusnap::mpi::coordination_test {
namespace {

constexpr Handle kWorld = 1, kDuplicate = 2, kHalf = 3, kInter = 4;

// Reductions of all ranks: the n-th of each communicator.
class FakeWorld {
 public:
  explicit FakeWorld(int ranks) : ranks_(ranks) {}

  uint64_t begin(int rank, Handle communicator, const int* own, int count) {
    const std::lock_guard lock(mutex_);
    const uint64_t number = next_[{communicator, rank}]++;
    Reduction& reduction = reductions_[{communicator, number}];
    reduction.result.resize(static_cast<size_t>(count), INT32_MIN);
    for (int i = 0; i < count; ++i) {
      auto& value = reduction.result[static_cast<size_t>(i)];
      value = std::max(value, own[i]);
    }
    ++reduction.entered;
    entered_.notify_all();
    return number;
  }
  void wait(Handle communicator, uint64_t number, int* result) {
    std::unique_lock lock(mutex_);
    Reduction& reduction = reductions_[{communicator, number}];
    entered_.wait(lock, [&] { return reduction.entered == ranks_; });
    std::copy(reduction.result.begin(), reduction.result.end(), result);
  }

 private:
  struct Reduction {
    std::vector<int> result;
    int entered = 0;
  };
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable entered_;
  std::map<std::pair<Handle, int>, uint64_t> next_;
  std::map<std::pair<Handle, uint64_t>, Reduction> reductions_;
};

FakeWorld* world = nullptr;
thread_local int own_rank = 0;
thread_local Ballot own_ballot;
struct Begun {
  uint64_t number = 0;
  int* result = nullptr;
};
thread_local Begun begun;

Library fake_library() {
  Library library;
  library.handle_bytes = sizeof(Handle);
  library.world = kWorld;
  library.comm_dup = [](Handle, Handle* made) {
    *made = kDuplicate;
    return kSuccess;
  };
  library.comm_free = [](Handle*) { return kSuccess; };
  library.comm_test_inter = [](Handle communicator, int* inter) {
    *inter = communicator == kInter ? 1 : 0;
    return kSuccess;
  };
  library.comm_compare = [](Handle communicator, Handle, int* difference) {
    *difference = communicator == kHalf ? kUnequal : 1;
    return kSuccess;
  };
  library.allreduce = [](const void* own, void* all, int count, Handle, Handle, Handle of) {
    const uint64_t number = world->begin(own_rank, of, static_cast<const int*>(own), count);
    world->wait(of, number, static_cast<int*>(all));
    return kSuccess;
  };
  library.iallreduce = [](const void* own, void* all, int count, Handle, Handle, Handle of,
                          Handle*) {
    begun = {world->begin(own_rank, of, static_cast<const int*>(own), count),
             static_cast<int*>(all)};
    return kSuccess;
  };
  library.wait = [](Handle*, void*) {
    world->wait(kDuplicate, begun.number, begun.result);
    return kSuccess;
  };
  return library;
}

Ballot cast() {
  return own_ballot;
}

class CoordinationTest : public ::testing::Test {
 protected:
  uint64_t every_ = 0;

  // Runs `body(rank, coordination)` on each of them.
  void on_ranks(int ranks, const std::function<void(int, Coordination&)>& body) {
    FakeWorld fake(ranks);
    world = &fake;
    const Library library = fake_library();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        own_rank = rank;
        own_ballot = {};
        Coordination coordination;
        EXPECT_TRUE(coordination.begin(
            library, {static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks), 0}, every_));
        body(rank, coordination);
        coordination.end();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(CoordinationTest, OneRankHasNothingToAgreeUpon) {
  Coordination coordination;
  EXPECT_FALSE(coordination.begin(fake_library(), {0, 1, 0}, 0));
  EXPECT_FALSE(coordination.active());
}

TEST_F(CoordinationTest, RanksHaveARunsNumberInCommon) {
  std::mutex mutex;
  std::set<uint64_t> numbers;
  for (size_t runs = 1; runs <= 4; ++runs) {
    on_ranks(3, [&](int, Coordination& coordination) {
      const std::lock_guard lock(mutex);
      numbers.insert(coordination.job_run());
    });
    EXPECT_EQ(numbers.size(), runs);
  }
  EXPECT_FALSE(numbers.contains(0));
}

TEST_F(CoordinationTest, KnowsWhichCommunicatorsHaveAllRanks) {
  on_ranks(2, [](int, Coordination& coordination) {
    EXPECT_TRUE(coordination.has_all(kWorld));
    EXPECT_TRUE(coordination.has_all(kDuplicate));
    EXPECT_FALSE(coordination.has_all(kHalf));
    EXPECT_FALSE(coordination.has_all(kInter));
  });
}

TEST_F(CoordinationTest, ABarrierCarriesTheBallots) {
  on_ranks(4, [](int rank, Coordination& coordination) {
    own_ballot.wanted = rank == 2 ? 1 : 0;
    own_ballot.unready = rank == 1 ? 3 : 0;
    own_ballot.epoch = 10 + rank;
    Ballot agreed;
    EXPECT_FALSE(coordination.begin_collective());
    EXPECT_TRUE(coordination.carries());
    ASSERT_EQ(coordination.barrier(kWorld, cast, agreed), kSuccess);
    EXPECT_EQ(agreed.wanted, 1);
    EXPECT_EQ(agreed.unready, 3);
    EXPECT_EQ(agreed.epoch, 13);
    EXPECT_EQ(agreed.ended, 0);
  });
}

// After a later collective all ranks know what was wanted at an earlier one, and they all agree.
TEST_F(CoordinationTest, OtherCollectivesBringTheBallotsLater) {
  on_ranks(3, [](int rank, Coordination& coordination) {
    int agreements = 0;
    for (int i = 0; i < 2000 && agreements == 0; ++i) {
      own_ballot.wanted = rank == 1 ? 1 : 0;
      Ballot agreed;
      (void)coordination.begin_collective();
      if (!coordination.after_collective(cast, agreed)) continue;
      ++agreements;
      EXPECT_EQ(agreed.wanted, 1);
    }
    EXPECT_EQ(agreements, 1);
  });
}

// However fast barriers follow each other, at those at which one is due all ranks vote; at others
// only now and then.
TEST_F(CoordinationTest, TheCollectivesThatCountCarryTheBallots) {
  every_ = 250;
  on_ranks(2, [](int rank, Coordination& coordination) {
    int carried = 0;
    for (int i = 1; i <= 5000; ++i) {
      const bool due = coordination.begin_collective();
      EXPECT_EQ(due, i % 250 == 0);
      own_ballot.wanted = due && rank == 0 ? 1 : 0;
      Ballot agreed;
      if (!coordination.carries()) {
        EXPECT_FALSE(coordination.after_collective(cast, agreed));
        continue;
      }
      ++carried;
      ASSERT_EQ(coordination.barrier(kWorld, cast, agreed), kSuccess);
      EXPECT_EQ(agreed.wanted, due ? 1 : 0);
    }
    EXPECT_GE(carried, 5000 / 64);
  });
}

// One that was begun is taken to its end by MPI_Finalize; nobody else has to come.
TEST_F(CoordinationTest, AnEndWithAnAgreementOnItsWay) {
  on_ranks(3, [](int, Coordination& coordination) {
    Ballot agreed;
    (void)coordination.begin_collective();
    EXPECT_FALSE(coordination.after_collective(cast, agreed));
  });
}

// Between two cut_barriers every rank has come to the first, whatever becomes of any of them.
TEST_F(CoordinationTest, RanksMeetWithinACut) {
  constexpr int kRanks = 4, kCuts = 50;
  std::atomic<int> came[2 * kCuts] = {}, ill[2 * kCuts] = {};
  on_ranks(kRanks, [&](int rank, Coordination& coordination) {
    std::mt19937 own(static_cast<unsigned>(rank));
    for (int cut = 0; cut < kCuts; ++cut) {
      int meeting = 2 * cut;
      CutBarriers cut_barriers(
          [&](bool well) {
            ill[meeting] += well ? 0 : 1;
            ++came[meeting];
            const bool all = coordination.meet(well);
            EXPECT_EQ(came[meeting], kRanks);
            EXPECT_EQ(all, ill[meeting] == 0);
            ++meeting;
            return all;
          },
          2, false);
      EXPECT_TRUE(cut_barriers.any());
      // It gives up before the first, between them, or not at all.
      const auto how_far = own() % 8;
      if (how_far > 0) (void)cut_barriers.next(true);
      if (how_far > 1) (void)cut_barriers.next(true);
      EXPECT_EQ(cut_barriers.any(), how_far < 2);
    }
  });
  for (const auto& each : came) EXPECT_EQ(each, kRanks);
}

TEST_F(CoordinationTest, NobodyMeetsWhereNothingIsShared) {
  const auto meet = [](bool well) {
    ADD_FAILURE();
    return well;
  };
  CutBarriers cut_barriers(meet, 0, false);
  EXPECT_FALSE(cut_barriers.any());
  EXPECT_TRUE(cut_barriers.next(true));
  EXPECT_FALSE(cut_barriers.next(false));
  cut_barriers.finish();
}

// A rank that has lost its part on the way does not keep the others from hearing of it.
TEST_F(CoordinationTest, JobsStopOnlyWhereAllRanksHaveSaved) {
  constexpr int kRanks = 3;
  for (const int how_lost : {0, 1, 2}) {
    std::atomic<int> ended{0};
    on_ranks(kRanks, [&](int rank, Coordination& coordination) {
      CutBarriers cut_barriers([&](bool well) { return coordination.meet(well); }, 0, true);
      EXPECT_TRUE(cut_barriers.stops());
      if (rank == 1 && how_lost == 1) return;  // without a word
      if (cut_barriers.all_saved(rank != 1 || how_lost == 0)) ++ended;
      EXPECT_FALSE(cut_barriers.stops());
    });
    EXPECT_EQ(ended, how_lost == 0 ? kRanks : 0) << how_lost;
  }
}

TEST_F(CoordinationTest, OneThatIsToStopIsEnough) {
  on_ranks(3, [](int rank, Coordination& coordination) {
    own_ballot.wanted = rank == 1 ? kStop : rank == 2 ? kCheckpoint : 0;
    Ballot agreed;
    (void)coordination.begin_collective();
    ASSERT_EQ(coordination.barrier(kWorld, cast, agreed), kSuccess);
    EXPECT_EQ(agreed.wanted, kStop);
  });
}

// One that shares is enough, and all know of it.
TEST_F(CoordinationTest, AllKnowThatSomebodyShares) {
  on_ranks(3, [](int rank, Coordination& coordination) {
    own_ballot.shares = rank == 1 ? 1 : 0;
    Ballot agreed;
    (void)coordination.begin_collective();
    ASSERT_EQ(coordination.barrier(kWorld, cast, agreed), kSuccess);
    EXPECT_EQ(agreed.shares, 1);
  });
}

// Programs at random: the same collectives on all ranks, with ballots of their own.
TEST_F(CoordinationTest, EveryRankDecidesTheSame) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    constexpr int kRanks = 4, kSteps = 1500;
    struct Decision {
      int step;
      Ballot agreed;
    };
    std::vector<Decision> decisions[kRanks];
    on_ranks(kRanks, [&](int rank, Coordination& coordination) {
      std::mt19937 program(seed), own(seed * 100 + static_cast<unsigned>(rank));
      for (int step = 0; step < kSteps; ++step) {
        own_ballot.wanted = own() % 20 == 0 ? 1 : 0;
        own_ballot.unready = own() % 10 == 0 ? 1 : 0;
        own_ballot.epoch = step;
        // Ranks are not equally fast.
        if (own() % 40 == 0) std::this_thread::yield();
        Ballot agreed;
        (void)coordination.begin_collective();
        const bool barrier = program() % 3 == 0;
        const bool known = barrier && coordination.carries()
                               ? coordination.barrier(kWorld, cast, agreed) == kSuccess
                               : coordination.after_collective(cast, agreed);
        if (known) decisions[rank].push_back({step, agreed});
      }
    });
    ASSERT_GT(decisions[0].size(), 10U);
    for (int rank = 1; rank < kRanks; ++rank) {
      ASSERT_EQ(decisions[rank].size(), decisions[0].size()) << seed;
      for (size_t i = 0; i < decisions[0].size(); ++i) {
        const Decision &mine = decisions[rank][i], &first = decisions[0][i];
        ASSERT_EQ(mine.step, first.step) << seed;
        ASSERT_EQ(mine.agreed.wanted, first.agreed.wanted) << seed;
        ASSERT_EQ(mine.agreed.unready, first.agreed.unready) << seed;
        ASSERT_EQ(mine.agreed.epoch, first.agreed.epoch) << seed;
        ASSERT_EQ(mine.agreed.stride, first.agreed.stride) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap::mpi::coordination_test
