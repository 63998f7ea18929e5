// A backend is killed: at each of its file operations, or at any moment. The next one brings what
// was sealed to its end, bit for bit, and leaves neither files nor shared memory behind.
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "saver.h"
#include "tiers/backend/backend.h"
#include "tiers/io/io_engine.h"
#include "tiers/names.h"
#include "watched_file_system.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kSlot = 16 << 10;

// With a local tier behind the cache, or without.
class BackendKillTest : public ::testing::TestWithParam<bool> {
 protected:
  BackendKillTest() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) folder_ = name;
    area_ = StagingMemory::name_for("backend-kill-test-" + std::to_string(::getpid()));
    job_.ranges = {20000, 1, 100 << 10, 777};
  }
  ~BackendKillTest() override {
    std::filesystem::remove_all(folder_);
    ::shm_unlink(("/" + area_).c_str());
  }

  std::string store() const { return folder_ + "/store"; }

  struct Node {
    std::string area;
    std::string ssd;
  };
  Node first_node() const { return {area_, folder_ + "/ssd"}; }

  // Until it closes the area or is killed, by itself at the operation `dies_at`.
  [[noreturn]] static void serve(const Node& node, uint64_t slots, size_t dies_at) {
    const auto memory = StagingMemory::serve(node.area, {kSlot, slots * kSlot});
    if (!memory.ok()) ::_exit(memory.status().code() == Code::kBusy ? 2 : 3);
    IoEngine engine{IoOptions()};
    const auto real = posix_file_system_on(engine);
    std::atomic<size_t> operations{0};
    WatchedFileSystem files(*real, [&] {
      if (operations++ == dies_at) ::kill(::getpid(), SIGKILL);
    });
    Backend::Options options;
    options.chunk_bytes = 3 * kSlot;
    options.idle = 1ms;
    if (GetParam()) {
      options.name = node.area;
      options.ssd = {{node.ssd, 12 * kSlot}};
      options.policy = PlacementPolicy::kHybridNaive;
      options.cache_bytes = 3 * kSlot;
    }
    const auto backend = Backend::make(files, *memory.value(), options);
    if (!backend.ok()) ::_exit(4);
    backend.value()->run();
    ::_exit(0);
  }

  pid_t start(uint64_t slots, size_t dies_at = SIZE_MAX) {
    return start(first_node(), slots, dies_at);
  }
  static pid_t start(const Node& node, uint64_t slots, size_t dies_at) {
    const pid_t child = ::fork();
    if (child == 0) serve(node, slots, dies_at);
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
  }

  void expect_back(uint64_t epoch) {
    const auto opened = Store::open(posix_file_system(), store(), false);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto found = opened.value()->find(job_.name + "@" + std::to_string(epoch));
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_EQ(found->state, CheckpointState::kComplete) << found->reason;
    const Status verified = opened.value()->verify(found.value(), {});
    EXPECT_TRUE(verified.ok()) << verified.message();
    const Status restored = restore(*opened.value(), found.value(), job_.ranges);
    EXPECT_TRUE(restored.ok()) << restored.message();
  }

  // Nothing but manifests, their segments, and the journal.
  void expect_clean() {
    std::map<std::string, bool> named;
    const auto opened = Store::open(posix_file_system(), store(), false);
    const auto listed = opened.value()->list("");
    ASSERT_TRUE(listed.ok());
    for (const CheckpointInfo& info : listed.value()) {
      for (const Manifest& manifest : info.ranks) {
        for (const SegmentRef& ref : manifest.segments) named[ref.file] = true;
      }
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store())) {
      if (entry.is_directory()) continue;
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(named.count(name) > 0 || parse_manifest_name(name) || is_journal_name(name) ||
                  name == "lock")
          << entry.path();
    }
    EXPECT_FALSE(StagingMemory::attach(area_).ok());
    if (!GetParam()) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/ssd")) {
      if (entry.is_directory()) continue;
      // Nothing but copies of what is in the store.
      const std::string name = entry.path().filename();
      const std::filesystem::path folder = entry.path().parent_path();
      const std::string job = folder.parent_path().filename();
      const std::string epoch = folder.filename();
      const bool is_copy = parse_chunk_name(name) || parse_block_log_name(name);
      const std::string manifest = store() + "/" + job + "/" + epoch + "/" + manifest_name(0);
      EXPECT_TRUE(name == "lock" || (is_copy && std::filesystem::exists(manifest))) << entry.path();
    }
  }

  // A client attaches as soon as there is something to attach to.
  std::unique_ptr<StagingMemory> attach() {
    for (int i = 0; i < 5000; ++i) {
      auto memory = StagingMemory::attach(area_);
      if (memory.ok()) return std::move(memory.value());
      std::this_thread::sleep_for(1ms);
    }
    return nullptr;
  }

  // An area with room for `slots`, and nobody who serves it.
  static std::unique_ptr<StagingMemory> unserved(const std::string& area, uint64_t slots) {
    {
      auto memory = StagingMemory::serve(area, {kSlot, slots * kSlot});
      if (!memory.ok()) return nullptr;
      memory.value()->grow(slots);
    }
    auto memory = StagingMemory::attach(area);
    return memory.ok() ? std::move(memory.value()) : nullptr;
  }

  std::string folder_;
  std::string area_;
  Job job_;
};

// All is handed over before the first backend looks.
TEST_P(BackendKillTest, AtEachFileOperation) {
  constexpr uint64_t kSlots = 40;
  bool died = true;
  size_t at = 0;
  constexpr size_t kStep = 11;  // all of them take minutes
  for (; died; at += kStep) {
    job_.run = "run" + std::to_string(at);
    job_.name = "demo" + std::to_string(at);
    {
      auto memory = StagingMemory::serve(area_, {kSlot, kSlots * kSlot});
      ASSERT_TRUE(memory.ok()) << memory.status().message();
      memory.value()->grow(kSlots);
    }
    const auto memory = attach();
    ASSERT_TRUE(memory);
    Saver saver(*memory, store(), job_);
    saver.compression = {CompressionSetting::Mode::kLevel, 1};
    saver.open_journal();
    const uint64_t epoch = 2 * at + 1;
    const uint32_t first = saver.save(epoch);
    const uint32_t second = saver.save(epoch + 1, epoch);
    const pid_t dying = start(kSlots, at);
    // It ends by itself only where it was not killed, and the client is gone by then.
    int status = 0;
    died = false;
    while (!died && !(saver.client().outcome(first) && saver.client().outcome(second))) {
      died = ::waitpid(dying, &status, WNOHANG) != 0;
      std::this_thread::sleep_for(100us);
    }
    pid_t next = dying;
    if (died) {
      ASSERT_TRUE(WIFSIGNALED(status)) << status;
      next = start(kSlots);
    }
    const Status saved = saver.wait(first);
    EXPECT_TRUE(saved.ok()) << "killed at " << at << ": " << saved.message();
    const Status increment = saver.wait(second);
    EXPECT_TRUE(increment.ok()) << "killed at " << at << ": " << increment.message();
    saver.go();
    int ended = wait_for(next);
    if (next == dying && WIFSIGNALED(ended)) {  // while it tidied up
      died = true;
      ended = wait_for(start(kSlots));
    }
    EXPECT_EQ(ended, 0);
    expect_back(epoch);
    expect_back(epoch + 1);
    expect_clean();
    if (HasFailure()) FAIL() << "killed at " << at;
  }
  EXPECT_GT(at, 60U);
}

// Backends come and go while a client saves through a pool that is smaller than a checkpoint.
TEST_P(BackendKillTest, AtAnyMoment) {
  constexpr uint64_t kSlots = 5;
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    std::mt19937 random(7);
    for (int i = 0; i < 40; ++i) {
      const pid_t backend = start(kSlots);
      ::usleep(static_cast<useconds_t>(random() % 20000));
      ::kill(backend, SIGKILL);
      (void)wait_for(backend);
    }
    ::_exit(WEXITSTATUS(wait_for(start(kSlots))));
  }
  uint64_t epoch = 0;
  while (::waitpid(supervisor, nullptr, WNOHANG) == 0) {
    const auto memory = attach();
    if (!memory) break;
    job_.run = "run" + std::to_string(epoch);
    // A backend that has nothing to do may have closed it by now.
    auto client = StagingClient::join(*memory);
    if (!client.ok()) continue;
    Saver saver(*memory, store(), job_, std::move(client.value()));
    saver.open_journal();
    for (int i = 0; i < 4; ++i) {
      const Status saved = saver.wait(saver.save(++epoch));
      EXPECT_TRUE(saved.ok()) << epoch << ": " << saved.message();
      expect_back(epoch);
    }
    saver.go();
    if (epoch >= 80) break;
  }
  wait_for(supervisor);
  expect_clean();
}

// The backend of one node dies with a run's part, before anybody else can know of it. A run on
// another node takes the same number, in the same store, and the first backend comes back before
// the second one is done, or after that. One of them has the number, and the other one is told.
TEST_P(BackendKillTest, TwoRunsThatTakeOneNumber) {
  constexpr uint64_t kSlots = 40, kEpoch = 7;
  constexpr size_t kStep = 7;  // odd: both orders
  const Node first_node = BackendKillTest::first_node();
  const Node second_node{StagingMemory::name_for(area_ + "-other"), folder_ + "/other-ssd"};
  size_t first_won = 0, second_won = 0, at = 0;
  bool died = true;
  for (; died; at += kStep) {
    job_.name = "demo" + std::to_string(at);
    const bool together = at % 2 == 1;
    Job first_job = job_, second_job = job_;
    first_job.run = "first";
    second_job.run = "second";
    second_job.ranges = {3, 50000, 60 << 10};
    const auto first_area = unserved(first_node.area, kSlots);
    const auto second_area = unserved(second_node.area, kSlots);
    ASSERT_TRUE(first_area && second_area);
    Saver first(*first_area, store(), first_job), second(*second_area, store(), second_job);
    first.open_journal();
    second.open_journal();
    const uint32_t first_stream = first.save(kEpoch);
    const pid_t dying = start(first_node, kSlots, at);
    int status = 0;
    died = false;
    while (!died && !first.client().outcome(first_stream)) {
      died = ::waitpid(dying, &status, WNOHANG) != 0;
      std::this_thread::sleep_for(100us);
    }
    const uint32_t second_stream = second.save(kEpoch);
    std::vector<std::pair<Node, pid_t>> backends{
        {second_node, start(second_node, kSlots, SIZE_MAX)}};
    if (!together) {
      while (!second.client().outcome(second_stream)) std::this_thread::sleep_for(100us);
    }
    backends.emplace_back(first_node, died ? start(first_node, kSlots, SIZE_MAX) : dying);
    const Status of_first = first.wait(first_stream), of_second = second.wait(second_stream);
    first.go();
    second.go();
    for (const auto& [node, backend] : backends) {
      const int ended = wait_for(backend);
      if (!WIFSIGNALED(ended)) continue;
      died = true;  // while it tidied up
      (void)wait_for(start(node, kSlots, SIZE_MAX));
    }
    EXPECT_NE(of_first.ok(), of_second.ok())
        << "first: " << of_first.message() << ", second: " << of_second.message();
    const Status& lost = of_first.ok() ? of_second : of_first;
    EXPECT_NE(lost.message().find("another run's"), std::string::npos) << lost.message();
    job_ = of_first.ok() ? first_job : second_job;
    ++(of_first.ok() ? first_won : second_won);
    expect_back(kEpoch);
    expect_clean();
    if (HasFailure()) FAIL() << "killed at " << at;
  }
  EXPECT_GT(first_won, 0U);
  EXPECT_GT(second_won, 0U);
}

INSTANTIATE_TEST_SUITE_P(Tiers, BackendKillTest, ::testing::Bool(),
                         [](const auto& tiers) { return tiers.param ? "WithSsd" : "CacheOnly"; });

}  // namespace
}  // namespace gpusnap::test
