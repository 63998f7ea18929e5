// The order of the calls that get and give back memory. A call that waits is asked whether it has
// come through when nothing but its waiting can be left; nothing is measured.
#include "interpose/record/memory_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

namespace gpusnap {
namespace {

using Kind = MemoryOrder::Kind;

// The caller's lock, as the session holds it. The first thread has it but for where it waits.
class MemoryOrderTest : public testing::Test {
 protected:
  MemoryOrderTest() {
    lock_.begin();
    lock_.lock();
  }
  ~MemoryOrderTest() override { lock_.unlock(); }

  // Another thread that does this with the lock held.
  std::thread other(std::function<void()> act) {
    return std::thread([this, act = std::move(act)] {
      lock_.share();
      lock_.lock();
      act();
      changed_.notify_all();
      lock_.unlock();
    });
  }
  // Lets the others have the lock until `reached`.
  void wait_for(const std::function<bool()>& reached) {
    const auto deadline = CallLock::Clock::now() + std::chrono::minutes(1);
    while (!reached()) ASSERT_TRUE(lock_.wait_until(changed_, deadline));
  }

  CallLock lock_;
  std::condition_variable changed_;
  static constexpr Patience kLong{std::chrono::hours(1), std::chrono::hours(1),
                                  std::chrono::hours(1)};
  MemoryOrder order_{lock_, kLong};
  std::string events_;
};

TEST_F(MemoryOrderTest, OneThreadNeverWaits) {
  const uint64_t first = order_.begin(Kind::kQuick);
  order_.end(first);
  const uint64_t second = order_.begin(Kind::kMayWait);
  EXPECT_NE(first, second);
  order_.end(second);
}

TEST_F(MemoryOrderTest, ACallWaitsForTheOneThatIsBeingMade) {
  const uint64_t mine = order_.begin(Kind::kQuick);
  bool arrived = false, through = false;
  std::thread second = other([&] {
    arrived = true;
    changed_.notify_all();
    const uint64_t number = order_.begin(Kind::kQuick);
    events_ += "second ";
    order_.end(number);
    through = true;
  });
  wait_for([&] { return arrived; });
  // It has the lock no more and has not come through: it waits for us.
  EXPECT_FALSE(through);
  events_ += "first ";
  order_.end(mine);
  wait_for([&] { return through; });
  lock_.unlock();
  second.join();
  lock_.lock();
  EXPECT_EQ(events_, "first second ");
}

TEST_F(MemoryOrderTest, NobodyWaitsForEver) {
  // A call that waits for the device, and is never seen to end.
  Patience short_one = kLong;
  short_one.may_wait = std::chrono::milliseconds(1);
  MemoryOrder order(lock_, short_one);
  (void)order.begin(Kind::kMayWait);
  bool through = false;
  std::thread second = other([&] {
    order.end(order.begin(Kind::kQuick));
    through = true;
  });
  wait_for([&] { return through; });
  lock_.unlock();
  second.join();
  lock_.lock();
}

TEST_F(MemoryOrderTest, EachEndIsOfItsOwnCall) {
  Patience short_one = kLong;
  short_one.may_wait = std::chrono::milliseconds(1);
  MemoryOrder order(lock_, short_one);
  const uint64_t first = order.begin(Kind::kMayWait);
  uint64_t second = first;
  std::thread thread = other([&] { second = order.begin(Kind::kQuick); });
  wait_for([&] { return second != first; });
  // The first is no longer waited for; its end changes nothing for the second.
  order.end(first);
  bool arrived = false, through = false;
  std::thread third = other([&] {
    arrived = true;
    changed_.notify_all();
    order.end(order.begin(Kind::kQuick));
    through = true;
  });
  wait_for([&] { return arrived; });
  EXPECT_FALSE(through);
  order.end(second);
  wait_for([&] { return through; });
  lock_.unlock();
  thread.join();
  third.join();
  lock_.lock();
}

TEST_F(MemoryOrderTest, MemoryThatIsBeingFreedIsWaitedFor) {
  order_.begin_free(0x1000, 0x100);
  order_.wait_for_frees(0x800, 0x800);   // ends where it begins
  order_.wait_for_frees(0x1100, 0x100);  // begins where it ends
  for (const uint64_t address : {0xfff, 0x1000, 0x10ff}) {
    order_.begin_free(0x1000, 0x100);
    bool arrived = false, through = false;
    std::thread second = other([&] {
      arrived = true;
      changed_.notify_all();
      order_.wait_for_frees(address, 2);
      through = true;
    });
    wait_for([&] { return arrived; });
    EXPECT_FALSE(through) << address;
    order_.end_free(0x1000);
    wait_for([&] { return through; });
    lock_.unlock();
    second.join();
    lock_.lock();
  }
  order_.wait_for_frees(0x1000, 0x100);
}

TEST(SurplusAllocations, IsTakenOnceAndOnlyAsWhatItIs) {
  SurplusAllocations aside;
  const SurplusAllocations::Memory memory{64, MemoryKind::kDevice, HookId{3}};
  aside.keep(0x1000, memory);
  aside.keep(0x2000, {32, MemoryKind::kPinned, HookId{4}});
  EXPECT_FALSE(aside.take(0x1001, memory));
  EXPECT_FALSE(aside.take(0x1000, {63, MemoryKind::kDevice, HookId{3}}));
  EXPECT_FALSE(aside.take(0x1000, {64, MemoryKind::kPinned, HookId{3}}));
  EXPECT_FALSE(aside.take(0x1000, {64, MemoryKind::kDevice, HookId{4}}));
  EXPECT_TRUE(aside.take(0x1000, memory));
  EXPECT_FALSE(aside.take(0x1000, memory));
  const auto rest = aside.take_all();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest.begin()->first, 0x2000u);
  EXPECT_TRUE(aside.take_all().empty());
}

}  // namespace
}  // namespace gpusnap
