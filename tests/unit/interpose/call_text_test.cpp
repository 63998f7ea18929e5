// SPDX-License-Identifier: Apache-2.0
// Calls and threads in messages.
#include "interpose/journal/call_text.h"

#include <gtest/gtest.h>

#include <string>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/threads/thread_name.h"

namespace gpusnap {
namespace {

TEST(CallText, NamesTheFunctionItsWordsAndItsName) {
  const auto hook = static_cast<uint16_t>(HookId::cuMemFree_v2);
  const uint64_t words[] = {12, 0x7f0000000000};
  const std::string name = name_of(HookId::cuMemFree_v2);
  EXPECT_EQ(describe(hook, words, 2, ""), name + "(12, 0x7f0000000000)");
  EXPECT_EQ(describe(hook, words, 0, "add"), name + "(\"add\")");
  EXPECT_EQ(describe(hook, words, 1, "add"), name + "(12, \"add\")");
  EXPECT_EQ(describe(kHookCount, words, 0, ""), "an unknown call()");
}

TEST(CallText, NamesThreadsByTheirPaths) {
  EXPECT_EQ(name_of_thread("main"), "main thread");
  EXPECT_EQ(name_of_thread("1/0"), "thread 1/0");
  ThreadPath& path = own_thread_path();
  const ThreadPath before = path;
  path = {.known = true, .depth = 2, .ordinals = {1, 0}};
  EXPECT_EQ(own_path(), "1/0");
  EXPECT_EQ(own_name(), "thread 1/0");
  path = before;
}

}  // namespace
}  // namespace gpusnap
