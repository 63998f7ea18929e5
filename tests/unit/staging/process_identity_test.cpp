#include "tiers/staging/process_identity.h"

#include <gtest/gtest.h>

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

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
  ::kill(child, SIGKILL);
  siginfo_t about{};
  // Looks only: it stays a zombie.
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_running(process));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(process));
}

TEST(ProcessIdentity, HasANamespace) {
  EXPECT_EQ(pid_namespace(), pid_namespace());
}

}  // namespace
}  // namespace gpusnap
