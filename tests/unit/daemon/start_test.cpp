#include "tiers/daemon/start.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiers/daemon/runtime_folder.h"
#include "tiers/staging/client.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-daemon-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// As start_backend()'s child writes it.
std::map<std::string, std::string> report_at(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(1ms);
  std::map<std::string, std::string> found;
  std::ifstream file(path);
  for (std::string name, value; file >> name >> value;) found[name] = value;
  return found;
}

TEST(StartBackend, GivesItASessionOfItsOwnAndNothingOfTheCallers) {
  const Folder folder;
  const int inherited = ::open("/dev/null", O_RDONLY);  // no O_CLOEXEC
  ASSERT_GT(inherited, 2);
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++processor) {
    if (CPU_ISSET(processor, &before)) CPU_SET(processor, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  sigset_t term, mask;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, &mask);
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);

  const Status started =
      start_backend({BORN, {"GPUSNAP_REPORT=" + (folder / "report"), "PATH=/usr/bin"}});

  ::signal(SIGPIPE, pipe_before);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  ::close(inherited);
  ASSERT_TRUE(started.ok()) << started.message();
  auto found = report_at(folder / "report");
  EXPECT_EQ(found["argument"], "--detached");
  EXPECT_EQ(found["files"], "3");
  EXPECT_EQ(found["folder"], "/");
  EXPECT_EQ(found["leads_session"], "0");
  EXPECT_NE(found["session"], std::to_string(::getsid(0)));
  EXPECT_EQ(found["term_blocked"], "0");
  EXPECT_EQ(found["pipe_ignored"], "0");
  EXPECT_EQ(found["processors"], std::to_string(CPU_COUNT(&before)));
  EXPECT_EQ(found["preload"], "0");
}

TEST(StartBackend, LeavesNoChildToWaitFor) {
  const Folder folder;
  ASSERT_TRUE(start_backend({BORN, {"GPUSNAP_REPORT=" + (folder / "report")}}).ok());
  (void)report_at(folder / "report");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(StartBackend, LeavesTheCallersFilesFolderAndSignalsAlone) {
  const Folder folder;
  sigset_t before, after;
  ::sigprocmask(SIG_BLOCK, nullptr, &before);
  const std::filesystem::path here = std::filesystem::current_path();
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(start_backend({BORN, {"GPUSNAP_REPORT=" + (folder / "report")}}).ok());
  (void)report_at(folder / "report");
  EXPECT_GE(::fcntl(file, F_GETFD), 0);
  EXPECT_EQ(std::filesystem::current_path(), here);
  ::sigprocmask(SIG_BLOCK, nullptr, &after);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1}) {
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal));
  }
  ::close(file);
}

TEST(StartBackend, MayBeCalledByManyThreads) {
  const Folder folder;
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string report = folder / ("report" + std::to_string(i));
      good += start_backend({BORN, {"GPUSNAP_REPORT=" + report}}).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  for (int i = 0; i < 4; ++i) (void)report_at(folder / ("report" + std::to_string(i)));
}

TEST(StartBackend, SaysWhatCannotBeStarted) {
  const Status missing = start_backend({"/nowhere/gpusnapd", {}});
  EXPECT_EQ(missing.code(), Code::kIo);
  EXPECT_NE(missing.message().find("/nowhere/gpusnapd: No such file"), std::string::npos);
  EXPECT_EQ(start_backend({"", {}}).code(), Code::kNotFound);
}

TEST(BackendEnvironment, HasOurSettingsAndNotWhatIsPreloaded) {
  const char* const environment[] = {
      "LD_PRELOAD=/x/libgpusnap.so",   "GPUSNAP_SSD=/local", "SECRET=1", "GPUSNAP_RESTORE=wave@1",
      "GPUSNAP_RESTORE_FORCE=program", "PATH=/bin",          nullptr};
  EXPECT_EQ(backend_environment(environment),
            (std::vector<std::string>{"GPUSNAP_SSD=/local", "PATH=/bin"}));
  EXPECT_TRUE(backend_environment(nullptr).empty());
}

TEST(NodeName, IsTheSettingOrTheHost) {
  EXPECT_EQ(node_name("left"), "left");
  EXPECT_FALSE(node_name("").empty());
}

// gpusnapd itself, on a node of the test's own.
class Gpusnapd : public testing::Test {
 protected:
  Gpusnapd()
      : node_(folder_.path() + std::to_string(::getpid())), area_(StagingMemory::name_for(node_)) {}

  BackendProgram program(const std::string& idle) const {
    return {GPUSNAPD,
            {"GPUSNAP_NODE=" + node_, "GPUSNAP_HOST_CACHE=1M", "GPUSNAP_BACKEND_IDLE=" + idle,
             "XDG_RUNTIME_DIR=" + folder_.path(), "PATH=/usr/bin:/bin"}};
  }
  // Asked to, it ends at once where nothing is left to do.
  static void end(StagingMemory& memory) {
    EXPECT_EQ(::kill(static_cast<pid_t>(memory.header().server.load()), SIGTERM), 0);
  }
  void wait_until_gone() const {
    while (StagingMemory::attach(area_).status().code() != Code::kNotFound) {
      std::this_thread::sleep_for(1ms);
    }
    // The area goes first, the process and its log a moment later, but for a log that says
    // something.
    const std::string log = folder_ / "gpusnap/gpusnapd.log";
    while (std::filesystem::exists(folder_ / "gpusnap")) {
      std::error_code gone;
      const auto bytes = std::filesystem::file_size(log, gone);
      ASSERT_FALSE(!gone && bytes > 0) << std::ifstream(log).rdbuf();
      std::this_thread::sleep_for(1ms);
    }
  }

  const Folder folder_;
  const std::string node_;
  const std::string area_;
};

TEST_F(Gpusnapd, ComesWhenItIsReachedForAndIsNoChild) {
  EXPECT_EQ(StagingMemory::attach(area_).status().code(), Code::kNotFound);
  const auto reached = reach_backend(area_, program("10m"), 60s);
  ASSERT_TRUE(reached.ok()) << reached.status().message();
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  end(*reached.value());
  wait_until_gone();
}

TEST_F(Gpusnapd, GoesWhenItHasBeenIdle) {
  // Idle so soon that it may go before it is joined.
  for (bool joined = false; !joined;) {
    const auto reached = reach_backend(area_, program("1ms"), 60s);
    if (!reached.ok()) continue;
    const auto client = StagingClient::join(*reached.value());
    joined = client.ok();
  }
  wait_until_gone();
}

TEST_F(Gpusnapd, StaysForItsClientsAndIsTheOnlyOne) {
  const auto memory = reach_backend(area_, program("10m"), 60s);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  auto client = StagingClient::join(*memory.value());
  ASSERT_TRUE(client.ok());
  const uint32_t pid = memory.value()->header().server.load();
  ASSERT_TRUE(start_backend(program("1ms")).ok());
  end(*memory.value());
  const auto again = reach_backend(area_, program("10m"), 60s);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value()->header().server.load(), pid);
  EXPECT_TRUE(memory.value()->is_served());
  client.value().reset();
  wait_until_gone();
}

TEST_F(Gpusnapd, IsReplacedWhereItWasKilled) {
  const auto memory = reach_backend(area_, program("10m"), 60s);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  const auto killed = static_cast<pid_t>(memory.value()->header().server.load());
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  while (memory.value()->is_served()) std::this_thread::sleep_for(1ms);
  const auto again = reach_backend(area_, program("10m"), 60s);
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto next = static_cast<pid_t>(again.value()->header().server.load());
  EXPECT_NE(next, killed);
  end(*again.value());
  wait_until_gone();
}

TEST_F(Gpusnapd, IsNotReachedWhereItCannotServe) {
  BackendProgram broken = program("1s");
  broken.environment.push_back("GPUSNAP_CHUNK=never");
  const auto reached = reach_backend(area_, broken, 0s);
  ASSERT_FALSE(reached.ok());
  EXPECT_EQ(reached.status().code(), Code::kBusy);
  const std::string log = folder_ / "gpusnap/gpusnapd.log";
  while (!std::filesystem::exists(log) || std::filesystem::file_size(log) == 0) {
    std::this_thread::sleep_for(1ms);
  }
  std::string line;
  std::getline(std::ifstream(log), line);
  EXPECT_NE(line.find("GPUSNAP_CHUNK=never"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap
