#include "tiers/staging/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/staging/headless_process.h"
#include "tests/unit/staging/slot_size.h"
#include "tiers/staging/process_identity.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

// An area of its own for each test, gone afterwards whatever happens.
class SharedStaging : public ::testing::Test {
 protected:
  SharedStaging() {
    const auto* about = ::testing::UnitTest::GetInstance()->current_test_info();
    name_ = StagingMemory::name_for(std::string(about->name()) + std::to_string(::getpid()));
  }
  ~SharedStaging() override { ::shm_unlink(name_.c_str()); }

  std::string path() const { return "/dev/shm/" + name_; }
  std::unique_ptr<StagingMemory> serve(uint64_t slots = 4) {
    auto memory = StagingMemory::serve(name_, {kSlot, slots * kSlot});
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    return memory.ok() ? std::move(memory.value()) : nullptr;
  }

  std::string name_;
};

TEST_F(SharedStaging, IsSeenByWhoeverAttaches) {
  const auto server = serve();
  ASSERT_TRUE(server);
  EXPECT_EQ(server->grow(3), 3U);
  const auto client = StagingMemory::attach(name_);
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ(client.value()->backed(), 3U);
  server->bytes(2)[5] = std::byte{42};
  EXPECT_EQ(client.value()->bytes(2)[5], std::byte{42});
  EXPECT_EQ(client.value()->slots().size(), 4U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(client.value()->bytes(0).data()) % 4096, 0U);
}

TEST_F(SharedStaging, BelongsToItsUserAlone) {
  const auto server = serve();
  struct stat about {};
  ASSERT_EQ(::stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  const auto client = StagingMemory::attach(name_);
  EXPECT_EQ(client.status().code(), Code::kPermission);
}

TEST_F(SharedStaging, HasOneServer) {
  const auto memory = serve();
  const StagingServer server(*memory);
  EXPECT_EQ(StagingMemory::serve(name_, {kSlot, 4 * kSlot}).status().code(), Code::kBusy);
}

TEST_F(SharedStaging, AServerThatHasAWriteToEndIsWaitedFor) {
  HeadlessProcess before([this] {
    // Not given back: it is as long as the process is.
    auto* memory = StagingMemory::serve(name_, {kSlot, 4 * kSlot}).value().release();
    const StagingServer server(*memory);
  });
  while (!is_ending({before.pid(), 0})) std::this_thread::sleep_for(1ms);
  const auto found = StagingMemory::attach(name_);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_FALSE(found.value()->is_served());
  int tries = 0;
  auto next = std::async(std::launch::async, [&] {
    for (;;) {
      ++tries;
      const auto memory = StagingMemory::serve(name_, {kSlot, 4 * kSlot});
      if (memory.status().code() != Code::kBusy) return memory.ok();
    }
  });
  std::this_thread::sleep_for(50ms);
  before.end();
  EXPECT_TRUE(next.get());
  // Its patience ends sooner only where the machine stands still.
  EXPECT_LE(tries, 3);
}

// They are backed before a slot is, on every node.
TEST(StagingLayout, TablesTakeLittle) {
  const PoolLayout layout{1024, 4 << 20};
  EXPECT_LE(layout.streams_at() - layout.clients_at(), 64U << 10);
  EXPECT_LE(layout.slots_at(), 4U << 20);
}

TEST_F(SharedStaging, IsTakenOverAsItWas) {
  serve(4)->grow(2);
  const auto second = serve(9);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->slots().size(), 4U);
  EXPECT_EQ(second->backed(), 2U);
}

TEST_F(SharedStaging, IsNotThereBeforeAndAfter) {
  EXPECT_FALSE(StagingMemory::exists(name_));
  EXPECT_EQ(StagingMemory::attach(name_).status().code(), Code::kNotFound);
  const auto server = serve();
  EXPECT_TRUE(StagingMemory::exists(name_));
  const auto client = StagingMemory::attach(name_);
  server->remove();
  EXPECT_FALSE(StagingMemory::exists(name_));
  EXPECT_EQ(StagingMemory::attach(name_).status().code(), Code::kNotFound);
  client.value()->bytes(0);  // still mapped
  EXPECT_TRUE(serve(5));     // another one, while the first is still held
}

TEST_F(SharedStaging, ThatIsHalfMadeIsMadeAnew) {
  { std::ofstream(path()) << std::string(100'000, '\0'); }
  ASSERT_EQ(::chmod(path().c_str(), 0600), 0);
  EXPECT_EQ(StagingMemory::attach(name_).status().code(), Code::kNotFound);
  const auto server = serve(4);
  ASSERT_TRUE(server);
  EXPECT_EQ(server->slots().size(), 4U);
}

TEST_F(SharedStaging, ThatIsNoneOfOursIsRefused) {
  serve(4);
  const auto change = [&](auto write) {
    const auto memory = StagingMemory::attach(name_);
    if (!memory.ok()) return memory.status().code();
    write(memory.value()->header());
    return StagingMemory::attach(name_).status().code();
  };
  EXPECT_EQ(change([](PoolHeader& header) { header.slots = 1U << 23; }), Code::kInvalid);
}

// On a system that has room for so many bytes and no more.
class ScarceMemory final : public StagingMemory {
 public:
  ScarceMemory(uint32_t slots, uint64_t room) : room_(room) {
    const PoolLayout layout{slots, kSlot};
    bytes_ = std::make_unique<Block[]>(layout.end() / sizeof(Block));
    EXPECT_TRUE(make(bytes_[0].bytes, layout).ok());
  }
  void remove() override {}

 private:
  struct alignas(64) Block {
    std::byte bytes[4096];
  };
  bool back(uint64_t, uint64_t bytes) override {
    if (bytes > room_) return false;
    room_ -= bytes;
    return true;
  }
  uint64_t room_;
  std::unique_ptr<Block[]> bytes_;
};

TEST(Staging, IsSmallerWhereThereIsNoRoom) {
  ScarceMemory memory(8, 3 * kSlot + 1);
  EXPECT_EQ(memory.grow(2), 2U);
  EXPECT_EQ(memory.header().refused, 0U);
  EXPECT_EQ(memory.grow(8), 1U);
  EXPECT_EQ(memory.header().refused, 1U);
  EXPECT_EQ(memory.grow(8), 0U);
  EXPECT_EQ(memory.backed(), 3U);
}

TEST(PrivateStaging, GrowsFromItsFirstSlotOn) {
  const auto memory = StagingMemory::make_private({kSlot, 5 * kSlot});
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory.value()->backed(), 0U);
  EXPECT_EQ(memory.value()->grow(2), 2U);
  EXPECT_EQ(memory.value()->grow(10), 3U);
  EXPECT_EQ(memory.value()->grow(10), 0U);
  EXPECT_EQ(memory.value()->pieces(4).size(), kSlot / kSmallestZone);
}

TEST(PrivateStaging, HasTwoSlotsAtLeast) {
  const auto memory = StagingMemory::make_private({kSlot, 1});
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory.value()->slots().size(), 2U);
}

TEST(StagingName, TellsNodesApart) {
  EXPECT_EQ(StagingMemory::name_for("a"), StagingMemory::name_for("a"));
  EXPECT_NE(StagingMemory::name_for("a"), StagingMemory::name_for("b"));
}

}  // namespace
}  // namespace gpusnap
