#include "interpose/services/private_memory.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers)
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace gpusnap {
namespace {

uintptr_t address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

TEST(PrivateMemory, GivesAlignedBlocksOfEverySizeThatDoNotOverlap) {
  struct Piece {
    unsigned char* bytes;
    size_t size;
    unsigned char mark;
  };
  std::mt19937_64 random(1);
  std::vector<Piece> pieces;
  const auto check_and_free = [&](size_t index) {
    const Piece piece = pieces[index];
    for (size_t i = 0; i < piece.size; ++i) ASSERT_EQ(piece.bytes[i], piece.mark);
    private_free(piece.bytes);
    pieces[index] = pieces.back();
    pieces.pop_back();
  };
  for (int round = 0; round < 20000; ++round) {
    if (pieces.size() > 300 || (!pieces.empty() && random() % 3 == 0)) {
      check_and_free(random() % pieces.size());
      continue;
    }
    const size_t power = random() % 18;
    const size_t size = random() % ((size_t{2} << power) + 1);
    const size_t alignment = size_t{1} << (random() % 13);
    auto* const bytes = static_cast<unsigned char*>(
        random() % 2 == 0 ? private_allocate(size) : private_allocate_aligned(size, alignment));
    ASSERT_NE(bytes, nullptr);
    ASSERT_EQ(address(bytes) % 16, 0U);
    pieces.push_back({bytes, size, static_cast<unsigned char>(random())});
    std::memset(bytes, pieces.back().mark, size);
  }
  while (!pieces.empty()) check_and_free(0);
}

TEST(PrivateMemory, AlignsAsAsked) {
  std::vector<void*> pointers;
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (const size_t size : {1U, 100U, 5000U, 100000U}) {
      void* const pointer = private_allocate_aligned(size, alignment);
      ASSERT_EQ(address(pointer) % alignment, 0U);
      std::memset(pointer, 0xaa, size);
      pointers.push_back(pointer);
    }
  }
  for (void* pointer : pointers) private_free(pointer);
}

TEST(PrivateMemory, GivesZeroedBlocksOfPages) {
  constexpr size_t kBytes = (3 << 20) + 1;
  for (int round = 0; round < 3; ++round) {
    std::byte* const block = allocate_block(kBytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(address(block) % 4096, 0U);
    for (size_t i = 0; i < kBytes; i += 4096) ASSERT_EQ(block[i], std::byte{0});
    std::memset(block, 0xff, kBytes);
    release_block(block, kBytes);
  }
  release_block(nullptr, 4096);
}

TEST(PrivateMemory, RunsAThreadWithAllSignalsBlocked) {
  bool ran = false;
  bool blocked = false;
  const std::function<void()> join = spawn_thread([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGTERM) == 1;
    char big[256 << 10];
    std::memset(big, 1, sizeof big);
    ran = big[100] == 1;
  });
  ASSERT_TRUE(join);
  join();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGUSR1), 0);
}

TEST(PrivateMemory, ServesManyThreads) {
  std::vector<std::function<void()>> joins;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    joins.push_back(spawn_thread([&wrong, thread] {
      std::mt19937_64 random(static_cast<uint64_t>(thread));
      std::vector<std::pair<uint64_t*, uint64_t>> held;
      for (int round = 0; round < 5000; ++round) {
        auto* const word = static_cast<uint64_t*>(private_allocate(8 + random() % 40000));
        *word = random();
        held.emplace_back(word, *word);
        if (held.size() < 50) continue;
        const size_t index = random() % held.size();
        if (*held[index].first != held[index].second) ++wrong;
        private_free(held[index].first);
        held[index] = held.back();
        held.pop_back();
      }
      for (const auto& [pointer, value] : held) private_free(pointer);
    }));
  }
  for (const auto& join : joins) join();
  EXPECT_EQ(wrong, 0);
}

#ifndef GPUSNAP_SANITIZED

TEST(PrivateMemory, LiesInOneReservedRange) {
  void* const small = private_allocate(10);
  void* const large = private_allocate(1 << 20);
  std::byte* const block = allocate_block(1 << 20);
  int on_stack = 0;
  EXPECT_TRUE(is_private(small));
  EXPECT_TRUE(is_private(large));
  EXPECT_TRUE(is_private(block));
  EXPECT_FALSE(is_private(&on_stack));
  EXPECT_FALSE(is_private(nullptr));
  bool stack_is_private = false;
  spawn_thread([&] {
    int local = 0;
    stack_is_private = is_private(&local);
  })();
  EXPECT_TRUE(stack_is_private);
  private_free(small);
  private_free(large);
  release_block(block, 1 << 20);
}

TEST(PrivateMemory, GivesPagesBack) {
  const PrivateMemoryUse before = private_memory_use();
  void* const large = private_allocate(10 << 20);
  std::byte* const block = allocate_block(20 << 20);
  EXPECT_GE(private_memory_use().heap, before.heap + (10 << 20));
  EXPECT_EQ(private_memory_use().blocks, before.blocks + (20 << 20));
  private_free(large);
  release_block(block, 20 << 20);
  spawn_thread([] {})();
  EXPECT_EQ(private_memory_use().heap, before.heap);
  EXPECT_EQ(private_memory_use().blocks, before.blocks);
}

TEST(PrivateMemory, UsesReturnedAddressesAgain) {
  // Larger than any hole that other tests may have left, and only one part of them in use at a
  // time.
  constexpr size_t kBytes = 64 << 20;
  std::byte* blocks[4];
  for (std::byte*& block : blocks) block = allocate_block(kBytes);
  std::byte* const lowest = *std::min_element(std::begin(blocks), std::end(blocks));
  // Every second one first, so that the holes have to be joined.
  for (const int i : {0, 2, 1, 3}) release_block(blocks[i], kBytes);
  std::byte* const joined = allocate_block(4 * kBytes);
  EXPECT_EQ(joined, lowest);
  release_block(joined, 4 * kBytes);
}

TEST(PrivateMemory, KnowsTheSizeOfABlock) {
  for (const size_t size : {0U, 1U, 17U, 33U, 1000U, 32768U, 32769U, 1000000U}) {
    void* const pointer = private_allocate(size);
    EXPECT_GE(private_size(pointer), size);
    EXPECT_LE(private_size(pointer), size + size / 4 + 4096);
    private_free(pointer);
  }
  void* const aligned = private_allocate_aligned(1000, 256);
  EXPECT_GE(private_size(aligned), 1000U);
  private_free(aligned);
}

TEST(PrivateMemory, RefusesWhatCannotBe) {
  EXPECT_EQ(private_allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(private_allocate(size_t{1} << 46), nullptr);
  EXPECT_EQ(private_allocate_aligned(SIZE_MAX - 10, 64), nullptr);
}

TEST(PrivateMemoryDeath, EndsTheProcessAtAnErrorOfOurs) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        void* const pointer = private_allocate(100);
        private_free(pointer);
        private_free(pointer);
      },
      "memory of the library is damaged: freed twice");
  EXPECT_DEATH(
      {
        auto* const pointer = static_cast<char*>(private_allocate(100));
        std::memset(pointer - 16, 0, 16);
        private_free(pointer);
      },
      "memory of the library is damaged");
}

#endif

TEST(PrivateMemory, IsUsableInAForkedChild) {
  // Threads that allocate all the time, so that a lock is often held at the fork.
  std::atomic<bool> stop{false};
  std::vector<std::function<void()>> joins;
  for (int thread = 0; thread < 2; ++thread) {
    joins.push_back(spawn_thread([&] {
      while (!stop) private_free(private_allocate(40000));
    }));
  }
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      void* const small = private_allocate(100);
      void* const large = private_allocate(100000);
      private_free(large);
      private_free(small);
      _exit(small != nullptr && large != nullptr ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  for (const auto& join : joins) join();
}

}  // namespace
}  // namespace gpusnap
