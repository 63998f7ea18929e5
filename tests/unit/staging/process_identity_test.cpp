#include "tiers/staging/process_identity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/staging/headless_process.h"

namespace gpusnap {
namespace {

TEST(ProcessIdentity, IsOnesOwn) {
  const ProcessIdentity self = own_identity();
  EXPECT_EQ(self.pid, static_cast<uint32_t>(::getpid()));
  EXPECT_NE(self.started, 0U);
  EXPECT_TRUE(is_running(self));
}

TEST(ProcessIdentity, ANumberThatWasGivenAgainIsAnotherProcess) {
  ProcessIdentity other = own_identity();
  ++other.started;
  EXPECT_FALSE(is_running(other));
  other.started = 0;  // not known: the number decides
  EXPECT_TRUE(is_running(other));
}

TEST(ProcessIdentity, NobodyDoesNotRun) {
  EXPECT_FALSE(is_running({}));
}

TEST(ProcessIdentity, OneThatWasKilledDoesNotRunEvenIfNobodyHasWaitedForIt) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  const ProcessIdentity process{static_cast<uint32_t>(child), 0};
  EXPECT_TRUE(is_running(process));
  EXPECT_FALSE(is_ending(process));
  ::kill(child, SIGKILL);
  siginfo_t about{};
  // Looks only: it stays a zombie.
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_running(process));
  EXPECT_TRUE(is_ending(process));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(process));
  EXPECT_TRUE(is_ending(process));
}

// The process still holds resources of its other threads, such as memory that a device writes to.
TEST(ProcessIdentity, RunsUntilTheLastOfItsThreadsHasEnded) {
  HeadlessProcess other([] {});
  const ProcessIdentity process{other.pid(), 0};
  while (!is_ending(process)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_running(process));
  other.end();
  EXPECT_FALSE(is_running(process));
}

// A parent of CLONE_VFORK waits as one that reads a file does: it cannot be interrupted.
TEST(ProcessIdentity, SeesThreadsThatWaitAndCannotBeInterrupted) {
  constexpr size_t kMost = 64;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setpgid(0, 0);
    (void)::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, 0);
    for (;;) ::pause();
  }
  const auto pid = static_cast<uint32_t>(child);
  while (threads_waiting_for_devices(pid, kMost) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(threads_waiting_for_devices(pid, kMost), 1U);
  EXPECT_EQ(threads_waiting_for_devices(pid, 0), 0U);
  EXPECT_EQ(threads_waiting_for_devices(static_cast<uint32_t>(::getpid()), kMost), 0U);
  ::kill(-child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(threads_waiting_for_devices(pid, kMost), 0U) << "it has gone";
}

TEST(ProcessIdentity, HasANamespace) {
  EXPECT_EQ(pid_namespace(), pid_namespace());
}

}  // namespace
}  // namespace gpusnap
