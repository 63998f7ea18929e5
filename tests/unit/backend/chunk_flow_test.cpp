// Chunks through their tiers with a part, a store and a clock that do what the test says.
#include "tiers/backend/chunk_flow.h"

#include <gtest/gtest.h>

#include <deque>

#include "tiers/segment_store.h"
#include "tiers/staging/client.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kSlot = 4096;
constexpr uint64_t kChunkSlots = 4;
constexpr int64_t kSecond_ns = 1'000'000'000;

class SetClock final : public Clock {
 public:
  int64_t now_ns() override { return now; }
  int64_t now = 0;
};

class NoFile final : public BulkFile {
 public:
  uint64_t size() const override { return 0; }
  void write(uint64_t, std::span<const std::byte>, Done done) override { done({}); }
  void read(uint64_t, std::span<std::byte>, Done done) override { done({}); }
  Status sync() override { return {}; }
};

// Keeps what it is given until the test takes it.
class HeldPart final : public CheckpointReceiver {
 public:
  const CheckpointText& text() const override { return text_; }
  bool expect(uint64_t) override { return true; }
  void add(std::vector<Slot> slots, const std::shared_ptr<PlacedFile>& chunk) override {
    added.push_back(slots.size());
    for (Slot& slot : slots) (chunk ? to_ssd : to_store).push_back(std::move(slot.release));
  }
  void open_chunk(size_t, std::function<void(std::shared_ptr<PlacedFile>)> opened) override {
    opened(std::make_shared<PlacedFile>(std::make_unique<NoFile>(), 0, SegmentHeader{}));
  }
  void move_chunk(uint32_t number, std::function<void()> moved) override {
    moved_numbers.push_back(number);
    moves.push_back(std::move(moved));
  }
  void open_direct(size_t folder, std::function<void(uint32_t, std::string)> opened) override {
    direct_folders.push_back(folder);
    opened(kFirstDirectChunk, direct_path_);
  }
  std::string direct_path(uint32_t) const override { return direct_path_; }
  void add_direct(uint64_t, DirectChunk chunk, std::function<void()> stored) override {
    direct_bytes += chunk.bytes();
    checks.push_back(std::move(stored));
  }
  void add_manifest(uint64_t, std::span<const std::byte>, Release) override {}
  void seal(uint64_t) override {}
  void fail(const Status&) override {}
  void leave() override {}
  void wait() override {}
  bool waits_for_another_try() const override { return false; }
  Needs needs(ManifestText::Journal&) const override { return Needs::kNone; }

  std::vector<size_t> added;     // slots, by each call
  std::deque<Release> to_store;  // slots
  std::deque<Release> to_ssd;
  std::deque<std::function<void()>> moves;
  std::vector<uint32_t> moved_numbers;
  std::vector<size_t> direct_folders;
  std::string direct_path_ = "/ssd/direct";
  uint64_t direct_bytes = 0;
  std::deque<std::function<void()>> checks;

 private:
  CheckpointText text_;
};

// Chunks of four slots; a cache of three chunks, and an SSD of 1 kB/s for whoever writes to it.
class ChunkFlowTest : public ::testing::Test {
 protected:
  void make(uint32_t flushes) { make(flushes, flushes); }
  void make(uint32_t least, uint32_t most) {
    const ThroughputSample cache{1, 1e9}, ssd{1, 1000};
    auto placement = Placement::make({{"cache", 3, ThroughputModel::fit({&cache, 1}).value()},
                                      {"ssd", 100, ThroughputModel::fit({&ssd, 1}).value()}},
                                     {PlacementPolicy::kHybridOpt, 1e8, 16});
    placement_ = std::move(placement.value());
    memory_ = std::move(StagingMemory::make_private({kSlot, 64 * kSlot}).value());
    (void)memory_->grow(64);
    client_ = std::move(StagingClient::join(*memory_).value());
    stream_ = client_->open(StreamKind::kCheckpoint, "part").value();
    server_ = std::make_unique<StagingServer>(*memory_);
    flow_ = std::make_unique<ChunkFlow>(
        *placement_, *server_, clock_, ChunkFlow::Options{kChunkSlots, least, most},
        ChunkFlow::Actions{[this](uint32_t slot, bool) { server_->release(slot); },
                           [this](std::function<void()> then) { posted_.push_back(then); }});
  }

  void arrive(const std::shared_ptr<HeldPart>& part, uint64_t slots) {
    for (uint64_t i = 0; i < slots; ++i) {
      const uint32_t slot = client_->claim(std::chrono::seconds(1)).value();
      const Piece piece{0, 0, kSlot};
      client_->hand_over(stream_, slot, kSlot, {&piece, 1});
      (void)server_->look();
      flow_->arrived(part, slot, sequence_++);
    }
    handle();
  }
  void handle() {
    while (!posted_.empty()) {
      const auto then = std::move(posted_.front());
      posted_.pop_front();
      then();
    }
  }
  void store(HeldPart& part, size_t slots) {
    ASSERT_GE(part.to_store.size(), slots);
    for (; slots > 0; --slots) {
      part.to_store.front()(true);
      part.to_store.pop_front();
    }
    handle();
  }
  uint64_t flushing() const { return placement_->counters(0).flushing; }

  SetClock clock_;
  std::unique_ptr<Placement> placement_;
  std::unique_ptr<StagingMemory> memory_;
  std::unique_ptr<StagingClient> client_;
  std::unique_ptr<StagingServer> server_;
  std::unique_ptr<ChunkFlow> flow_;
  std::deque<std::function<void()>> posted_;
  uint32_t stream_ = 0;
  uint64_t sequence_ = 0;
};

// The store takes a chunk in a second, one at a time. To the second one that is two.
TEST_F(ChunkFlowTest, WaitingForAFlushIsPartOfIt) {
  make(1);
  const auto part = std::make_shared<HeldPart>();
  arrive(part, 2 * kChunkSlots);
  EXPECT_EQ(part->to_store.size(), kChunkSlots);
  clock_.now += kSecond_ns;
  store(*part, kChunkSlots);
  clock_.now += kSecond_ns;
  store(*part, kChunkSlots);
  constexpr double kChunk = kChunkSlots * kSlot;
  EXPECT_DOUBLE_EQ(placement_->flush_bandwidth(), 2 * kChunk / 3);
}

// Two chunks at a time, a second for each. The third one waits for a second, which is not the
// store's.
TEST_F(ChunkFlowTest, WhereTheNumberFollowsTheStoreWaitingIsNoPartOfIt) {
  make(1, 2);
  const auto part = std::make_shared<HeldPart>();
  arrive(part, 3 * kChunkSlots);
  EXPECT_EQ(part->to_store.size(), 2 * kChunkSlots);
  clock_.now += kSecond_ns;
  store(*part, 2 * kChunkSlots);
  constexpr double kChunk = kChunkSlots * kSlot;
  EXPECT_DOUBLE_EQ(placement_->flush_bandwidth(), kChunk);
  EXPECT_EQ(part->to_store.size(), kChunkSlots);
  clock_.now += kSecond_ns;
  store(*part, kChunkSlots);
  EXPECT_DOUBLE_EQ(placement_->flush_bandwidth(), kChunk);
}

// So that all of it is sampled before it is decided whether it is compressed.
TEST_F(ChunkFlowTest, AChunkOfTheCacheIsAddedAsAWhole) {
  make(1);
  const auto part = std::make_shared<HeldPart>();
  arrive(part, kChunkSlots + 2);
  flow_->seal(*part);
  EXPECT_EQ(part->added, std::vector<size_t>({kChunkSlots}));
  store(*part, kChunkSlots);
  EXPECT_EQ(part->added, std::vector<size_t>({kChunkSlots, 2}));
}

TEST_F(ChunkFlowTest, ChunksThatCannotFillKeepTheStoreBusy) {
  make(2);
  std::vector<std::shared_ptr<HeldPart>> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(std::make_shared<HeldPart>());
    arrive(parts.back(), 2);
  }
  flow_->relieve(false);
  EXPECT_EQ(flushing(), 0U);  // there are slots
  flow_->relieve(true);
  EXPECT_EQ(flushing(), 2U);  // not more than may be
  EXPECT_EQ(parts[0]->to_store.size(), 2U);
  EXPECT_EQ(parts[1]->to_store.size(), 2U);
  EXPECT_EQ(parts[2]->to_store.size(), 0U);
  store(*parts[1], 2);
  EXPECT_EQ(flushing(), 1U);
  flow_->relieve(true);  // although one is flushed
  EXPECT_EQ(parts[2]->to_store.size(), 2U);
}

TEST_F(ChunkFlowTest, AFlushThatFailsShowsASlowStore) {
  make(4);
  const double before = placement_->flush_bandwidth();
  for (const bool is_of_store : {false, true}) {
    const auto part = std::make_shared<HeldPart>();
    arrive(part, kChunkSlots);
    EXPECT_EQ(flushing(), 1U);
    clock_.now += 10 * kSecond_ns;
    for (; !part->to_store.empty(); part->to_store.pop_front()) part->to_store.front()(false);
    handle();
    EXPECT_EQ(flushing(), 1U) << "why it ends is not known yet";
    const Status why(is_of_store ? Code::kNoSpace : Code::kInvalid, "ended");
    flow_->drop(*part, why);
    EXPECT_EQ(placement_->counters(0), TierCounters{});
    EXPECT_EQ(placement_->flush_bandwidth(), is_of_store ? 0 : before);
  }
}

// They take room on their tier, wait for their turn, and are counted until they are in the store.
TEST_F(ChunkFlowTest, ChunksFromBeforeAreFlushedAsOthersAre) {
  make(1);
  const auto part = std::make_shared<HeldPart>();
  flow_->adopt(part, 1, {7, "/ssd/a", kChunkSlots * kSlot});
  flow_->adopt(part, 1, {9, "/ssd/b", kChunkSlots * kSlot});
  EXPECT_EQ(placement_->counters(1), (TierCounters{0, 1, 1}));
  EXPECT_EQ(flow_->placed(1), 0U) << "by another backend";
  EXPECT_EQ(part->moved_numbers, std::vector<uint32_t>({7}));
  clock_.now += kSecond_ns;
  part->moves.front()();
  handle();
  EXPECT_EQ(placement_->counters(1), (TierCounters{0, 0, 1}));
  EXPECT_EQ(part->moved_numbers, std::vector<uint32_t>({7, 9}));
  EXPECT_DOUBLE_EQ(placement_->flush_bandwidth(), kChunkSlots * kSlot);
  flow_->drop(*part, {});
  EXPECT_EQ(placement_->counters(1), TierCounters{});
}

// Writers wait for the cache's memory.
TEST_F(ChunkFlowTest, ChunksOfTheCacheAreFlushedBeforeThoseOfAnSsd) {
  make(1);
  const auto before = std::make_shared<HeldPart>();
  for (const uint32_t number : {7U, 8U}) {
    flow_->adopt(before, 1, {number, "/ssd/a", kChunkSlots * kSlot});
  }
  const auto part = std::make_shared<HeldPart>();
  arrive(part, kChunkSlots);
  EXPECT_EQ(before->moved_numbers, std::vector<uint32_t>({7}));
  before->moves.front()();
  handle();
  EXPECT_EQ(part->to_store.size(), kChunkSlots);
  EXPECT_EQ(before->moved_numbers, std::vector<uint32_t>({7}));
  store(*part, kChunkSlots);
  EXPECT_EQ(before->moved_numbers, std::vector<uint32_t>({7, 8}));
}

// The store takes 1 GB/s from each of up to eight.
TEST_F(ChunkFlowTest, AStoreThatTakesMoreIsGivenMore) {
  make(1, 16);
  EXPECT_EQ(flow_->flushes(), kFirstFlushes);
  const auto part = std::make_shared<HeldPart>();
  for (uint32_t number = 0; number < 3000; ++number) {
    flow_->adopt(part, 1, {number, "/ssd/a", 1'000'000});
  }
  while (!part->moves.empty()) {
    const size_t number = part->moves.size();
    ASSERT_LE(number, 16U);
    clock_.now += 1'000'000 / static_cast<int64_t>(std::min<size_t>(number, 8));
    const auto moved = std::move(part->moves.front());
    part->moves.pop_front();
    moved();
    handle();
  }
  EXPECT_EQ(flow_->flushes(), 8U);
}

// The fourth waits for a place. A store that stands still is slower than the SSD in the end.
TEST_F(ChunkFlowTest, NobodyWaitsForAStoreThatStandsStill) {
  make(4);
  std::vector<std::shared_ptr<HeldPart>> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(std::make_shared<HeldPart>());
    arrive(parts.back(), kChunkSlots);
  }
  EXPECT_EQ(placement_->waiting(), 1U);
  clock_.now += kSecond_ns;
  flow_->relieve(true);
  EXPECT_EQ(placement_->waiting(), 1U);  // it may still do 16 kB/s
  clock_.now += 15 * kSecond_ns;
  flow_->relieve(true);
  handle();
  flow_->relieve(true);
  EXPECT_EQ(placement_->waiting(), 1U);  // 1024 B/s
  clock_.now += kSecond_ns;
  flow_->relieve(true);
  handle();
  EXPECT_EQ(placement_->waiting(), 0U);
  EXPECT_EQ(flow_->placed(1), 1U);
  EXPECT_EQ(parts[3]->to_ssd.size(), kChunkSlots);
  for (; !parts[3]->to_ssd.empty(); parts[3]->to_ssd.pop_front()) parts[3]->to_ssd.front()(true);
  handle();
  ASSERT_EQ(parts[3]->moves.size(), 1U);
}

// The cache is faster, and is not asked.
TEST_F(ChunkFlowTest, AChunkThatTheClientWritesIsOnATierBehindTheCache) {
  make(1);
  const auto part = std::make_shared<HeldPart>();
  std::vector<std::string> opened;
  flow_->reserve_direct(part, [&](uint32_t number, const std::string& path) {
    EXPECT_EQ(number, kFirstDirectChunk);
    opened.push_back(path);
  });
  handle();
  EXPECT_EQ(opened, std::vector<std::string>({"/ssd/direct"}));
  EXPECT_EQ(part->direct_folders, std::vector<size_t>({0}));
  EXPECT_EQ(placement_->counters(1).writing, 1U);
  const uint32_t slot = client_->claim(std::chrono::seconds(1)).value();
  client_->hand_over(stream_, slot, kSlot, {}, SlotContent::kDirectChunk);
  (void)server_->look();
  DirectChunk chunk;
  chunk.number = kFirstDirectChunk;
  chunk.zone_bytes = 4096;
  chunk.pieces = {{0, 0, 8192}};
  flow_->arrived_direct(part, slot, 0, 1, chunk);
  EXPECT_EQ(part->direct_bytes, 8192U);
  EXPECT_EQ(placement_->counters(1).waiting, 1U);
  EXPECT_TRUE(part->moved_numbers.empty()) << "before it was checked";
  EXPECT_EQ(memory_->slots()[slot].word.load().state, SlotState::kFilled);
  part->checks.front()();
  handle();
  EXPECT_EQ(memory_->slots()[slot].word.load().state, SlotState::kFree);
  EXPECT_EQ(part->moved_numbers, std::vector<uint32_t>({kFirstDirectChunk}));
  part->moves.front()();
  handle();
  EXPECT_EQ(placement_->counters(1).cached(), 0U);
}

TEST_F(ChunkFlowTest, RoomThatTheClientDoesNotUseComesBack) {
  make(1);
  const auto part = std::make_shared<HeldPart>();
  for (int i = 0; i < 2; ++i) {
    flow_->reserve_direct(part, [](uint32_t, const std::string&) {});
    handle();
    EXPECT_EQ(placement_->counters(1).cached(), 1U);
    if (i == 0) {
      flow_->seal(*part);
    } else {
      flow_->drop(*part, {Code::kInvalid, "abandoned"});
    }
    EXPECT_EQ(placement_->counters(1).cached(), 0U);
  }
  part->direct_path_ = "";  // no file can be made
  bool told = false;
  flow_->reserve_direct(part, [&](uint32_t, const std::string& path) { told = path.empty(); });
  handle();
  EXPECT_TRUE(told);
  EXPECT_EQ(placement_->counters(1).cached(), 0U);
}

}  // namespace
}  // namespace gpusnap::test
