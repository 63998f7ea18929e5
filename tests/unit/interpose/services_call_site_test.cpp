#include "interpose/services/call_site.h"

#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "interpose/services/module_table.h"

namespace gpusnap {
namespace {

[[gnu::noinline]] uint64_t ask(CallSites& sites) {
  const uint64_t site = sites.here();
  asm volatile("" ::: "memory");  // no tail call: the frame stays
  return site;
}
// All from one place in the code.
[[gnu::noinline]] std::vector<uint64_t> ask_each(const std::vector<CallSites*>& each) {
  std::vector<uint64_t> found;
  for (CallSites* sites : each) found.push_back(ask(*sites));
  return found;
}
[[gnu::noinline]] uint64_t through_another(CallSites& sites) {
  const uint64_t site = ask(sites);
  asm volatile("" ::: "memory");
  return site;
}
[[gnu::noinline]] uint64_t deep(CallSites& sites, int depth) {
  const uint64_t site = depth == 0 ? sites.here() : deep(sites, depth - 1);
  asm volatile("" ::: "memory");
  return site;
}

TEST(CallSites, AreTheSameForTheSamePlaceAndDifferForOthers) {
  CallSites sites(nullptr);
  if (!sites.available()) GTEST_SKIP() << "no libunwind.so.8";
  const std::vector<uint64_t> repeated = ask_each({&sites, &sites, &sites});
  EXPECT_NE(repeated[0], 0U);
  EXPECT_EQ(repeated[0], repeated[1]);
  EXPECT_EQ(repeated[0], repeated[2]);
  const uint64_t other_line = ask(sites);
  const uint64_t other_path = through_another(sites);
  EXPECT_EQ((std::set<uint64_t>{repeated[0], other_line, other_path}).size(), 3U);
}

TEST(CallSites, DoNotDependOnWhoKeepsThem) {
  CallSites first(nullptr);
  CallSites second(nullptr);
  if (!first.available()) GTEST_SKIP() << "no libunwind.so.8";
  const std::vector<uint64_t> sites = ask_each({&first, &second});
  EXPECT_EQ(sites[0], sites[1]);
}

TEST(CallSites, LeaveOutFramesOfTheGivenModule) {
  // All of the test's own frames gone, only the C library's are left: the same from everywhere.
  CallSites sites(reinterpret_cast<const void*>(&ask));
  if (!sites.available()) GTEST_SKIP() << "no libunwind.so.8";
  EXPECT_EQ(ask(sites), through_another(sites));
}

TEST(CallSites, TakeDeepStacks) {
  CallSites sites(nullptr);
  if (!sites.available()) GTEST_SKIP() << "no libunwind.so.8";
  EXPECT_NE(deep(sites, 10), deep(sites, 11));
  EXPECT_NE(deep(sites, 1000), 0U);
}

TEST(CallSites, MayBeAskedByManyThreads) {
  CallSites sites(nullptr);
  std::vector<std::thread> threads;
  std::vector<std::set<uint64_t>> found(4);
  for (auto& mine : found) {
    threads.emplace_back([&mine, &sites] {
      for (int i = 0; i < 2000; ++i) mine.insert(deep(sites, i % 50));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : found) EXPECT_EQ(mine, found[0]);
  EXPECT_EQ(found[0].size(), sites.available() ? 50U : 1U);
}

TEST(ModuleTable, FindsCodeAndNothingElse) {
  const ModuleTable table = ModuleTable::read();
  const Module* const own = table.find(reinterpret_cast<uintptr_t>(&ask));
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own->identity, 0U);
  const Module* const libc = table.find(reinterpret_cast<uintptr_t>(&gnu_get_libc_version));
  ASSERT_NE(libc, nullptr);
  EXPECT_NE(libc->identity, own->identity);
  int local = 0;
  EXPECT_EQ(table.find(reinterpret_cast<uintptr_t>(&local)), nullptr);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(UINTPTR_MAX), nullptr);
  EXPECT_EQ(table.generation(), module_generation());
}

}  // namespace
}  // namespace gpusnap
