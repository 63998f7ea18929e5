// The zones of a snapshot against a model of device memory: bytes are versions, copies take what is
// there when they are made, and what was saved must be what was there at the cut.
#include "tracker/snapshot_zones.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tracker/block_pool.h"
#include "tracker/suspects.h"

namespace gpusnap {
namespace {

constexpr uint64_t kZone = 4096;
constexpr uint64_t kContext = 7;

class Blocks : public SnapshotZones::Room {
 public:
  explicit Blocks(uint64_t blocks) : pool_(blocks) {}
  uint64_t take(uint64_t, uint64_t bytes, uint64_t* place) override {
    const BlockPool::Run run = pool_.take((bytes + kZone - 1) / kZone);
    *place = run.first;
    return std::min(bytes, run.count * kZone);
  }
  Transfer::Kind kind() const override { return Transfer::Kind::kDuplicate; }

 private:
  BlockPool pool_;
};

MemoryRange device_range(uint64_t address, uint64_t size) {
  MemoryRange range;
  range.address = address;
  range.size = size;
  range.context = kContext;
  return range;
}

WriteSet written(uint64_t address, uint64_t size) {
  WriteSet set;
  set.add(address, size);
  return set;
}

// A range at 0x10000, all of which is pending.
struct PendingMemory {
  explicit PendingMemory(uint64_t bytes) {
    map.insert(device_range(0x10000, bytes));
    zones.update(map, kZone);
    zones.begin(true, {});
  }
  MemoryMap map;
  SnapshotZones zones;
};

TEST(SnapshotZones, NothingIsAskedWhenAllIsSaved) {
  MemoryMap memory;
  memory.insert(device_range(0x10000, 3 * kZone + 5));
  SnapshotZones zones;
  EXPECT_FALSE(zones.active());
  zones.update(memory, kZone);
  EXPECT_EQ(zones.begin(true, {}), 3 * kZone + 5);
  EXPECT_TRUE(zones.active());
  const TransferPtr transfer =
      zones.claim_next(kContext, 64 * kZone, kZone, SnapshotZones::Scattered::kCopy);
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->bytes, 3 * kZone + 5);
  EXPECT_TRUE(zones.active());
  zones.started(transfer, nullptr);
  zones.finished(transfer, true);
  EXPECT_FALSE(zones.active());
  EXPECT_FALSE(zones.busy(kContext));
}

TEST(SnapshotZones, ARangeMayGetItsContextLater) {
  MemoryMap memory;
  MemoryRange range = device_range(0x10000, kZone);
  range.context = 0;
  memory.insert(range);
  SnapshotZones zones;
  zones.update(memory, kZone);
  EXPECT_EQ(zones.ranges().front().context, 0U);
  memory.set_context(0x10000, kContext);
  zones.update(memory, kZone);
  EXPECT_EQ(zones.ranges().front().context, kContext);
}

TEST(SnapshotZones, ACallWaitsForCopiesOfOthersAndClaimsTheRest) {
  PendingMemory memory(8 * kZone);
  SnapshotZones& zones = memory.zones;
  const auto first = zones.claim_next(kContext, 2 * kZone, kZone, SnapshotZones::Scattered::kCopy);
  Blocks room(100);
  const auto claim = zones.claim(written(0x10000 + kZone, 2 * kZone), room, false);
  ASSERT_EQ(claim.in_flight.size(), 1U);
  EXPECT_EQ(claim.in_flight[0], first);
  ASSERT_EQ(claim.claimed.size(), 1U);
  EXPECT_EQ(claim.claimed[0]->bytes, kZone);
  EXPECT_FALSE(claim.left);
  // A write to a part of a zone is one to the zone.
  const auto other = zones.claim(written(0x10000 + 2 * kZone + 9, 1), room, false);
  ASSERT_EQ(other.in_flight.size(), 1U);
  EXPECT_EQ(other.in_flight[0], claim.claimed[0]);
  EXPECT_TRUE(other.claimed.empty());
  // Beyond the range, and before it: nothing.
  EXPECT_TRUE(zones.claim(written(0x10000 + 8 * kZone, 100), room, false).claimed.empty());
  EXPECT_TRUE(zones.claim(written(0xff00, 0x100), room, false).claimed.empty());
}

TEST(SnapshotZones, WithoutRoomZonesAreLeft) {
  PendingMemory memory(8 * kZone);
  SnapshotZones& zones = memory.zones;
  Blocks room(3);
  WriteSet all;
  all.add_range_of(0x10000 + 5);
  const auto claim = zones.claim(all, room, false);
  ASSERT_EQ(claim.claimed.size(), 1U);
  EXPECT_EQ(claim.claimed[0]->bytes, 3 * kZone);
  EXPECT_TRUE(claim.left);
}

TEST(SnapshotZones, WhatIsGatheredIsTakenOver) {
  PendingMemory memory(8 * kZone);
  SnapshotZones& zones = memory.zones;
  Blocks room(100);
  // Two runs with a saved zone between them.
  const auto hole = zones.claim(written(0x10000 + 3 * kZone, 1), room, false);
  zones.finished(hole.claimed.at(0), true);
  using Scattered = SnapshotZones::Scattered;
  ASSERT_EQ(zones.claim_next(kContext, 64 * kZone, 64 * kZone, Scattered::kLeave), nullptr);
  const auto gather = zones.claim_next(kContext, 64 * kZone, 64 * kZone, Scattered::kGather);
  ASSERT_NE(gather, nullptr);
  ASSERT_EQ(gather->kind, Transfer::Kind::kGather);
  ASSERT_EQ(gather->pieces.size(), 2U);
  const auto claim = zones.claim(written(0x10000 + kZone, 1), room, false);
  EXPECT_TRUE(claim.in_flight.empty());  // no call waits for a kernel
  ASSERT_EQ(claim.claimed.size(), 1U);
  EXPECT_TRUE(gather->pieces[0].stolen);
  EXPECT_FALSE(gather->pieces[1].stolen);
  // But memory that goes must outlive the kernel that reads it.
  const auto freed = zones.claim(written(0x10000, 8 * kZone), room, true);
  EXPECT_NE(std::find(freed.in_flight.begin(), freed.in_flight.end(), gather),
            freed.in_flight.end());
}

TEST(SnapshotZones, WhatIsOnItsWayToTheHostIsTakenOverWithRoom) {
  PendingMemory memory(8 * kZone);
  SnapshotZones& zones = memory.zones;
  Blocks room(3);
  const auto flight = zones.claim_next(kContext, 8 * kZone, kZone, SnapshotZones::Scattered::kCopy);
  zones.started(flight, nullptr);
  const auto claim = zones.claim(written(0x10000 + 2 * kZone + 1, kZone), room, false);
  EXPECT_TRUE(claim.in_flight.empty());
  ASSERT_EQ(claim.claimed.size(), 1U);
  EXPECT_EQ(claim.claimed[0]->bytes, 2 * kZone);
  ASSERT_EQ(flight->pieces.size(), 3U);
  EXPECT_FALSE(flight->pieces[0].stolen);
  EXPECT_TRUE(flight->pieces[1].stolen);
  EXPECT_EQ(flight->pieces[1].offset, 2 * kZone);
  EXPECT_EQ(flight->pieces[1].size, 2 * kZone);
  EXPECT_EQ(flight->pieces[2].place, flight->pieces[2].offset);
  // As far as there is room; what is left of the flight is waited for.
  const auto more = zones.claim(written(0x10000, 8 * kZone), room, false);
  ASSERT_EQ(more.claimed.size(), 1U);
  EXPECT_EQ(more.claimed[0]->bytes, kZone);
  ASSERT_EQ(more.in_flight.size(), 2U);
  // The flight's bytes of zones that were taken over do not make these zones saved.
  zones.finished(flight, true);
  const auto later = zones.claim(written(0x10000, 8 * kZone), room, false);
  ASSERT_EQ(later.in_flight.size(), 2U);
  EXPECT_EQ(later.in_flight[0], claim.claimed[0]);
  EXPECT_EQ(later.in_flight[1], more.claimed[0]);
}

TEST(SnapshotZones, WhatCallsWaitForIsNotTakenOver) {
  PendingMemory memory(2 * kZone);
  SnapshotZones& zones = memory.zones;
  Blocks room(100);
  const auto flight = zones.claim_next(kContext, 8 * kZone, kZone, SnapshotZones::Scattered::kCopy);
  // The flight's starter looks at its pieces. The flight is left alone until then, and the call
  // waits.
  const auto early = zones.claim(written(0x10000, 1), room, false);
  EXPECT_TRUE(early.claimed.empty());
  ASSERT_EQ(early.in_flight.size(), 1U);
  zones.started(flight, nullptr);
  // That call may write once the flight has ended: no other copy can be made in time.
  const auto late = zones.claim(written(0x10000, 1), room, false);
  EXPECT_TRUE(late.claimed.empty());
  ASSERT_EQ(late.in_flight.size(), 1U);
}

TEST(SnapshotZones, WhatACallCopiesToTheHostIsNotTakenOver) {
  PendingMemory memory(2 * kZone);
  SnapshotZones& zones = memory.zones;
  class HostRoom : public Blocks {
   public:
    using Blocks::Blocks;
    Transfer::Kind kind() const override { return Transfer::Kind::kDirect; }
  };
  HostRoom slot(2);
  const auto first = zones.claim(written(0x10000, 1), slot, false);
  ASSERT_EQ(first.claimed.size(), 1U);
  zones.started(first.claimed[0], nullptr);
  Blocks room(100);
  const auto second = zones.claim(written(0x10000, 1), room, false);
  EXPECT_TRUE(second.claimed.empty());
  EXPECT_EQ(second.in_flight, first.claimed);
}

TEST(SnapshotZones, MemoryThatGoesOutlivesItsFlight) {
  PendingMemory memory(2 * kZone);
  SnapshotZones& zones = memory.zones;
  Blocks room(100);
  const auto flight = zones.claim_next(kContext, 8 * kZone, kZone, SnapshotZones::Scattered::kCopy);
  zones.started(flight, nullptr);
  const auto claim = zones.claim(written(0x10000, 2 * kZone), room, false);
  ASSERT_EQ(claim.claimed.size(), 1U);
  const auto freed = zones.claim(written(0x10000, 2 * kZone), room, true);
  EXPECT_TRUE(freed.claimed.empty());
  EXPECT_EQ(freed.in_flight.size(), 2U);
}

TEST(SnapshotZones, IncrementsHaveWhatChangedAndNewLives) {
  MemoryMap memory;
  memory.insert(device_range(0x10000, 4 * kZone));
  memory.insert(device_range(0x90000, 2 * kZone));
  SnapshotZones zones;
  zones.update(memory, kZone);
  zones.begin(true, {});
  zones.complete();
  EXPECT_FALSE(zones.active());
  // Freed and made again: another life, although address and size are the same.
  memory.erase(0x90000);
  memory.insert(device_range(0x90000, 2 * kZone));
  zones.update(memory, kZone);
  const auto second = [](const TrackedRange&, uint64_t zone) { return zone == 2; };
  EXPECT_EQ(zones.begin(false, second), 3 * kZone);
  EXPECT_TRUE(zones.ranges()[0].in_saved);
  EXPECT_FALSE(zones.ranges()[1].in_saved);
}

TEST(SnapshotZones, DirtyZonesOfADroppedSnapshotStayDirty) {
  MemoryMap memory;
  memory.insert(device_range(0x10000, 4 * kZone));
  SnapshotZones zones;
  const auto dirty = [](const TrackedRange& range, uint64_t zone) {
    return range.zones.is(ZoneBit::kDirty, zone);
  };
  zones.update(memory, kZone);
  zones.begin(false, dirty);
  zones.complete();
  zones.update(memory, kZone);
  zones.mark_dirty(written(0x10000 + kZone, 1));
  EXPECT_EQ(zones.begin(false, dirty), kZone);
  zones.mark_dirty(written(0x10000 + 3 * kZone, 1));
  zones.drop();
  zones.update(memory, kZone);
  EXPECT_EQ(zones.begin(false, dirty), 2 * kZone);
  zones.complete();
  zones.update(memory, kZone);
  EXPECT_EQ(zones.begin(false, dirty), 0U);
}

// Random writes and a random offloader: each zone is saved once, with its version of the cut.
TEST(SnapshotZones, SaveTheCutWhateverIsWritten) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    MemoryMap memory;
    std::map<uint64_t, std::vector<int>> versions;  // of each zone, by range
    for (uint64_t i = 0; i < 1 + random() % 5; ++i) {
      const uint64_t address = 0x100000 * (i + 1), size = 1 + random() % (20 * kZone);
      memory.insert(device_range(address, size));
      versions[address].assign((size + kZone - 1) / kZone, 0);
    }
    SnapshotZones zones;
    zones.update(memory, kZone);
    zones.begin(true, {});
    Blocks room(random() % 40);
    std::set<std::pair<uint32_t, uint64_t>> saved;
    std::vector<TransferPtr> flights;
    auto take = [&](const TransferPtr& transfer) {
      for (const TransferPiece& piece : transfer->pieces) {
        const uint64_t address = zones.ranges()[piece.range].address;
        if (piece.stolen) continue;
        for (uint64_t at = piece.offset; at < piece.offset + piece.size; at += kZone) {
          ASSERT_EQ(versions[address][at / kZone], 0) << "seed " << seed;
          ASSERT_TRUE(saved.emplace(piece.range, at).second) << "seed " << seed;
        }
      }
      zones.finished(transfer, true);
    };
    // Calls that have been made; each writes when what it waits for has ended.
    struct WaitingCall {
      uint64_t address, at, size;
      std::vector<TransferPtr> waits;
    };
    std::vector<WaitingCall> calls;
    auto write = [&] {
      std::erase_if(calls, [&](const WaitingCall& call) {
        const bool waits = std::ranges::any_of(call.waits, [](const TransferPtr& transfer) {
          return transfer->state != Transfer::State::kFinished;
        });
        if (waits) return false;
        for (uint64_t zone = call.at / kZone; zone * kZone < call.at + call.size; ++zone) {
          versions[call.address][zone] = 1;
        }
        return true;
      });
    };
    for (int step = 0; step < 2000 && zones.active(); ++step) {
      if (random() % 3 == 0) {
        using Scattered = SnapshotZones::Scattered;
        const auto scattered = random() % 2 == 0 ? Scattered::kGather : Scattered::kCopy;
        const auto next = zones.claim_next(kContext, (1 + random() % 8) * kZone,
                                           (1 + random() % 4) * kZone, scattered);
        if (next == nullptr) continue;
        if (random() % 2 == 0) zones.started(next, nullptr);
        flights.push_back(next);
      } else if (random() % 4 == 0 && !flights.empty()) {
        take(flights.back());
        flights.pop_back();
        write();
      } else {
        const uint64_t address = 0x100000 * (1 + random() % versions.size());
        const uint64_t whole = memory.at(address)->size;
        const uint64_t at = random() % whole;
        const uint64_t size = std::min(1 + random() % (3 * kZone), whole - at);
        const auto claim = zones.claim(written(address + at, size), room, false);
        for (const TransferPtr& transfer : claim.claimed) take(transfer);
        if (claim.left) continue;  // no room: the call is not made
        calls.push_back({address, at, size, claim.in_flight});
        for (const TransferPtr& transfer : claim.in_flight) {
          ASSERT_EQ(transfer->kind, Transfer::Kind::kDirect);
        }
        write();
      }
    }
    for (const TransferPtr& flight : flights) take(flight);
    while (const auto rest =
               zones.claim_next(kContext, 64 * kZone, kZone, SnapshotZones::Scattered::kCopy)) {
      take(rest);
    }
    size_t all = 0;
    for (const auto& [address, zone_versions] : versions) all += zone_versions.size();
    ASSERT_EQ(saved.size(), all) << "seed " << seed;
    ASSERT_FALSE(zones.active());
  }
}

TEST(BlockPool, GivesEachBlockOnce) {
  BlockPool pool(10);
  const auto first = pool.take(4);
  EXPECT_EQ(first.count, 4U);
  const auto second = pool.take(100);
  EXPECT_EQ(second.count, 6U);
  EXPECT_EQ(pool.take(1).count, 0U);
  pool.give_back(first);
  const auto third = pool.take(3);
  EXPECT_EQ(third.count, 3U);
  EXPECT_EQ(pool.free(), 1U);
  EXPECT_EQ(BlockPool().take(1).count, 0U);
}

TEST(Suspects, OneKernelIsCondemnedAtOnce) {
  Suspects suspects;
  suspects.begin_snapshot();
  suspects.launched(3);
  EXPECT_EQ(suspects.torn(), 1U);
  suspects.begin_snapshot();
  EXPECT_TRUE(suspects.is_opaque(3));
  EXPECT_FALSE(suspects.is_opaque(4));
}

// However many there are, the guilty one is found, all others go ahead in the end, and the snapshot
// after a torn one is never torn.
TEST(Suspects, AreNarrowedDownToTheGuiltyOne) {
  for (uint32_t kernels = 2; kernels < 40; ++kernels) {
    for (uint32_t guilty = 0; guilty < kernels; guilty += 3) {
      Suspects suspects;
      int torn = 0;
      bool last_torn = false;
      for (int snapshot = 0; snapshot < 40; ++snapshot) {
        suspects.begin_snapshot();
        bool tears = false;
        for (uint32_t kernel = 0; kernel < kernels; ++kernel) {
          if (suspects.is_opaque(kernel)) continue;
          suspects.launched(kernel);
          tears = tears || kernel == guilty;
        }
        ASSERT_FALSE(tears && last_torn);
        last_torn = tears;
        torn += tears ? 1 : 0;
        if (tears) {
          suspects.torn();
        } else {
          suspects.complete();
        }
      }
      EXPECT_LE(torn, 8) << kernels << " kernels, " << guilty << " is guilty";
      suspects.begin_snapshot();
      for (uint32_t kernel = 0; kernel < kernels; ++kernel) {
        EXPECT_EQ(suspects.is_opaque(kernel), kernel == guilty) << kernel << " of " << kernels;
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap
