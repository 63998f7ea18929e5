// The engine where the system does not do as it is told.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "bulk_support.h"
#include "tiers/io/ring.h"

namespace gpusnap::test {
namespace {

std::string temporary() {
  return std::filesystem::temp_directory_path().string();
}

// Writes a file by the engine and reads it back; ok, or what went wrong.
Status there_and_back(IoEngine& engine, const std::string& path, uint64_t size) {
  const auto files = posix_file_system_on(engine);
  AlignedBytes memory(size);
  const Bytes bytes = noise(size, size);
  std::copy(bytes.begin(), bytes.end(), memory.get().begin());
  auto file = files->create_bulk(path, size);
  if (!file.ok()) return file.status();
  Outcomes writes;
  file.value()->write(0, memory.get(), writes.next());
  if (Status written = writes.wait(); !written.ok()) return written;
  if (Status synced = file.value()->sync(); !synced.ok()) return synced;
  std::fill(memory.get().begin(), memory.get().end(), std::byte{0});
  Outcomes reads;
  file.value()->read(0, memory.get(), reads.next());
  if (Status read = reads.wait(); !read.ok()) return read;
  const bool same = std::equal(bytes.begin(), bytes.end(), memory.get().begin());
  return same ? Status() : Status(Code::kDamaged, "other bytes came back");
}

constexpr uint64_t kSize = (6 << 20) + 77;

std::atomic<int> calls = 0;

bool past_cache(int fd) {
  return (::fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

// Every call but the third moves an odd part, or is interrupted, or asked to come again.
template <class Call>
ssize_t reluctant(size_t size, Call call) {
  const int number = calls++;
  if (number % 4 == 1) {
    errno = EINTR;
    return -1;
  }
  if (number % 4 == 2) {
    errno = EAGAIN;
    return -1;
  }
  return call(number % 4 == 0 ? std::min(size, size / 2 + 3) : size);
}

TEST(IoEngineTest, ShortAndInterruptedCallsAreContinued) {
  const Folder folder(temporary());
  IoOptions options;
  options.kind = IoKind::kThreads;
  options.calls.write = [](int fd, const void* data, size_t size, off_t offset) {
    return reluctant(size, [&](size_t part) {
      return ::pwrite(fd, data, past_cache(fd) ? part / 512 * 512 : part, offset);
    });
  };
  options.calls.read = [](int fd, void* data, size_t size, off_t offset) {
    return reluctant(size, [&](size_t part) {
      return ::pread(fd, data, past_cache(fd) ? part / 512 * 512 : part, offset);
    });
  };
  for (const bool direct : {true, false}) {
    options.direct = direct;
    IoEngine engine(options);
    const Status status = there_and_back(engine, folder.path() + (direct ? "/a" : "/b"), kSize);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(engine.statistics().bytes_written, kSize);
    EXPECT_EQ(engine.statistics().bytes_read, kSize);
  }
}

TEST(IoEngineTest, AFileSystemThatRefusesDirectWritesIsWrittenThroughTheCache) {
  const Folder folder(temporary());
  IoOptions options;
  options.kind = IoKind::kThreads;
  options.calls.write = [](int fd, const void* data, size_t size, off_t offset) -> ssize_t {
    if (!past_cache(fd)) return ::pwrite(fd, data, size, offset);
    errno = EINVAL;
    return -1;
  };
  IoEngine engine(options);
  const Status status = there_and_back(engine, folder.path() + "/file", kSize);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(engine.statistics().bytes_direct, 0U) << "it is not asked again for that file";
}

TEST(IoEngineTest, AFullDeviceIsTold) {
  const Folder folder(temporary());
  IoOptions options;
  options.kind = IoKind::kThreads;
  options.threads = 1;
  options.calls.write = [](int fd, const void* data, size_t size, off_t offset) -> ssize_t {
    if (offset < 4 << 20) return ::pwrite(fd, data, size, offset);
    errno = EDQUOT;
    ++calls;
    return -1;
  };
  calls = 0;
  IoEngine engine(options);
  const Status status = there_and_back(engine, folder.path() + "/file", 64 << 20);
  EXPECT_EQ(status.code(), Code::kNoSpace);
  expect_says(status, folder.path() + "/file: Disk quota exceeded; free space there");
  EXPECT_EQ(calls, 1) << "the rest is left out";
  EXPECT_EQ(engine.statistics().transfers_in_flight, 0U);
}

TEST(IoEngineTest, WithoutThreadsTheCallerDoesIt) {
  const Folder folder(temporary());
  IoOptions options;
  options.spawn = [](const std::function<void()>&) { return Join(); };
  IoEngine engine(options);
  EXPECT_EQ(engine.kind(), IoKind::kThreads) << "the ring needs a thread";
  const Status status = there_and_back(engine, folder.path() + "/file", kSize);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(IoEngineTest, ThreadsComeFromSpawnAndAreBounded) {
  std::atomic<int> made = 0;
  IoOptions options;
  options.threads = 3;
  options.spawn = [&](std::function<void()> body) -> Join {
    ++made;
    auto thread = std::make_shared<std::thread>(std::move(body));
    return [thread] { thread->join(); };
  };
  const Folder folder(temporary());
  IoEngine engine(options);
  EXPECT_EQ(made, engine.kind() == IoKind::kUring ? 4 : 3);
  EXPECT_TRUE(there_and_back(engine, folder.path() + "/file", kSize).ok());
  EXPECT_EQ(made, engine.kind() == IoKind::kUring ? 4 : 3);
}

// Kernels before 6.5 map the ring themselves.
TEST(IoEngineTest, TheRingWorksInMemoryOfBothKinds) {
  const Folder folder(temporary());
  const std::string path = folder.path() + "/file";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (const Ring::Memory memory : {Ring::Memory::kOurs, Ring::Memory::kKernels}) {
    const auto ring = Ring::make(8, memory);
    if (!ring) continue;  // not here
    const Bytes bytes = noise(8000, 1);
    Bytes back(8000);
    std::vector<std::pair<uint64_t, int32_t>> ended;
    const auto await = [&](size_t count) {
      while (ended.size() < count) {
        ASSERT_EQ(ring->submit_and_wait(), 0);
        ring->reap([&](uint64_t tag, int32_t result) { ended.emplace_back(tag, result); });
      }
    };
    for (uint64_t i = 0; i < 8; ++i) ring->write(fd, i * 1000, bytes.data() + i * 1000, 1000, i);
    await(8);
    for (uint64_t i = 0; i < 8; ++i) ring->read(fd, i * 1000, back.data() + i * 1000, 1000, 8 + i);
    await(16);
    for (const auto& [tag, result] : ended) EXPECT_EQ(result, 1000) << tag;
    EXPECT_EQ(back, bytes);
    ring->read(-1, 0, back.data(), 10, 99);
    std::vector<uint64_t> taken;
    ring->take_back([&](uint64_t tag) { taken.push_back(tag); });
    EXPECT_EQ(taken, std::vector<uint64_t>{99});
    ring->read(-1, 0, back.data(), 10, 100);
    await(17);
    EXPECT_EQ(ended.back(), std::make_pair(uint64_t{100}, -EBADF));
  }
  ::close(fd);
}

// In all threads of the process, and for good.
bool forbid(long number, uint32_t error = EPERM) {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

class ForbiddenTest : public ::testing::Test {
 protected:
  ForbiddenTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  // Runs in the process that is then forbidden io_uring. Returns its exit status.
  static int use(long number, bool before) {
    const Folder folder(temporary());
    if (before && !forbid(number)) return 77;
    IoEngine engine;
    const IoKind kind = engine.kind();
    if (!there_and_back(engine, folder.path() + "/a", kSize).ok()) return 1;
    if (before) return kind == IoKind::kThreads ? 0 : 2;
    if (!forbid(number)) return 77;
    for (int i = 0; i < 3; ++i) {
      const std::string path = folder.path() + "/b" + std::to_string(i);
      if (!there_and_back(engine, path, kSize).ok()) return 3;
    }
    return 0;
  }
};

TEST_F(ForbiddenTest, WhereItMayNotBeSetUpThreadsDoIt) {
  EXPECT_EXIT(::_exit(use(__NR_io_uring_setup, true)), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ForbiddenTest, WhereItMayNotBeUsedThreadsDoIt) {
  EXPECT_EXIT(::_exit(use(__NR_io_uring_enter, true)), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(ForbiddenTest, WhereItIsForbiddenLaterThreadsTakeOver) {
  EXPECT_EXIT(::_exit(use(__NR_io_uring_enter, false)), ::testing::ExitedWithCode(0), "^$");
}

// As on file systems that know no renaming that overwrites nothing.
TEST(Renaming, OverwritesNothingWhereTheSystemCannotSaySo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto use = [](bool with_links) {
    const Folder folder(temporary());
    if (!forbid(__NR_renameat2, EINVAL)) return 77;
    if (!with_links && !forbid(__NR_link, EPERM)) return 77;
    FileSystem& files = posix_file_system();
    const std::string from = folder.path() + "/new", to = folder.path() + "/name";
    const auto make = [&](const std::string& path) { return files.create(path).ok(); };
    if (!make(from) || !files.rename(from, to).ok()) return 1;
    if (!make(from)) return 2;  // it was taken away from there
    if (files.rename(from, to).code() != Code::kInvalid) return 3;
    // An answer that was lost: the same file has both names already.
    if (!files.remove(from).ok()) return 4;
    if (with_links && (::link(to.c_str(), from.c_str()) != 0 || !files.rename(from, to).ok())) {
      return 5;
    }
    if (files.remove(from).code() != Code::kNotFound) return 6;
    return files.remove(to).ok() ? 0 : 7;
  };
  EXPECT_EXIT(::_exit(use(true)), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(::_exit(use(false)), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace gpusnap::test
