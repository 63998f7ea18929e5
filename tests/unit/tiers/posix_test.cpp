// The real file system, in a temporary folder.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support.h"

namespace gpusnap::test {
namespace {

using Bytes = std::vector<std::byte>;

class PosixTest : public ::testing::Test {
 protected:
  PosixTest() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~PosixTest() override { std::filesystem::remove_all(folder_); }
  static mode_t mode(const std::string& path) {
    struct stat about {};
    EXPECT_EQ(::stat(path.c_str(), &about), 0);
    return about.st_mode & 07777;
  }

  FileSystem& files_ = posix_file_system();
  std::string folder_;
};

// Ranks share folders, and who has left nothing in one takes it away.
TEST_F(PosixTest, FoldersAreMadeWhileOthersTakeThemAway) {
  const std::string folder = folder_ + "/job/e1";
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      (void)::mkdir(folder.c_str(), 0700);
      (void)::rmdir(folder.c_str());
    }
  });
  for (int i = 0; i < 4000; ++i) {
    const Status made = files_.make_folder(folder);
    if (!made.ok()) ADD_FAILURE() << i << ": " << made.message();
    if (!made.ok()) break;
  }
  over = true;
  other.join();
}

// More than the system gives at once.
TEST_F(PosixTest, AllNamesOfAFolderAreFound) {
  std::vector<std::string> expected;
  for (int i = 0; i < 600; ++i) {
    expected.push_back(std::to_string(1000 + i) + std::string(60, 'x'));
    std::ofstream(folder_ + "/" + expected.back()) << i;
  }
  const auto entries = files_.entries(folder_);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  std::vector<std::string> found;
  for (const FolderEntry& entry : entries.value()) found.push_back(entry.name);
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(files_.entries(folder_ + "/" + expected[0]).ok());  // a file
}

TEST_F(PosixTest, FilesAreShortenedAndWrittenFurther) {
  const std::string path = folder_ + "/file";
  EXPECT_EQ(files_.continue_bulk(path).status().code(), Code::kNotFound);
  EXPECT_EQ(files_.shorten(path, 0).code(), Code::kNotFound);
  const Bytes bytes = memory_at(1, 1, 10000);
  ASSERT_TRUE(files_.create(path).value()->append(bytes).ok());
  ASSERT_TRUE(files_.shorten(path, 9000).ok());
  ASSERT_TRUE(files_.shorten(path, 9000).ok());
  EXPECT_EQ(files_.shorten(path, 9001).code(), Code::kDamaged);
  {
    const auto file = files_.continue_bulk(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file.value()->size(), 9000U);
    file.value()->write(8000, std::span(bytes).first(1500),
                        [](const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); });
    EXPECT_TRUE(file.value()->sync().ok());
    EXPECT_EQ(file.value()->size(), 9500U);
  }
  Bytes expected(bytes.begin(), bytes.begin() + 8000);
  expected.insert(expected.end(), bytes.begin(), bytes.begin() + 1500);
  Bytes back(9500);
  ASSERT_TRUE(files_.open(path).value()->read(0, back).ok());
  EXPECT_EQ(back, expected);
}

TEST_F(PosixTest, FilesAreWrittenAndReadBack) {
  const std::string path = folder_ + "/a/b//c/file";
  ASSERT_TRUE(files_.make_folder(folder_ + "/a/b//c/").ok());
  ASSERT_TRUE(files_.make_folder(folder_ + "/a/b/c").ok());
  const Bytes bytes = memory_at(1, 1, 20 << 20);
  {
    auto file = files_.create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file.value()->append(std::span(bytes).first(5)).ok());
    ASSERT_TRUE(file.value()->append({}).ok());
    ASSERT_TRUE(file.value()->append(std::span(bytes).subspan(5)).ok());
    ASSERT_TRUE(file.value()->sync().ok());
  }
  const auto file = files_.open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->size(), bytes.size());
  Bytes back(bytes.size());
  ASSERT_TRUE(file.value()->read(0, back).ok());
  EXPECT_EQ(back, bytes);
  Bytes some(10);
  EXPECT_TRUE(file.value()->read(bytes.size() - 10, some).ok());
  const Status beyond = file.value()->read(bytes.size() - 9, some);
  EXPECT_EQ(beyond.code(), Code::kDamaged);
  expect_message(beyond, "1 bytes too early");
}

TEST_F(PosixTest, EverythingIsPrivate) {
  const mode_t before = ::umask(0);
  ASSERT_TRUE(files_.make_folder(folder_ + "/x/y").ok());
  ASSERT_TRUE(files_.create(folder_ + "/x/y/file").ok());
  ASSERT_TRUE(files_.lock(folder_ + "/x/lock").ok());
  ::umask(before);
  EXPECT_EQ(mode(folder_ + "/x"), 0700U);
  EXPECT_EQ(mode(folder_ + "/x/y"), 0700U);
  EXPECT_EQ(mode(folder_ + "/x/y/file"), 0600U);
  EXPECT_EQ(mode(folder_ + "/x/lock"), 0600U);
}

TEST_F(PosixTest, NothingIsOverwritten) {
  ASSERT_TRUE(files_.create(folder_ + "/one").value()->append(Bytes(3)).ok());
  ASSERT_TRUE(files_.create(folder_ + "/two").ok());
  const auto again = files_.create(folder_ + "/one");
  EXPECT_EQ(again.status().code(), Code::kInvalid);
  expect_message(again.status(), folder_ + "/one: File exists");
  EXPECT_EQ(files_.rename(folder_ + "/two", folder_ + "/one").code(), Code::kInvalid);
  EXPECT_EQ(files_.open(folder_ + "/one").value()->size(), 3U);
  EXPECT_TRUE(files_.rename(folder_ + "/one", folder_ + "/three").ok());
  EXPECT_TRUE(files_.sync_folder(folder_).ok());
  EXPECT_EQ(files_.open(folder_ + "/three").value()->size(), 3U);
}

TEST_F(PosixTest, FoldersAreListedByName) {
  ASSERT_TRUE(files_.create(folder_ + "/b").value()->append(Bytes(7)).ok());
  ASSERT_TRUE(files_.make_folder(folder_ + "/a").ok());
  const auto entries = files_.entries(folder_);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ(entries.value()[0].name, "a");
  EXPECT_TRUE(entries.value()[0].is_folder);
  EXPECT_EQ(entries.value()[1].name, "b");
  EXPECT_FALSE(entries.value()[1].is_folder);
  EXPECT_EQ(entries.value()[1].size, 7U);
  EXPECT_GT(entries.value()[1].modified_unix_ns, 1'600'000'000'000'000'000);
}

TEST_F(PosixTest, ErrorsNameThePathAndTheReason) {
  expect_message(files_.open(folder_ + "/no").status(), folder_ + "/no: No such file");
  EXPECT_EQ(files_.open(folder_ + "/no").status().code(), Code::kNotFound);
  EXPECT_EQ(files_.entries(folder_ + "/no").status().code(), Code::kNotFound);
  EXPECT_EQ(files_.remove(folder_ + "/no").code(), Code::kNotFound);
  EXPECT_EQ(files_.remove_folder(folder_ + "/no").code(), Code::kNotFound);
  EXPECT_EQ(files_.sync_folder(folder_ + "/no").code(), Code::kNotFound);
  EXPECT_EQ(files_.open(folder_).status().code(), Code::kDamaged) << "a folder is no file";
  ASSERT_TRUE(files_.create(folder_ + "/file").ok());
  EXPECT_FALSE(files_.make_folder(folder_ + "/file").ok());
  EXPECT_FALSE(files_.make_folder(folder_ + "/file/below").ok());
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_.open(folder_ + "/pipe").status().code(), Code::kDamaged);
}

// Root may read everything; for a while this process is somebody else.
class NotRoot {
 public:
  explicit NotRoot(const std::string& folder) {
    if (!root_) return;
    EXPECT_EQ(::chown(folder.c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;
  ~NotRoot() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  static constexpr uid_t kNobody = 65534;
  const bool root_ = ::geteuid() == 0;
};

TEST_F(PosixTest, PermissionIsToldWithAdvice) {
  const NotRoot user(folder_);
  ASSERT_TRUE(files_.make_folder(folder_ + "/closed").ok());
  ASSERT_EQ(::chmod((folder_ + "/closed").c_str(), 0), 0);
  for (const Status& status :
       {files_.entries(folder_ + "/closed").status(), files_.make_folder(folder_ + "/closed/x"),
        files_.create(folder_ + "/closed/file").status()}) {
    EXPECT_EQ(status.code(), Code::kPermission);
    expect_message(status, "change its permissions or choose another folder");
  }
  // Names can be made where they cannot be read.
  ASSERT_EQ(::chmod((folder_ + "/closed").c_str(), 0300), 0);
  EXPECT_TRUE(files_.make_folder(folder_ + "/closed/x").ok());
  ASSERT_EQ(::chmod((folder_ + "/closed").c_str(), 0700), 0);
}

// The limit makes the last write short before it makes one fail.
TEST_F(PosixTest, AWriteThatIsCutShortIsAnError) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto file = files_.create(folder_ + "/file");
  struct rlimit low = old;
  low.rlim_cur = 5000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status written = file.value()->append(Bytes(8000));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(written.code(), Code::kIo);
  expect_message(written, "File too large");
  EXPECT_EQ(files_.open(folder_ + "/file").value()->size(), 5000U);
}

// Whether another process gets the lock.
bool child_can_lock(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(posix_file_system().lock(path).status().code() == Code::kBusy ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Another process, without what a fork would inherit of our own book-keeping.
bool other_can_lock(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::_exit(::fcntl(fd, F_SETLK, &whole) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(PosixTest, LocksExcludeEachOther) {
  const std::string path = folder_ + "/lock";
  auto lock = files_.lock(path);
  ASSERT_TRUE(lock.ok());
  EXPECT_FALSE(child_can_lock(path));
  EXPECT_FALSE(other_can_lock(path));
  EXPECT_EQ(files_.lock(path).status().code(), Code::kBusy);
  EXPECT_FALSE(other_can_lock(path)) << "asking again must not let it go";
  lock.value().reset();
  EXPECT_TRUE(child_can_lock(path));
  EXPECT_TRUE(files_.lock(path).ok());
}

TEST_F(PosixTest, ALockDiesWithItsProcessWhateverItsChildrenDo) {
  const std::string path = folder_ + "/lock";
  int ready[2];
  int linger[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(linger), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto lock = files_.lock(path);
    if (::fork() == 0) {  // outlives its parent
      ::close(linger[1]);
      char byte = 0;
      (void)!::write(ready[1], "x", 1);
      (void)!::read(linger[0], &byte, 1);
      ::_exit(0);
    }
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(other_can_lock(path));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(other_can_lock(path));
  for (const int fd : {ready[0], ready[1], linger[0], linger[1]}) ::close(fd);
}

TEST_F(PosixTest, ACheckpointComesBack) {
  LocalBackend::Options options;
  options.store = folder_ + "/store";
  options.slot_bytes = 3 << 20;
  LocalBackend backend(files_, options);
  const Job job{"demo", "run1", 0, 1, {9 << 20, 1, 100, (4 << 20) + 4096}, 6 << 20};
  auto store = Store::open(files_, folder_ + "/store", true);
  ASSERT_TRUE(store.ok()) << store.status().message();
  const auto journal = open_journal(backend, job);
  const Status taken = take_checkpoint(backend, job, 1, journal.get());
  ASSERT_TRUE(taken.ok()) << taken.message();
  const auto info = store.value()->find("demo");
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(store.value()->verify(info.value(), {}).ok());
  EXPECT_TRUE(restore(*store.value(), info.value(), job.ranges).ok());
  for (const SegmentRef& segment : info->ranks[0].segments) {
    EXPECT_LE(segment.size, job.segment_bytes);
  }
  // Plain bytes at the manifest's offsets, for everybody.
  const Extent& extent = info->ranks[0].extents.front();
  std::ifstream file(folder_ + "/store/demo/e1/" + info->ranks[0].segments[extent.segment].file,
                     std::ios::binary);
  file.seekg(static_cast<std::streamoff>(extent.segment_offset));
  Bytes bytes(extent.size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Bytes range = memory_at(1, extent.range, job.ranges[extent.range]);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(),
                         range.begin() + static_cast<ptrdiff_t>(extent.offset)));
}

TEST_F(PosixTest, TheStoreStaysWhereItWasWhenTheProgramMoves) {
  const std::string before = std::filesystem::current_path().string();
  ASSERT_EQ(::chdir(folder_.c_str()), 0);
  const auto store = Store::open(files_, "./snapshots/", true);
  ASSERT_EQ(::chdir("/"), 0);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store.value()->folder(), folder_ + "/snapshots");
  EXPECT_TRUE(store.value()->list("").ok());
  ASSERT_EQ(::chdir(before.c_str()), 0);
}

}  // namespace
}  // namespace gpusnap::test
