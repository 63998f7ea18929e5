// SPDX-License-Identifier: Apache-2.0
//
// Zones on their way from one device of simcuda to another. In a process of its own, since the
// driver has two devices here.
#include "interpose/snapshot/peer_sender.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/simcuda/driver/driver_fixture.h"
#include "tracker/memory_map.h"

namespace gpusnap::peer_sender_test {
namespace {

constexpr uint64_t kZone = 64 << 10;
constexpr uint64_t kWords = (2 << 20) / sizeof(unsigned);
constexpr uint64_t kBytes = kWords * sizeof(unsigned);
constexpr uint64_t kCache = 32 << 20;

const Driver& linked_driver() {
  static const Driver driver = [] {
    Driver found;
    void* const linked = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#define X(name) found.name = reinterpret_cast<decltype(&::name)>(dlsym(linked, #name));
    GPUSNAP_DRIVER_FUNCTIONS(X)
    GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
    return found;
  }();
  return driver;
}

class OneTransfer : public SnapshotZones::Room {
 public:
  explicit OneTransfer(uint64_t bytes) : left_(bytes) {}
  uint64_t take(uint64_t, uint64_t bytes, uint64_t* place) override {
    const uint64_t size = std::min(bytes, left_);
    *place = used_;
    used_ += size;
    left_ -= size;
    return size;
  }
  Transfer::Kind kind() const override { return Transfer::Kind::kDirect; }

 private:
  uint64_t used_ = 0, left_;
};

// 2 MiB of the first device are pending; the second device has a buffer and nothing to save.
class PeerSenderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("SIMCUDA_DEVICES", "2", 1);
    ASSERT_OK(cuInit(0));
    int devices = 0;
    ASSERT_OK(cuDeviceGetCount(&devices));
    if (devices < 2) GTEST_SKIP() << "the driver was made with one device";
    for (int i : {1, 0}) {
      ASSERT_OK(cuCtxCreate_v2(&contexts_[i], 0, i));
      lanes_[i] = std::move(DeviceLane::make(linked_driver(), contexts_[i]).value());
    }
    lanes_[0]->peer_links().connect(0, 1);
    ASSERT_NE(lanes_[0]->peer_links().to(1), nullptr);
    for (unsigned at = 0; at < kWords; ++at) words_.push_back(at * 2654435761U);
    ASSERT_OK(cuMemAlloc_v2(&memory_, kBytes));
    ASSERT_OK(cuMemcpyHtoD_v2(memory_, words_.data(), kBytes));
    MemoryRange range;
    range.address = memory_;
    range.size = kBytes;
    range.context = lanes_[0]->number();
    map_.insert(range);
    zones_.update(map_, kZone);
    zones_.begin(true, {});
    lanes_[1]->grow_cache(kCache, kZone);
    make_sender();
    // The first try asks for access.
    EXPECT_FALSE(sender_->start());
    lanes_[1]->let_devices_in();
    EXPECT_EQ(lanes_[1]->free_bytes(), kCache);
  }
  void TearDown() override {
    sender_.reset();
    for (int i : {0, 1}) {
      if (contexts_[i] == nullptr) continue;
      EXPECT_OK(cuCtxSetCurrent(contexts_[i]));
      lanes_[i].reset();
      EXPECT_OK(cuCtxDestroy_v2(contexts_[i]));
    }
  }

  // Its plan is made anew each time that shares are used up, since no time is spent here.
  void make_sender() {
    balance::Problem links(2);
    links.host_bandwidth = {1, 1};
    links.set_peer(0, 1, 1'000'000'000);
    const auto look = [this] {
      return std::vector<LaneState>{
          {zones_.pending_bytes(lanes_[0]->number()), own_room_, own_room_},
          {0, lanes_[1]->room_bytes(kCache), lanes_[1]->free_bytes()}};
    };
    balancer_ =
        std::make_unique<Balancer>(Balancer::Source{look, [links] { return links; }}, links, kZone,
                                   [](const Status& why) { ADD_FAILURE() << why.message(); });
    PeerSender::Snapshot snapshot;
    snapshot.driver = &linked_driver();
    snapshot.zones = &zones_;
    snapshot.zone_bytes = kZone;
    snapshot.arrived = [](void* event) {
      return cuEventQuery(static_cast<CUevent>(event)) == CUDA_SUCCESS;
    };
    snapshot.fail = [](const Status& why) { ADD_FAILURE() << why.message(); };
    sender_ = std::make_unique<PeerSender>(std::move(snapshot), *lanes_[0], 0, *balancer_);
    sender_->add(
        {1, lanes_[1].get(), [this](const BlocksOfZones& zones) { accepted_.push_back(zones); }});
  }
  // Plans are not made at any moment.
  std::optional<PeerSender::Reservation> reserve() {
    for (int time = 0; time < 10'000; ++time) {
      if (const auto reservation = sender_->reserve()) return reservation;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  }
  // Until all that is pending has been sent and has arrived.
  void send_all() {
    while (zones_.pending_bytes(lanes_[0]->number()) != 0 || !sender_->done(false)) {
      (void)sender_->start();
      (void)sender_->collect();
      std::this_thread::yield();
    }
  }
  // The peer's blocks hold what the memory held at first. Returns the bytes that were compared.
  uint64_t compare_accepted() {
    uint64_t sum = 0;
    for (const BlocksOfZones& zones : accepted_) {
      EXPECT_EQ(zones.blocks.count, (zones.piece.size + kZone - 1) / kZone);
      std::vector<unsigned> found(zones.piece.size / sizeof(unsigned));
      EXPECT_OK(
          cuMemcpyDtoH_v2(found.data(), lanes_[1]->block(zones.blocks.first), zones.piece.size));
      const auto expected =
          words_.begin() + static_cast<ptrdiff_t>(zones.piece.offset / sizeof(unsigned));
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected)) << zones.piece.offset;
      sum += zones.piece.size;
    }
    return sum;
  }

  CUcontext contexts_[2] = {nullptr, nullptr};
  std::unique_ptr<DeviceLane> lanes_[2];
  CUdeviceptr memory_ = 0;
  std::vector<unsigned> words_;
  MemoryMap map_;
  SnapshotZones zones_;
  uint64_t own_room_ = 0;
  std::unique_ptr<Balancer> balancer_;
  std::unique_ptr<PeerSender> sender_;
  std::vector<BlocksOfZones> accepted_;
};

TEST_F(PeerSenderTest, PendingZonesGoToThePeer) {
  send_all();
  EXPECT_FALSE(zones_.active());
  EXPECT_EQ(compare_accepted(), kBytes);
  EXPECT_EQ(balancer_->sent(), kBytes);
  EXPECT_EQ(lanes_[1]->free_bytes(), kCache - kBytes);
  EXPECT_TRUE(balancer_->expects(1));
  EXPECT_TRUE(sender_->done(true));
  EXPECT_FALSE(balancer_->expects(1));
}

TEST_F(PeerSenderTest, ACallsZonesGoThereOnceTheyAreReserved) {
  const auto reservation = reserve();
  ASSERT_TRUE(reservation.has_value());
  ASSERT_GT(reservation->blocks.count, 4U);
  EXPECT_TRUE(balancer_->expects(1));
  WriteSet set;
  set.add(memory_ + 8 * kZone, 3 * kZone);
  OneTransfer room(reservation->blocks.count * kZone);
  const auto claim = zones_.claim(set, room, false);
  ASSERT_EQ(claim.claimed.size(), 1U);
  std::thread([&] {
    const CurrentContext current(linked_driver(), contexts_[0]);
    sender_->start(*reservation, claim.claimed.front());
  }).join();
  EXPECT_FALSE(sender_->done(true)) << "it is on its way";
  while (!sender_->done(false)) (void)sender_->collect();
  EXPECT_EQ(compare_accepted(), 3 * kZone);
  EXPECT_EQ(lanes_[1]->free_bytes(), kCache - 3 * kZone) << "blocks that were not needed go back";
}

TEST_F(PeerSenderTest, AReservationThatIsNotUsedLeavesNothing) {
  const auto reservation = reserve();
  ASSERT_TRUE(reservation.has_value());
  EXPECT_LT(lanes_[1]->free_bytes(), kCache);
  sender_->cancel(*reservation);
  EXPECT_EQ(lanes_[1]->free_bytes(), kCache);
  EXPECT_TRUE(sender_->done(true));
  EXPECT_FALSE(balancer_->expects(1));
}

// The copy to the peer is held back by its stream until a call has taken zones over.
TEST_F(PeerSenderTest, ZonesThatACallTakesOverAreNotThePeers) {
  simcuda::test::Gate gate;
  gate.close(lanes_[0]->peer_links().to(1)->stream);
  while (!sender_->start()) std::this_thread::yield();
  ASSERT_EQ(zones_.pending_bytes(lanes_[0]->number()), 0U);
  WriteSet set;
  set.add(memory_ + 5 * kZone, kZone);
  struct OnDevice : OneTransfer {
    using OneTransfer::OneTransfer;
    Transfer::Kind kind() const override { return Transfer::Kind::kDuplicate; }
  } room(kZone);
  const auto claim = zones_.claim(set, room, false);
  ASSERT_EQ(claim.claimed.size(), 1U);
  EXPECT_TRUE(claim.in_flight.empty()) << "the call does not wait for the link";
  gate.open();
  while (!sender_->done(false)) (void)sender_->collect();
  EXPECT_EQ(compare_accepted(), kBytes - kZone);
  for (const BlocksOfZones& zones : accepted_) {
    EXPECT_TRUE(zones.piece.offset + zones.piece.size <= 5 * kZone ||
                zones.piece.offset >= 6 * kZone);
  }
  EXPECT_EQ(lanes_[1]->free_bytes(), kCache - (kBytes - kZone));
}

TEST_F(PeerSenderTest, ZonesInTheDevicesOwnBufferAreForwarded) {
  lanes_[0]->grow_cache(kCache, kZone);
  std::deque<BlocksOfZones> saved;
  for (uint64_t zone : {3, 9, 4}) {
    const BlockPool::Run blocks = lanes_[0]->take_blocks(1);
    ASSERT_OK(cuMemcpyDtoD_v2(lanes_[0]->block(blocks.first), memory_ + zone * kZone, kZone));
    saved.push_back({{0, zone * kZone, kZone, 0, false}, blocks});
  }
  ASSERT_OK(cuCtxSynchronize());  // our streams wait for no other
  while (!sender_->forward(saved)) std::this_thread::yield();
  EXPECT_TRUE(saved.empty());
  EXPECT_EQ(lanes_[0]->free_bytes(), kCache - 3 * kZone) << "until they have arrived";
  while (!sender_->done(false)) (void)sender_->collect();
  EXPECT_EQ(compare_accepted(), 3 * kZone);
  EXPECT_EQ(lanes_[0]->free_bytes(), kCache);
}

TEST_F(PeerSenderTest, TheLinkIsTimed) {
  const uint64_t guess = lanes_[0]->peer_links().to(1)->clock.rate();
  send_all();
  (void)sender_->collect();
  EXPECT_NE(lanes_[0]->peer_links().to(1)->clock.rate(), guess);
}

}  // namespace
}  // namespace gpusnap::peer_sender_test
