// Paths of threads as values; that new threads get them is tested with the hooks.
#include "interpose/threads/thread_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gpusnap {
namespace {

std::string text(const ThreadPath& path) {
  char room[kThreadPathText];
  return text_of(path, room);
}

ThreadPath first_thread() {
  ThreadPath path;
  path.known = true;
  return path;
}

TEST(ThreadPath, TheFirstThreadKnowsItself) {
  EXPECT_EQ(text(own_thread_path()), "main");
}

TEST(ThreadPath, AThreadThatNobodyToldIsUnknown) {
  std::string found;
  std::thread([&] { found = text(own_thread_path()); }).join();
  EXPECT_EQ(found, "unknown");
}

TEST(ThreadPath, ChildrenAreCounted) {
  ThreadPath main = first_thread();
  EXPECT_EQ(text(child_of(main)), "0");
  main.children = 12;
  ThreadPath child = child_of(main);
  EXPECT_EQ(text(child), "12");
  EXPECT_EQ(child.children, 0U);
  child.children = 3;
  EXPECT_EQ(text(child_of(child)), "12/3");
}

TEST(ThreadPath, TheDeepestAreStillTold) {
  ThreadPath path = first_thread();
  for (size_t i = 0; i < 3 * ThreadPath::kDeepest; ++i) {
    path.children = UINT32_MAX - 1;
    const std::string before = text(path);
    path = child_of(path);
    EXPECT_NE(text(path), before);
    EXPECT_LT(text(path).size(), kThreadPathText);
  }
}

TEST(ThreadPath, ARunningThreadIsFoundByItsPath) {
  EXPECT_EQ(find_running_thread("main"), getpid());
  ThreadPath path = first_thread();
  path.children = 7;
  path = child_of(path);
  EXPECT_EQ(find_running_thread("7"), 0);
  std::thread([&] {
    const RunningThread running(path);
    EXPECT_EQ(find_running_thread("7"), gettid());
    EXPECT_EQ(find_running_thread("7/0"), 0);
  }).join();
  EXPECT_EQ(find_running_thread("7"), 0);
}

// More than there is room for are not found, and harm nobody.
TEST(ThreadPath, MostRunningThreadsAreFound) {
  std::vector<std::unique_ptr<RunningThread>> running;
  ThreadPath parent = first_thread();
  for (parent.children = 0; parent.children < 2000; ++parent.children) {
    running.push_back(std::make_unique<RunningThread>(child_of(parent)));
  }
  for (unsigned i = 0; i < 1000; ++i) {
    EXPECT_EQ(find_running_thread(std::to_string(i)), gettid()) << i;
  }
  EXPECT_EQ(find_running_thread("1999"), 0);
  running.clear();
  EXPECT_EQ(find_running_thread("1"), 0);
}

}  // namespace
}  // namespace gpusnap
