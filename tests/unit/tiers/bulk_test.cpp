// Bulk files of the real file system, by io_uring and by threads, on a disk and in memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <tuple>

#include "bulk_support.h"

namespace gpusnap::test {
namespace {

struct Way {
  const char* name;
  IoKind kind;
  bool direct;
};
constexpr Way kWays[] = {{"uring", IoKind::kUring, true},
                         {"threads", IoKind::kThreads, true},
                         {"cached", IoKind::kThreads, false}};

struct Place {
  const char* name;
  const char* folder;  // null: the temporary one
};
constexpr Place kPlaces[] = {{"disk", nullptr}, {"memory", "/dev/shm"}};

class BulkTest : public ::testing::TestWithParam<std::tuple<Way, Place>> {
 protected:
  BulkTest() : folder_(where()) { start({}); }
  void SetUp() override {
    if (folder_.path().empty()) GTEST_SKIP() << "no folder in " << where();
    if (way().kind == IoKind::kUring && engine_->kind() != IoKind::kUring) {
      GTEST_SKIP() << "no io_uring here";
    }
  }
  static const Way& way() { return std::get<0>(GetParam()); }
  static std::string where() {
    const Place& place = std::get<1>(GetParam());
    return place.folder != nullptr ? place.folder : std::filesystem::temp_directory_path().string();
  }
  void start(IoOptions options) {
    options.kind = way().kind;
    options.direct = way().direct;
    files_.reset();
    engine_ = std::make_unique<IoEngine>(std::move(options));
    files_ = posix_file_system_on(*engine_);
  }
  std::string path() const { return folder_.path() + "/file"; }
  std::unique_ptr<BulkFile> create(uint64_t reserve = 0) {
    auto file = files_->create_bulk(path(), reserve);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(file.value()) : nullptr;
  }
  std::unique_ptr<BulkFile> open() {
    auto file = files_->open_bulk(path());
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(file.value()) : nullptr;
  }
  // As everybody else sees it.
  Bytes content() const {
    std::ifstream file(path(), std::ios::binary);
    Bytes bytes(std::filesystem::file_size(path()));
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  // Whether the file system has direct I/O; memory is never used so.
  bool has_direct() const {
    if (!way().direct || std::get<1>(GetParam()).folder != nullptr) return false;
    const std::string probe = folder_.path() + "/probe";
    const int fd = ::open(probe.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (fd >= 0) ::close(fd);
    ::unlink(probe.c_str());
    return fd >= 0;
  }

  Folder folder_;
  std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<FileSystem> files_;
};

std::string name_of_way(const ::testing::TestParamInfo<std::tuple<Way, Place>>& chosen) {
  return std::string(std::get<0>(chosen.param).name) + "_" + std::get<1>(chosen.param).name;
}

INSTANTIATE_TEST_SUITE_P(Ways, BulkTest,
                         ::testing::Combine(::testing::ValuesIn(kWays),
                                            ::testing::ValuesIn(kPlaces)),
                         name_of_way);

// Parts of a file, the borders of which lie anywhere: at pages, beside them, many in one page.
std::vector<std::pair<uint64_t, uint64_t>> parts_of(uint64_t size, std::mt19937_64& random) {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (uint64_t at = 0; at < size;) {
    uint64_t part = 1 + random() % (uint64_t{1} << (random() % 23));
    if (random() % 3 == 0) part += 4096 - (at + part) % 4096;
    part = std::min(part, size - at);
    parts.emplace_back(at, part);
    at += part;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

TEST_P(BulkTest, AnyPartsInAnyOrderMakeTheFile) {
  std::mt19937_64 random(7);
  for (const uint64_t size : {0, 1, 511, 4095, 4096, 4097, 65536, 70'000, (1 << 20) + 4096,
                              (5 << 20) + 511, (9 << 20) + 4097}) {
    for (const uint64_t reserve : {uint64_t{0}, size, size + (3 << 20) + 5}) {
      if (size > 2 << 20 && reserve != size) continue;  // the small ones have shown it
      const size_t skew = random() % 3 == 0 ? random() % 4096 : 0;
      AlignedBytes memory(size, skew);
      const Bytes bytes = noise(size, size);
      std::copy(bytes.begin(), bytes.end(), memory.get().begin());
      {
        const auto file = create(reserve);
        Outcomes outcomes;
        for (const auto& [offset, part] : parts_of(size, random)) {
          file->write(offset, memory.get().subspan(offset, part), outcomes.next());
        }
        const Status synced = file->sync();
        ASSERT_TRUE(synced.ok()) << synced.message();
        ASSERT_TRUE(outcomes.wait().ok());
        EXPECT_EQ(file->size(), size);
      }
      ASSERT_EQ(content(), bytes) << size << " bytes, " << reserve << " reserved";

      AlignedBytes back(size, skew);
      const auto file = open();
      EXPECT_EQ(file->size(), size);
      Outcomes outcomes;
      for (const auto& [offset, part] : parts_of(size, random)) {
        file->read(offset, back.get().subspan(offset, part), outcomes.next());
      }
      ASSERT_TRUE(outcomes.wait().ok());
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), back.get().begin())) << size;
      ASSERT_TRUE(files_->remove(path()).ok());
    }
  }
}

// Both ways, past the cache and through it, one after the other in the same pages.
TEST_P(BulkTest, LaterWritesReplaceEarlierOnes) {
  constexpr uint64_t kSize = (2 << 20) + 100;
  std::mt19937_64 random(11);
  AlignedBytes memory(kSize);
  Bytes expected(kSize);
  const auto file = create(kSize);
  for (int round = 0; round < 60; ++round) {
    const uint64_t whole = random() % 2 == 0 ? 4096 : 1;
    const uint64_t offset = random() % kSize / whole * whole;
    const uint64_t size = 1 + random() % (kSize - offset);
    const Bytes bytes = noise(size, random());
    std::copy(bytes.begin(), bytes.end(), memory.get().begin() + static_cast<ptrdiff_t>(offset));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
    Outcomes outcomes;
    file->write(offset, memory.get().subspan(offset, size), outcomes.next());
    ASSERT_TRUE(outcomes.wait().ok());
    const uint64_t from = random() % kSize;
    AlignedBytes back(1 + random() % (kSize - from), random() % 2);
    if (from + back.get().size() > file->size()) continue;
    Outcomes reads;
    file->read(from, back.get(), reads.next());
    ASSERT_TRUE(reads.wait().ok());
    ASSERT_TRUE(std::equal(back.get().begin(), back.get().end(),
                           expected.begin() + static_cast<ptrdiff_t>(from)))
        << round;
  }
  ASSERT_TRUE(file->sync().ok());
  expected.resize(file->size());
  EXPECT_EQ(content(), expected);
}

TEST_P(BulkTest, WhatIsAlignedGoesPastTheCache) {
  constexpr uint64_t kSize = 24 << 20;
  AlignedBytes memory(kSize);
  {
    const auto file = create(kSize);
    Outcomes outcomes;
    file->write(0, memory.get(), outcomes.next());
    ASSERT_TRUE(file->sync().ok());
    ASSERT_TRUE(outcomes.wait().ok());
  }
  Outcomes outcomes;
  const auto file = open();
  file->read(0, memory.get(), outcomes.next());
  ASSERT_TRUE(outcomes.wait().ok());
  const IoStatistics statistics = engine_->statistics();
  EXPECT_EQ(statistics.bytes_written, kSize);
  EXPECT_EQ(statistics.bytes_read, kSize);
  EXPECT_EQ(statistics.bytes_direct, has_direct() ? 2 * kSize : 0);
  const IoOptions& options = engine_->options();
  EXPECT_GT(statistics.most_pieces_in_flight, 0U);
  EXPECT_LE(statistics.most_pieces_in_flight, options.threads + options.depth);
}

// Bytes of the file that are in the page cache.
uint64_t resident(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const uint64_t size = std::filesystem::file_size(path);
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  EXPECT_EQ(::mincore(map, size, pages.data()), 0);
  ::munmap(map, size);
  ::close(fd);
  return 4096 * static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(),
                                                    [](auto page) { return (page & 1) != 0; }));
}

TEST_P(BulkTest, TheFileStaysOutOfThePageCache) {
  if (std::get<1>(GetParam()).folder != nullptr) GTEST_SKIP() << "such files are nowhere else";
  constexpr uint64_t kSize = (80 << 20) + 1234;
  AlignedBytes memory(kSize, 1);  // not aligned: all of it goes through the cache
  {
    const auto file = create(kSize);
    Outcomes outcomes;
    file->write(0, memory.get(), outcomes.next());
    ASSERT_TRUE(outcomes.wait().ok());
    const IoOptions& options = engine_->options();
    EXPECT_LE(resident(path()), WriteBehind::kWindow + (options.threads + 1) * options.piece_bytes);
    ASSERT_TRUE(file->sync().ok());
    EXPECT_LE(resident(path()), kSize / 16);
  }
  const auto file = open();
  Outcomes outcomes;
  file->read(0, memory.get(), outcomes.next());
  ASSERT_TRUE(outcomes.wait().ok());
  EXPECT_LE(resident(path()), kSize / 16);
}

TEST_P(BulkTest, ADoneMayBeginMore) {
  constexpr uint64_t kPart = 100'000;
  const Bytes bytes = noise(10 * kPart, 3);
  const auto file = create();
  Outcomes outcomes;
  std::function<void(uint64_t)> from = [&](uint64_t at) {
    file->write(at, std::span(bytes).subspan(at, kPart),
                [&, at, counted = outcomes.next()](const Status& status) {
                  if (at + kPart < bytes.size()) from(at + kPart);
                  counted(status);
                });
  };
  from(0);
  ASSERT_TRUE(outcomes.wait().ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(outcomes.ended(), 10U);
  EXPECT_EQ(content(), bytes);
}

TEST_P(BulkTest, ManyThreadsWriteOneFile) {
  constexpr uint64_t kPart = (1 << 20) + 33;
  const Bytes bytes = noise(8 * kPart, 5);
  const auto file = create(bytes.size());
  std::vector<std::future<Status>> writers;
  for (uint64_t i = 0; i < 8; ++i) {
    writers.push_back(std::async(std::launch::async, [&, i] {
      Outcomes outcomes;
      file->write(i * kPart, std::span(bytes).subspan(i * kPart, kPart), outcomes.next());
      Status synced = file->sync();
      Status written = outcomes.wait();
      return written.ok() ? synced : written;
    }));
  }
  for (auto& writer : writers) EXPECT_TRUE(writer.get().ok());
  EXPECT_EQ(content(), bytes);
}

TEST_P(BulkTest, AFileThatIsTooShortIsDamaged) {
  const Bytes bytes = noise(300'000, 1);
  {
    const auto file = create();
    Outcomes outcomes;
    file->write(0, bytes, outcomes.next());
    ASSERT_TRUE(file->sync().ok());
  }
  const auto file = open();
  AlignedBytes back(1 << 20);
  Outcomes outcomes;
  file->read(0, back.get(), outcomes.next());
  const Status status = outcomes.wait();
  EXPECT_EQ(status.code(), Code::kDamaged);
  expect_says(status, path() + ": it ends at byte 300000, 748576 bytes too early");
}

TEST_P(BulkTest, ErrorsNameThePathAndTheReason) {
  EXPECT_EQ(files_->open_bulk(path()).status().code(), Code::kNotFound);
  EXPECT_EQ(files_->open_bulk(folder_.path()).status().code(), Code::kDamaged);
  expect_says(files_->create_bulk(folder_.path() + "/no/file", 0).status(), "No such file");
  const Bytes bytes(10);
  ASSERT_TRUE(create()->sync().ok());
  EXPECT_EQ(files_->create_bulk(path(), 0).status().code(), Code::kInvalid);
  const auto file = open();
  Outcomes outcomes;
  file->write(0, bytes, outcomes.next());
  EXPECT_EQ(outcomes.wait().code(), Code::kInvalid);
  Bytes back(10);
  Outcomes beyond;
  file->read(~uint64_t{0} - 3, back, beyond.next());
  EXPECT_EQ(beyond.wait().code(), Code::kInvalid);
  struct stat about {};
  ASSERT_EQ(::stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777U, 0600U);
}

// The limit makes a write short before it makes one fail.
TEST_P(BulkTest, AFileThatMayNotGrowIsAnError) {
  constexpr uint64_t kLimit = (2 << 20) + 5000;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  AlignedBytes memory(3 << 20);
  const Bytes bytes = noise(3 << 20, 9);
  std::copy(bytes.begin(), bytes.end(), memory.get().begin());
  {
    const auto file = create();
    struct rlimit low = old;
    low.rlim_cur = kLimit;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    Outcomes outcomes;
    file->write(0, memory.get(), outcomes.next());
    const Status status = outcomes.wait();
    const Status synced = file->sync();
    ::setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_EQ(status.code(), Code::kIo);
    expect_says(status, "cannot write " + path() + ": File too large");
    EXPECT_EQ(synced.message(), status.message()) << "what was not written cannot become durable";
    EXPECT_FALSE(file->sync().ok());
  }
  std::signal(SIGXFSZ, before);
  Bytes there = content();
  EXPECT_EQ(there.size(), kLimit);
  EXPECT_TRUE(std::equal(there.begin(), there.end(), bytes.begin()));
}

TEST_P(BulkTest, RoomThatIsNotThereIsSaidAtOnce) {
  if (std::get<1>(GetParam()).folder == nullptr) GTEST_SKIP() << "would fill the disk to try";
  const auto file = files_->create_bulk(path(), uint64_t{1} << 50);
  EXPECT_EQ(file.status().code(), Code::kNoSpace);
  expect_says(file.status(), path());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// Blocks side by side, a sync between them and one at the end.
TEST_P(BulkTest, RoomIsTakenAheadAndGivenBack) {
  constexpr uint64_t kBlockBytes = 1 << 20;
  constexpr uint64_t kBlocks = 12;
  std::mt19937_64 random(7);
  Bytes bytes(kBlocks * kBlockBytes + 777);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto file = create(kRoomAhead);
  const auto write = [&](uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < end; at += kBlockBytes) {
      const uint64_t size = std::min(kBlockBytes, end - at);
      file->write(at, std::span(bytes).subspan(at, size), [](const Status&) {});
    }
  };
  write(0, 9 * kBlockBytes);
  if (has_direct()) {
    EXPECT_GT(std::filesystem::file_size(path()), 9 * kBlockBytes);
  }
  EXPECT_EQ(file->size(), 9 * kBlockBytes);
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(std::filesystem::file_size(path()), 9 * kBlockBytes);
  write(9 * kBlockBytes, bytes.size());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(content(), bytes);
}

// A process at its limit of file size is not ended for room that was only taken ahead.
TEST_P(BulkTest, NoMoreRoomIsTakenThanMayBeWritten) {
  const Bytes bytes(6 << 20, std::byte{1});
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const struct rlimit limit { 7 << 20, old.rlim_max };
  Status synced;
  {
    const auto file = create(kRoomAhead);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    file->write(0, bytes, [](const Status&) {});
    synced = file->sync();
    ::setrlimit(RLIMIT_FSIZE, &old);
  }
  EXPECT_TRUE(synced.ok()) << synced.message();
  EXPECT_EQ(content(), bytes);
}

TEST_P(BulkTest, AForkedChildIsRefused) {
  const auto file = create();
  const Bytes bytes(10);
  const pid_t child = ::fork();
  if (child == 0) {
    Code code = Code::kOk;
    file->write(0, bytes, [&](const Status& status) { code = status.code(); });
    const bool refused = code == Code::kUnsupported && file->sync().code() == Code::kUnsupported;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace gpusnap::test
