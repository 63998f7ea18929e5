// New threads are told their path, and nothing else happens to them. The program is linked to the
// counting library, whose pthread_create and thrd_create stand before the C library's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <threads.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/interpose/counting/counting.h"

namespace {

std::string own_path() {
  char text[256];
  counting_thread_path(text, sizeof text);
  return text;
}

// The path of a thread that `make` makes, which runs what it is given.
template <class Make>
std::string path_in(Make&& make) {
  std::string found;
  make([&] { found = own_path(); });
  return found;
}
std::string path_in_thread() {
  return path_in([](auto body) { std::thread(body).join(); });
}

// The first number that the calling thread's next child would have; each test begins anywhere.
unsigned next_child() {
  const std::string path = path_in_thread();
  const size_t slash = path.rfind('/');
  return static_cast<unsigned>(
             std::stoul(slash == std::string::npos ? path : path.substr(slash + 1))) +
         1;
}

TEST(ThreadHook, IsTheOneThatIsFound) {
  Dl_info info{};
  for (const char* name : {"pthread_create", "thrd_create"}) {
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &info), 0);
    EXPECT_NE(std::strstr(info.dli_fname, "libcounting"), nullptr) << info.dli_fname;
  }
}

TEST(ThreadHook, ThreadsAreCountedInTheOrderInWhichTheyAreMade) {
  EXPECT_EQ(own_path(), "main");
  const unsigned first = next_child();
  constexpr unsigned kThreads = 5;
  std::vector<std::string> paths(kThreads);
  std::vector<std::thread> threads;
  std::atomic<bool> all_made{false};
  for (std::string& path : paths) {
    threads.emplace_back([&] {
      while (!all_made) std::this_thread::yield();  // in whatever order they get to run
      path = own_path();
    });
  }
  all_made = true;
  for (std::thread& thread : threads) thread.join();
  for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(paths[i], std::to_string(first + i));
}

TEST(ThreadHook, ChildrenOfChildrenAreToldApart) {
  const unsigned first = next_child();
  std::string paths[3];
  std::thread([&] {
    paths[0] = path_in_thread();
    paths[1] = path_in_thread();
    paths[2] = own_path();
  }).join();
  const std::string own = std::to_string(first);
  EXPECT_EQ(paths[0], own + "/0");
  EXPECT_EQ(paths[1], own + "/1");
  EXPECT_EQ(paths[2], own);
}

TEST(ThreadHook, BothWaysToMakeAThreadCount) {
  const unsigned first = next_child();
  EXPECT_EQ(path_in([](auto body) {
              thrd_t thread{};
              auto run = [](void* given) {
                (*static_cast<decltype(body)*>(given))();
                return 42;
              };
              ASSERT_EQ(thrd_create(&thread, run, &body), thrd_success);
              int result = 0;
              ASSERT_EQ(thrd_join(thread, &result), thrd_success);
              EXPECT_EQ(result, 42);  // what it returns is the caller's
            }),
            std::to_string(first));
  EXPECT_EQ(path_in_thread(), std::to_string(first + 1));
}

TEST(ThreadHook, AThreadThatCouldNotBeMadeDoesNotCount) {
  const unsigned first = next_child();
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, size_t{1} << 46), 0);
  // More of them than there are places for what new threads are told: each has to come back.
  for (int i = 0; i < 200; ++i) {
    pthread_t thread{};
    EXPECT_NE(pthread_create(
                  &thread, &attributes, [](void* none) { return none; }, nullptr),
              0);
  }
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(path_in_thread(), std::to_string(first));
}

TEST(ThreadHook, WhatAThreadReturnsAndHowItEndsIsItsOwn) {
  const unsigned first = next_child();
  pthread_t thread{};
  int word = 7;
  void* result = nullptr;
  auto twice = [](void* given) {
    *static_cast<int*>(given) *= 2;
    return given;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, twice, &word), 0);
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &word);
  EXPECT_EQ(word, 14);
  auto leaves = [](void* given) -> void* { pthread_exit(given); };
  ASSERT_EQ(pthread_create(&thread, nullptr, leaves, &word), 0);
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &word);
  auto sleeps = [](void*) -> void* {
    for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, sleeps, nullptr), 0);
  ASSERT_EQ(pthread_cancel(thread), 0);
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(path_in_thread(), std::to_string(first + 3));
}

TEST(ThreadHook, ThreadsMadeInsideAHookedCallDoNotCount) {
  const unsigned first = next_child();
  counting_with_guard([] {
    std::string path, child;
    std::thread([&] {
      path = own_path();
      child = path_in_thread();
    }).join();
    EXPECT_EQ(path, "unknown");
    EXPECT_EQ(child, "unknown");  // nor do theirs
  });
  EXPECT_EQ(path_in_thread(), std::to_string(first));
}

TEST(ThreadHook, ManyAtOnceAllHaveAPathOfTheirOwn) {
  constexpr unsigned kParents = 4, kChildren = 50;
  std::vector<std::string> paths(kParents * kChildren);
  std::vector<std::thread> parents;
  const unsigned first = next_child();
  for (unsigned parent = 0; parent < kParents; ++parent) {
    parents.emplace_back([&, parent] {
      std::vector<std::thread> children;
      for (unsigned child = 0; child < kChildren; ++child) {
        children.emplace_back([&, at = parent * kChildren + child] { paths[at] = own_path(); });
      }
      for (std::thread& child : children) child.join();
    });
  }
  for (std::thread& parent : parents) parent.join();
  for (unsigned at = 0; at < paths.size(); ++at) {
    EXPECT_EQ(paths[at],
              std::to_string(first + at / kChildren) + '/' + std::to_string(at % kChildren));
  }
}

}  // namespace
