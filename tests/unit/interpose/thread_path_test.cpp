// Paths of threads as values; that new threads get them is tested with the hooks.
#include "interpose/thread_path.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

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

}  // namespace
}  // namespace gpusnap
