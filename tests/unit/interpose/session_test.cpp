// A session without hooks, on the software GPU: threads go through it as handlers do, and the
// driver is asked nothing but what the session asks it. One session for all tests, which a signal
// tells to take a checkpoint.
#include "interpose/session/session.h"
#include "interpose/mpi/cut_control.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/hook/resolve.h"
#include "interpose/services/control.h"
#include "interpose/threads/thread_path.h"
#include "tests/support/becomes.h"

namespace gpusnap {
namespace {

constexpr HookId kCall = HookId::cuEventRecord;
constexpr auto kMoment = std::chrono::milliseconds(1);
// Watches a condition that must not end. An end is found on a quick machine, and never wrongly.
template <class Condition>
bool stays(const Condition& condition) {
  for (int waited = 0; waited < 50; ++waited) {
    if (!condition()) return false;
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

class SessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-session-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    setenv("GPUSNAP_PFS", folder_.c_str(), 1);
    setenv("GPUSNAP_JOB", "job", 1);
    setenv("GPUSNAP_EVERY", "signal:USR1", 1);
    setenv("GPUSNAP_KEEP", "100", 1);
    setenv("GPUSNAP_HOST_CACHE", "64M", 1);
    setenv("GPUSNAP_DEVICE_CACHE", "8M", 1);
    CUcontext context = nullptr;
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    own_thread_path().known = true;
    ASSERT_TRUE(Session::start());
    make_call([](CallEnvironment& environment) { environment.contexts().note_current(); });
  }
  static void TearDownTestSuite() {
    Session::finish();
    std::filesystem::remove_all(folder_);
  }

  // A hooked call of the calling thread, which is in the driver for `during`.
  template <class During>
  static void make_call(During&& during) {
    CallEnvironment* calls = CallEnvironment::enter(kCall);
    ASSERT_NE(calls, nullptr);
    during(*calls);
    calls->recorder().append(static_cast<uint16_t>(kCall), {}, CUDA_SUCCESS);
    calls->leave();
  }
  // A thread of the program's.
  template <class Body>
  static std::jthread thread_that(Body body) {
    return std::jthread([body, number = ++threads_] {
      ThreadPath& path = own_thread_path();
      path.known = true;
      path.depth = 1;
      path.ordinals[0] = number;
      body();
    });
  }

  static size_t checkpoints() {
    size_t count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_)) {
      if (each.path().extension() == ".manifest") ++count;
    }
    return count;
  }

  // An entry of the journal: its hook, and its word if it has one.
  struct Journaled {
    uint16_t hook = 0;
    uint64_t word = 0;
    std::string delivered;
    bool operator==(const Journaled&) const = default;
  };
  static std::vector<Journaled> journal() {
    std::vector<Journaled> all;
    uint64_t calls = 0;
    std::vector<JournalPart> parts;
    make_call([&](CallEnvironment& environment) {
      parts = environment.recorder().seal();
      calls = environment.recorder().calls();
      EXPECT_TRUE(environment.recorder().writer().settle(parts.back()).ok());
    });
    // It has been handed over; the backend writes it.
    const std::string file = folder_ + "/job/" + parts.back().file;
    std::error_code none_yet;
    while (!(std::filesystem::file_size(file, none_yet) >= parts.back().file_bytes) || none_yet) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto replayer = Replayer::open(posix_file_system(), folder_ + "/job", parts, calls);
    EXPECT_TRUE(replayer.ok());
    Entry entry;
    while (replayer.ok() && replayer.value()->next(entry).ok()) {
      Journaled& read = all.emplace_back();
      read.hook = entry.head.hook;
      if (!entry.words.empty()) read.word = entry.words[0];
      for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
        DeliveryHead head;
        EXPECT_TRUE(replayer.value()->next_delivery(head).ok());
        std::string bytes(head.size, '\0');
        EXPECT_TRUE(replayer.value()->read(std::as_writable_bytes(std::span(bytes))).ok());
        read.delivered += bytes;
      }
    }
    return all;
  }

  static inline std::string folder_;
  static inline std::atomic<uint32_t> threads_{0};
};

// ---- admission ----

TEST_F(SessionTest, ACutWaitsForTheCallsThatAreBeingMade) {
  const size_t before = checkpoints();
  std::latch inside(1), may_leave(1);
  std::atomic<bool> left = false, cut = false, other = false;
  const auto one = thread_that([&] {
    make_call([&](CallEnvironment& environment) {
      environment.lock().unlock();
      inside.count_down();
      may_leave.wait();
      environment.lock().lock();
      left = true;
    });
  });
  inside.wait();
  std::raise(SIGUSR1);
  const auto cutter = thread_that([&] { make_call([&](CallEnvironment&) { cut = left.load(); }); });
  EXPECT_TRUE(stays([&] { return !cut; }));
  // A thread that comes meanwhile waits for the cut.
  const auto late = thread_that([&] { make_call([&](CallEnvironment&) { other = left.load(); }); });
  EXPECT_TRUE(stays([&] { return !cut && !other && checkpoints() == before; }));
  may_leave.count_down();
  EXPECT_TRUE(becomes([&] { return cut && other && checkpoints() == before + 1; }));
}

// ---- who asks from outside ----

std::optional<ProcessStatus> ask_for_status() {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const ControlAddress name = control_address(geteuid(), getpid());
  std::string message(kStatusMessageBytes, '\0');
  ssize_t got = 0;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0 &&
      send(socket, kStatusRequest.data(), kStatusRequest.size(), MSG_NOSIGNAL) > 0) {
    got = recv(socket, message.data(), message.size(), 0);
  }
  close(socket);
  const auto reply =
      decode_status({message.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))});
  return reply && reply->error.empty() ? std::optional(reply->status) : std::nullopt;
}

// Also while a thread is inside a call, and while a checkpoint is on its way.
TEST_F(SessionTest, TellsItsStatusAtAnyTime) {
  // Another test's checkpoint may be on its way.
  std::optional<ProcessStatus> first;
  ASSERT_TRUE(becomes([&] {
    first = ask_for_status();
    return !first || first->saving == 0;
  }));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->job, "job");
  EXPECT_EQ(first->store, folder_);
  EXPECT_EQ(first->doing, Doing::kRecording);
  EXPECT_EQ(first->due, Due::kNot);
  std::atomic<bool> over{false};
  std::atomic<int> told{0}, untold{0};
  std::jthread asks([&] {
    while (!over) ++(ask_for_status() ? told : untold);
  });
  make_call([&](CallEnvironment&) {
    const int before = told;
    EXPECT_TRUE(becomes([&] { return told > before + 1; }));
  });
  std::raise(SIGUSR1);
  make_call([](CallEnvironment&) {});
  EXPECT_TRUE(becomes([&] { return ask_for_status()->epoch > first->epoch; }));
  over = true;
  asks.join();
  EXPECT_EQ(untold, 0);
  const std::optional<ProcessStatus> last = ask_for_status();
  EXPECT_EQ(last->saving, 0U);
  EXPECT_GT(last->cut_unix_ns, first->cut_unix_ns);
}

// ---- functions of the host ----

void count_up(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
}

HostCallback* new_callback(CallEnvironment& environment, std::atomic<int>& counter) {
  auto* callback = new HostCallback;
  callback->callbacks = &environment.host_callbacks();
  callback->function.plain = count_up;
  callback->function.user = &counter;
  return callback;
}

// Where the last of a kind is in the journal.
template <class Entries>
size_t last_of(const Entries& entries, uint16_t hook) {
  for (size_t i = entries.size(); i-- > 0;) {
    if (entries[i].hook == hook) return i;
  }
  ADD_FAILURE() << "there is no " << hook;
  return 0;
}

// The driver may run it before the call that launched it has returned.
TEST_F(SessionTest, AHostFunctionRunsWhenItsLaunchHasBeenJournaled) {
  std::atomic<int> ran = 0;
  std::jthread driver;
  make_call([&](CallEnvironment& environment) {
    HostCallback* callback = new_callback(environment, ran);
    environment.lock().unlock();
    driver = std::jthread([callback] { run_host_callback(callback); });
    EXPECT_TRUE(stays([&] { return ran == 0; }));
    environment.lock().lock();
    environment.recorder().append(static_cast<uint16_t>(HookId::cuLaunchHostFunc), {},
                                  CUDA_SUCCESS);
    environment.host_callbacks().launched(*callback);
  });
  driver.join();
  EXPECT_EQ(ran, 1);
  const auto entries = journal();
  const size_t begun = last_of(entries, kCallbackEntry);
  EXPECT_LT(last_of(entries, static_cast<uint16_t>(HookId::cuLaunchHostFunc)), begun);
  EXPECT_LT(begun, last_of(entries, kCallbackEndEntry));
}

// In the order of their launches, whichever runs first, and with what the device has written that
// they could see.
TEST_F(SessionTest, HostFunctionsAreNumberedAndSeeWhatTheDeviceWrote) {
  std::atomic<int> ran = 0;
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, 8, 0), CUDA_SUCCESS);
  std::memcpy(pinned, "before..", 8);
  HostCallback *first = nullptr, *second = nullptr;
  make_call([&](CallEnvironment& environment) {
    environment.model().host_memory.add(reinterpret_cast<uint64_t>(pinned), 8);
    environment.host_callbacks().launched(*(first = new_callback(environment, ran)));
    environment.host_callbacks().launched(*(second = new_callback(environment, ran)));
    EXPECT_EQ(second->number, first->number + 1);
    WriteSet set;
    set.add(reinterpret_cast<uint64_t>(pinned), 8);
    environment.host_updates().may_write(set, nullptr);
  });
  const uint64_t numbers[] = {first->number, second->number};
  std::memcpy(pinned, "by it...", 8);
  std::jthread([&] {
    run_host_callback(second);
    run_host_callback(first);
  }).join();
  EXPECT_EQ(ran, 2);
  const auto entries = journal();
  std::vector<Journaled> found;
  for (const Journaled& each : entries) {
    if (each.hook != kCallbackEntry && each.hook != kCallbackEndEntry) continue;
    if (each.word >= numbers[0]) found.push_back(each);
  }
  const std::vector<Journaled> expected = {{kCallbackEntry, numbers[1], "by it..."},
                                           {kCallbackEndEntry, numbers[1], ""},
                                           {kCallbackEntry, numbers[0], ""},
                                           {kCallbackEndEntry, numbers[0], ""}};
  EXPECT_EQ(found, expected);
  make_call([&](CallEnvironment& environment) {
    environment.model().host_memory.remove(reinterpret_cast<uint64_t>(pinned));
  });
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

// ---- device memory that MPI calls send, in a process of its own ----

// A stream in which nothing moves until it is told to go on.
class HeldStream {
 public:
  explicit HeldStream(CUstream stream) : stream_(stream) {
    auto wait = [](void* latch) { static_cast<std::latch*>(latch)->wait(); };
    EXPECT_EQ(cuLaunchHostFunc(stream, wait, &may_go_on_), CUDA_SUCCESS);
  }
  void go_on() {
    may_go_on_.count_down();
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }

 private:
  CUstream stream_;
  std::latch may_go_on_{1};
};

class SentMemory : public SessionTest {
 protected:
  SentMemory() {
    EXPECT_EQ(cuMemAlloc_v2(&address_, 4), CUDA_SUCCESS);
    write("old", nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    MemoryRange range;
    range.address = address_;
    range.size = 4;
    make_call([&](CallEnvironment& environment) {
      range.context = reinterpret_cast<uint64_t>(environment.model().contexts.current());
      EXPECT_TRUE(environment.model().memory.insert(range));
    });
  }
  ~SentMemory() override {
    make_call([&](CallEnvironment& environment) {
      EXPECT_TRUE(environment.model().memory.erase(address_));
    });
    EXPECT_EQ(cuMemFree_v2(address_), CUDA_SUCCESS);
  }
  void write(const char* text, CUstream stream) const {
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(address_, text, 4, stream), CUDA_SUCCESS);
  }
  std::string read() const {
    std::vector<std::byte> bytes(4);
    const Status status =
        mpi::cut_control().read_device(reinterpret_cast<const void*>(address_), bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return reinterpret_cast<const char*>(bytes.data());
  }

  CUdeviceptr address_ = 0;
};

TEST_F(SentMemory, IsReadWhileOtherStreamsAreBusy) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  HeldStream held(stream);
  std::atomic<bool> done = false;
  const auto reader = thread_that([&] {
    EXPECT_EQ(read(), "old");
    done = true;
  });
  EXPECT_TRUE(becomes([&] { return done.load(); }));
  held.go_on();
  EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

// A program that has waited for nothing gets away with that where it uses the default stream.
TEST_F(SentMemory, IsReadBehindTheDefaultStream) {
  HeldStream held(nullptr);
  write("new", nullptr);
  std::atomic<bool> done = false;
  const auto reader = thread_that([&] {
    EXPECT_EQ(read(), "new");
    done = true;
  });
  EXPECT_TRUE(stays([&] { return !done; }));
  held.go_on();
  EXPECT_TRUE(becomes([&] { return done.load(); }));
}

// ---- what MPI calls write, where calls tell what is dirty, in a process of its own ----

class DirtyFromCalls : public SentMemory {
 protected:
  static void SetUpTestSuite() {
    setenv("GPUSNAP_DIRTY", "calls", 1);
    SessionTest::SetUpTestSuite();
  }
  // Makes the next checkpoint; returns its manifest.
  static std::optional<Manifest> checkpoint() {
    const size_t before = checkpoints();
    std::raise(SIGUSR1);
    const bool cut = becomes([&] {
      make_call([](CallEnvironment&) {});
      return checkpoints() > before;
    });
    std::ifstream file(folder_ + "/job/e" + std::to_string(before + 1) + "/r0.manifest",
                       std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    auto manifest = decode_manifest(std::as_bytes(std::span(bytes)));
    if (!cut || !manifest.ok()) return std::nullopt;
    return std::move(manifest.value());
  }
};

// Nobody but MPI knows when the bytes come: the snapshot before it has ended long ago.
TEST_F(DirtyFromCalls, WhatMpiWritesIsSavedAgain) {
  ASSERT_TRUE(checkpoint());
  const auto unchanged = checkpoint();
  ASSERT_TRUE(unchanged);
  EXPECT_EQ(unchanged->own_bytes(), 0U);
  mpi::cut_control().about_to_write(reinterpret_cast<const void*>(address_), 4);
  write("new", nullptr);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  const auto changed = checkpoint();
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->own_bytes(), 4U);
}

// ---- the deadline, in a process of its own ----

class ShortDrain : public SessionTest {
 protected:
  static void SetUpTestSuite() {
    setenv("GPUSNAP_DRAIN", "20ms", 1);
    SessionTest::SetUpTestSuite();
  }
};

TEST_F(ShortDrain, ACutIsGivenUpWhereACallIsNotLeft) {
  std::latch inside(1), may_leave(1);
  auto one = thread_that([&] {
    make_call([&](CallEnvironment& environment) {
      environment.lock().unlock();
      inside.count_down();
      may_leave.wait();
      environment.lock().lock();
    });
  });
  inside.wait();
  for (int round = 0; round < 2; ++round) {
    testing::internal::CaptureStderr();
    std::raise(SIGUSR1);
    make_call([](CallEnvironment&) {});  // with the other one inside still
    const std::string said = testing::internal::GetCapturedStderr();
    const char* why = "1 other thread(s) did not leave a CUDA call within 20 ms (GPUSNAP_DRAIN)";
    EXPECT_EQ(said.find(why) != std::string::npos, round == 0) << said;  // once
  }
  // Nobody is held, and nothing is due any more.
  thread_that([] { make_call([](CallEnvironment&) {}); }).join();
  EXPECT_EQ(checkpoints(), 0U);
  may_leave.count_down();
  one.join();
  make_call([](CallEnvironment&) {});
  EXPECT_EQ(checkpoints(), 0U);
  // The device may take longer than that, too, on a machine that is busy.
  EXPECT_TRUE(becomes([] {
    std::raise(SIGUSR1);
    make_call([](CallEnvironment&) {});
    return checkpoints() != 0;
  }));
}

}  // namespace
}  // namespace gpusnap
