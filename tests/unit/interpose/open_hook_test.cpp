// Files that are opened for reading are noted, and nothing else happens to them. The program is
// linked to the counting library, whose open, fopen and their like stand before the C library's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/interpose/counting/counting.h"

// With _FORTIFY_SOURCE the compiler calls this one.
extern "C" int __open_2(const char* path, int flags);

namespace {

std::vector<std::string> noted() {
  std::vector<std::string> paths;
  for (unsigned long i = 0; counting_opened_file(i) != nullptr; ++i) {
    paths.emplace_back(counting_opened_file(i));
  }
  return paths;
}

// The name of a file that was there before this process, and that nobody else opens.
std::string file(const std::string& name) {
  return std::string(std::getenv("OPEN_HOOK_FILES")) + "/" + name;
}

// The number of files that are newly noted when `open` gives a descriptor.
template <class Open>
size_t more_for(Open&& open) {
  const size_t before = noted().size();
  const int descriptor = open();
  EXPECT_GE(descriptor, 0) << std::strerror(errno);
  char byte = 0;
  EXPECT_EQ(read(descriptor, &byte, 1), 1);
  close(descriptor);
  return noted().size() - before;
}

TEST(OpenHook, EachWayToOpenIsSeenOnceForEachFile) {
  EXPECT_EQ(more_for([] { return open(file("a").c_str(), O_RDONLY); }), 1U);
  EXPECT_EQ(noted().back(), file("a"));
  EXPECT_EQ(more_for([] { return open(file("a").c_str(), O_RDONLY); }), 0U);
  EXPECT_EQ(more_for([] { return open64(file("b").c_str(), O_RDONLY | O_CLOEXEC); }), 1U);
  EXPECT_EQ(more_for([] { return __open_2(file("c").c_str(), O_RDONLY); }), 1U);
  const int folder = open(file("").c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(more_for([&] { return openat(folder, "d", O_RDONLY); }), 1U);
  EXPECT_EQ(noted().back(), file("d"));
  EXPECT_EQ(more_for([&] { return openat64(folder, file("e").c_str(), O_RDONLY); }), 1U);
  close(folder);
  const size_t before = noted().size();
  fclose(fopen(file("f").c_str(), "rb"));
  std::string line;
  std::getline(std::ifstream(file("g")), line);
  EXPECT_EQ(line, "x");
  ASSERT_EQ(chdir(file("").c_str()), 0);
  fclose(fopen64("h", "r"));
  EXPECT_EQ(noted().size(), before + 3);
  EXPECT_EQ(noted().back(), file("h"));
}

TEST(OpenHook, WhatIsNotReadOrNotTheProgramsIsPassedOver) {
  const size_t before = noted().size();
  close(open(file("i").c_str(), O_RDWR));
  fclose(fopen(file("i").c_str(), "r+"));
  close(open("/proc/self/status", O_RDONLY));
  close(open(file("").c_str(), O_RDONLY));
  counting_with_guard([] { close(open(file("i").c_str(), O_RDONLY)); });
  errno = 0;
  EXPECT_EQ(open("/no/such/file", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(fopen("/no/such/file", "r"), nullptr);
  // Made by this process.
  const std::string made = file("made-" + std::to_string(getpid()));
  const int descriptor = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0640);
  ASSERT_GE(descriptor, 0);
  struct stat now = {};
  ASSERT_EQ(fstat(descriptor, &now), 0);
  EXPECT_EQ(now.st_mode & 0777 & ~0027U, 0640U & ~0027U);
  close(descriptor);
  close(open(made.c_str(), O_RDONLY));
  unlink(made.c_str());
  EXPECT_EQ(noted().size(), before);
}

TEST(OpenHook, ThreadsMayOpenAtTheSameTime) {
  const size_t before = noted().size();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] { close(open(file("j").c_str(), O_RDONLY)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(noted().size(), before + 1);
  EXPECT_EQ(noted().back(), file("j"));
}

}  // namespace

// Begins itself anew when it has made its files and the clock of files has gone on.
int main(int argc, char** argv) {
  if (std::getenv("OPEN_HOOK_FILES") == nullptr) {
    std::string folder =
        (std::filesystem::temp_directory_path() / "gpusnap-open-hook-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) return 1;
    struct stat made = {};
    for (char name = 'a'; name <= 'k'; ++name) {
      const std::string path = folder + "/" + name;
      std::ofstream(path) << "x\n";
      stat(path.c_str(), &made);
    }
    // Files may have finer times than the clock that a process takes its beginning from.
    timespec now = {};
    do {
      clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (std::pair(now.tv_sec, now.tv_nsec) <=
             std::pair(made.st_ctim.tv_sec, made.st_ctim.tv_nsec));
    setenv("OPEN_HOOK_FILES", folder.c_str(), 1);
    execv("/proc/self/exe", argv);
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}) {
    unlink(file(name).c_str());
  }
  rmdir(file("").c_str());
  return result;
}
