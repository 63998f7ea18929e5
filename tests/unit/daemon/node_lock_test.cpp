// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/node_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <new>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/becomes.h"

namespace gpusnap {
namespace {

class NodeLockTest : public ::testing::Test {
 protected:
  NodeLockTest() { std::filesystem::remove(path_); }
  ~NodeLockTest() override { std::filesystem::remove(path_); }

  static bool is_free(const NodeLock& lock) {
    const auto held = lock.try_hold();
    EXPECT_TRUE(held.ok()) << held.status().message();
    return held.ok() && held->has_value();
  }
  // Another process, which holds it until it is killed.
  pid_t fork_holder() const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const NodeLock lock(path_);
    const auto held = lock.try_hold();
    if (!held.ok() || !held->has_value()) ::_exit(1);
    for (;;) ::pause();
  }

  const std::string path_ = ::testing::TempDir() + "node-lock-" + std::to_string(::getpid());
  const NodeLock lock_{path_};
};

TEST_F(NodeLockTest, HasOneHolderAndLeavesNoFile) {
  {
    const auto held = lock_.try_hold();
    ASSERT_TRUE(held.ok() && held->has_value());
    EXPECT_FALSE(is_free(lock_));
    EXPECT_FALSE(is_free(NodeLock(path_)));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_TRUE(is_free(lock_));
}

TEST_F(NodeLockTest, IsReleasedWhereItsHolderIsKilled) {
  const pid_t holder = fork_holder();
  ASSERT_GT(holder, 0);
  EXPECT_TRUE(becomes([this] { return !is_free(lock_); }));
  ::kill(holder, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(is_free(lock_));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "what the killed one had left";
}

// A stopped holder still has it.
TEST_F(NodeLockTest, IsHeldByAProcessThatHasBeenStopped) {
  const pid_t holder = fork_holder();
  ASSERT_GT(holder, 0);
  EXPECT_TRUE(becomes([this] { return !is_free(lock_); }));
  ::kill(holder, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, WUNTRACED), holder);
  EXPECT_FALSE(is_free(lock_));
  ::kill(holder, SIGKILL);
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
}

struct Turns {
  std::atomic<int> inside{0};
  std::atomic<int> taken{0};
  std::atomic<int> wrong{0};
};

// Takes turns until so many were taken in all.
void take_turns(const NodeLock& lock, Turns& turns) {
  constexpr int kTurns = 100;
  while (turns.taken < kTurns && turns.wrong == 0) {
    const auto held = lock.try_hold();
    if (!held.ok()) {
      ++turns.wrong;
    } else if (held->has_value()) {
      if (++turns.inside != 1) ++turns.wrong;
      ++turns.taken;
      std::this_thread::yield();
      --turns.inside;
    }
  }
}

// Files come and go under them: the removal of one must not let two in.
TEST_F(NodeLockTest, LetsOneThreadInAtATime) {
  Turns turns;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { take_turns(NodeLock(path_), turns); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns.wrong, 0);
}

TEST_F(NodeLockTest, LetsOneProcessInAtATime) {
  void* const shared =
      ::mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const turns = new (shared) Turns;
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      take_turns(NodeLock(path_), *turns);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(turns->wrong, 0);
  EXPECT_GE(turns->taken, 100);
  EXPECT_FALSE(std::filesystem::exists(path_));
  ::munmap(shared, sizeof(Turns));
}

TEST_F(NodeLockTest, SaysWhereItCannotBeHad) {
  EXPECT_FALSE(NodeLock(path_ + "/none/such").try_hold().ok() &&
               NodeLock(path_ + "/none/such").try_hold()->has_value());
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(lock_.try_hold().ok());
}

TEST_F(NodeLockTest, MakesAndRemovesTheRuntimeFolder) {
  const std::string folder = path_ + "-runtime";
  std::filesystem::create_directory(folder);
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  {
    const NodeLock pinning("node", "pinning"), memory("node", "device-memory"),
        other("b", "pinning");
    EXPECT_TRUE(pinning.path().starts_with(folder + "/gpusnap/"));
    const auto held = pinning.try_hold();
    ASSERT_TRUE(held.ok() && held->has_value());
    EXPECT_FALSE(is_free(NodeLock("node", "pinning")));
    EXPECT_TRUE(is_free(memory));
    EXPECT_TRUE(is_free(other));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ::unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace gpusnap
