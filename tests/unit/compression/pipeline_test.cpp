#include "tiers/compression/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "tests/unit/compression/blocks.h"
#include "tiers/checksum.h"

namespace gpusnap {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBlock = 200'000;

class MemorySink : public BlockSink {
 public:
  Status append(std::span<const std::byte> bytes) override {
    if (appends.size() == fail_at) return {Code::kNoSpace, "the disk is full"};
    appends.push_back(bytes.size());
    content.insert(content.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status done() override {
    ++dones;
    return fail_done ? Status(Code::kIo, "the disk is gone") : Status();
  }

  Bytes content;
  std::vector<size_t> appends;
  size_t fail_at = SIZE_MAX;
  bool fail_done = false;
  int dones = 0;
};

// Opened once; who waits for it before that waits.
class Gate {
 public:
  void open() { promise_.set_value(); }
  void wait() const { future_.wait(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

// The first write waits at a gate.
class GatedSink final : public MemorySink {
 public:
  Status append(std::span<const std::byte> bytes) override {
    gate.wait();
    return MemorySink::append(bytes);
  }
  Gate gate;
};

// Blocks that are counted until they are released.
class Source {
 public:
  explicit Source(size_t count, uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < count; ++i) {
      const size_t size = 1 + random() % kBlock;
      blocks_.push_back(i % 3 == 0   ? smooth_block<float>(size)
                        : i % 3 == 1 ? random_block(size, i)
                                     : index_block(size, i));
      releases_.emplace_back(0);
    }
  }

  Block block(size_t i) {
    Block block;
    block.bytes = blocks_[i];
    block.tag = i;
    block.form = static_cast<Form>(i % 5);
    const int held = ++held_;
    most_held_ = std::max(most_held_, held);
    block.release = [this, i] {
      ++releases_[i];
      --held_;
    };
    return block;
  }

  size_t size() const { return blocks_.size(); }
  const Bytes& bytes(size_t i) const { return blocks_[i]; }
  int held() const { return held_; }
  int most_held() const { return most_held_; }
  bool each_released(size_t count) const {
    return std::all_of(releases_.begin(), releases_.begin() + static_cast<ptrdiff_t>(count),
                       [](const std::atomic<int>& times) { return times == 1; });
  }

 private:
  std::vector<Bytes> blocks_;
  std::deque<std::atomic<int>> releases_;
  std::atomic<int> held_{0};
  int most_held_ = 0;
};

PipelineOptions small_options(uint32_t workers = 2) {
  PipelineOptions options;
  options.block_bytes = kBlock;
  options.queue_blocks = 3;
  options.result_blocks = 2;
  options.write_bytes = kMiB;
  options.workers = workers;
  return options;
}

std::unique_ptr<CompressionPipeline> pipeline(const PipelineOptions& options, BlockSink& sink,
                                              CompressionPipeline::Packed packed = {},
                                              const Spawn& spawn = {}) {
  auto made =
      CompressionPipeline::start(options, sink, monotonic_clock(), spawn, std::move(packed));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made.value());
}

void expect_all_there(const Source& source, const MemorySink& sink,
                      const std::vector<PackedBlock>& packed) {
  auto decompressor = Decompressor::make(kBlock);
  ASSERT_TRUE(decompressor.ok());
  ASSERT_EQ(packed.size(), source.size());
  uint64_t offset = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    const PackedBlock& each = packed[i];
    ASSERT_EQ(each.tag, i);
    ASSERT_EQ(each.offset, offset);
    offset += each.stored_bytes;
    ASSERT_LE(offset, sink.content.size());
    const auto stored = std::span(sink.content).subspan(each.offset, each.stored_bytes);
    EXPECT_EQ(each.checksum, checksum(stored));
    Bytes again(each.bytes);
    const Status status = decompressor.value()->decompress(each.form, stored, again);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(again, source.bytes(i)) << i;
  }
  EXPECT_EQ(offset, sink.content.size());
}

TEST(CompressionPipeline, StoresEveryBlockInOrder) {
  for (const uint32_t workers : {1, 2, 5}) {
    for (const size_t room : {1, 2, 7}) {
      PipelineOptions options = small_options(workers);
      options.queue_blocks = room;
      options.result_blocks = 8 - room;
      Source source(60, room);
      MemorySink sink;
      std::vector<PackedBlock> packed;
      const auto stream =
          pipeline(options, sink, [&](const PackedBlock& block) { packed.push_back(block); });
      for (size_t i = 0; i < source.size(); ++i) {
        const Status added = stream->add(source.block(i));
        ASSERT_TRUE(added.ok()) << added.message();
      }
      const Status finished = stream->finish();
      ASSERT_TRUE(finished.ok()) << finished.message();
      EXPECT_EQ(sink.dones, 1);
      EXPECT_TRUE(source.each_released(source.size()));
      expect_all_there(source, sink, packed);
      const PipelineCounts counts = stream->counts();
      EXPECT_EQ(counts.blocks, source.size());
      EXPECT_EQ(counts.stored_bytes, sink.content.size());
      EXPECT_GT(counts.bytes, counts.stored_bytes);
      EXPECT_GT(counts.compressed_blocks, 10U);
      EXPECT_LT(counts.compressed_blocks, source.size());
      EXPECT_EQ(counts.workers, 0U);
    }
  }
}

TEST(CompressionPipeline, WritesAreLargeAndInTheirPlaces) {
  for (const size_t unit : {kMiB, 3 * kMiB}) {
    PipelineOptions options = small_options();
    options.block_bytes = 8 * kMiB;
    options.write_bytes = unit;
    MemorySink sink;
    Bytes expected;
    std::mt19937_64 random(5);
    const Bytes bytes = random_block(7 * kMiB);
    const auto stream = pipeline(options, sink);
    for (int i = 0; i < 30; ++i) {
      Block block;
      block.bytes = std::span(bytes).first(1 + random() % (i % 4 == 0 ? bytes.size() : kMiB / 2));
      expected.insert(expected.end(), block.bytes.begin(), block.bytes.end());
      ASSERT_TRUE(stream->add(std::move(block)).ok());
    }
    ASSERT_TRUE(stream->finish().ok());
    EXPECT_TRUE(sink.content == expected);
    for (size_t i = 0; i + 1 < sink.appends.size(); ++i) {
      EXPECT_EQ(sink.appends[i] % unit, 0U);
    }
    EXPECT_EQ(sink.appends.size() > 1 ? sink.appends.back() % unit : 0, expected.size() % unit);
  }
}

TEST(CompressionPipeline, NothingIsWrittenOfNothing) {
  MemorySink sink;
  const auto stream = pipeline(small_options(), sink);
  EXPECT_TRUE(stream->finish().ok());
  EXPECT_TRUE(sink.appends.empty());
  EXPECT_EQ(sink.dones, 1);
}

// Later blocks are compressed while the sink is still at the first ones.
TEST(CompressionPipeline, CompressesWhileItStores) {
  PipelineOptions options = small_options(1);
  options.block_bytes = kMiB;
  GatedSink sink;
  const Bytes random = random_block(kMiB), zeros(kMiB);
  Gate compressed;
  const auto stream = pipeline(options, sink);
  Block first;
  first.bytes = random;  // a whole write
  ASSERT_TRUE(stream->add(std::move(first)).ok());
  Block second;
  second.bytes = zeros;
  second.form = Form::kZstd;
  second.release = [&] { compressed.open(); };
  ASSERT_TRUE(stream->add(std::move(second)).ok());
  compressed.wait();  // for ever where the stages wait for each other
  sink.gate.open();
  ASSERT_TRUE(stream->finish().ok());
  EXPECT_EQ(stream->counts().compressed_blocks, 1U);
}

TEST(CompressionPipeline, HoldsNoMoreBlocksThanItsRings) {
  PipelineOptions options = small_options(3);
  Source source(100);
  MemorySink sink;
  const auto stream = pipeline(options, sink);
  for (size_t i = 0; i < source.size(); ++i) ASSERT_TRUE(stream->add(source.block(i)).ok());
  ASSERT_TRUE(stream->finish().ok());
  // And the one that is being added.
  EXPECT_LE(source.most_held(), static_cast<int>(options.queue_blocks + options.result_blocks) + 1);
}

// Threads as the library makes them: counted, and refused from a number on.
struct Threads {
  Spawn spawn(int most = 1000) {
    return [this, most](std::function<void()> body) -> Join {
      if (made == most) return {};
      ++made;
      auto thread = std::make_shared<std::thread>(std::move(body));
      return [this, thread] {
        thread->join();
        ++joined;
      };
    };
  }
  int made = 0;
  int joined = 0;
};

TEST(CompressionPipeline, MakesWorkersAsBlocksWaitForThem) {
  PipelineOptions options = small_options(3);
  options.queue_blocks = options.result_blocks = 10;
  Threads threads;
  MemorySink sink;
  const Bytes zeros(1000);
  {
    Gate gate;
    const auto stream = pipeline(options, sink, {}, threads.spawn());
    EXPECT_EQ(threads.made, 2) << "the store thread and a worker";
    for (int i = 0; i < 8; ++i) {
      Block block;
      block.bytes = zeros;
      block.form = Form::kZstd;
      block.release = [&gate] { gate.wait(); };  // keeps its worker
      ASSERT_TRUE(stream->add(std::move(block)).ok());
    }
    EXPECT_EQ(threads.made, 4) << "no more than was said";
    EXPECT_EQ(stream->counts().workers, 3U);
    gate.open();
    // Those that have nothing to do go, too.
    stream->set_workers(1);
    while (stream->counts().workers > 1) std::this_thread::yield();
    ASSERT_TRUE(stream->finish().ok());
  }
  EXPECT_EQ(threads.joined, threads.made);
}

TEST(CompressionPipeline, WorkersComeAndGo) {
  Threads threads;
  MemorySink sink;
  Source source(200);
  std::vector<PackedBlock> packed;
  {
    const auto stream = pipeline(
        small_options(4), sink, [&](const PackedBlock& block) { packed.push_back(block); },
        threads.spawn());
    for (size_t i = 0; i < source.size(); ++i) {
      stream->set_workers(static_cast<uint32_t>(i * 7 % 6));
      ASSERT_TRUE(stream->add(source.block(i)).ok());
      EXPECT_LE(stream->counts().workers, 4U);
    }
    ASSERT_TRUE(stream->finish().ok());
  }
  expect_all_there(source, sink, packed);
  EXPECT_EQ(threads.joined, threads.made);
}

TEST(CompressionPipeline, DoesWithTheThreadsThatItGets) {
  for (int most = 0; most < 2; ++most) {
    Threads threads;
    MemorySink sink;
    const auto made = CompressionPipeline::start(small_options(), sink, monotonic_clock(),
                                                 threads.spawn(most), {});
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.status().message().find("thread"), std::string::npos);
    EXPECT_EQ(threads.joined, most);
  }
  Threads threads;
  MemorySink sink;
  Source source(30);
  const auto stream = pipeline(small_options(4), sink, {}, threads.spawn(2));
  for (size_t i = 0; i < source.size(); ++i) ASSERT_TRUE(stream->add(source.block(i)).ok());
  EXPECT_TRUE(stream->finish().ok());
  EXPECT_TRUE(source.each_released(source.size()));
}

TEST(CompressionPipeline, AnErrorOfTheSinkEndsIt) {
  for (size_t fail_at = 0; fail_at < 4; ++fail_at) {
    Source source(60);
    MemorySink sink;
    sink.fail_at = fail_at;
    const auto stream = pipeline(small_options(), sink);
    size_t added = 0;
    Status status;
    while (status.ok() && added < source.size()) status = stream->add(source.block(added++));
    const Status finished = stream->finish();
    EXPECT_EQ(finished.code(), Code::kNoSpace);
    EXPECT_EQ(finished.message(), "the disk is full");
    EXPECT_TRUE(status.ok() || status.code() == Code::kNoSpace);
    EXPECT_EQ(sink.appends.size(), fail_at);
    EXPECT_EQ(sink.dones, 0);
    EXPECT_TRUE(source.each_released(added)) << fail_at;
    EXPECT_EQ(source.held(), 0);
  }
  MemorySink sink;
  sink.fail_done = true;
  EXPECT_EQ(pipeline(small_options(), sink)->finish().message(), "the disk is gone");
}

TEST(CompressionPipeline, RefusesWhatIsNoBlock) {
  const Bytes large(kBlock + 1);
  for (const auto bytes : {std::span<const std::byte>(), std::span<const std::byte>(large)}) {
    Source source(2);
    MemorySink sink;
    const auto stream = pipeline(small_options(), sink);
    ASSERT_TRUE(stream->add(source.block(0)).ok());
    Block block = source.block(1);
    block.bytes = bytes;
    EXPECT_EQ(stream->add(std::move(block)).code(), Code::kInvalid);
    EXPECT_EQ(stream->finish().code(), Code::kInvalid);
    EXPECT_TRUE(source.each_released(2));
    EXPECT_EQ(sink.dones, 0);
  }
}

TEST(CompressionPipeline, AFormThatIsNoneEndsIt) {
  Source source(1);
  MemorySink sink;
  const auto stream = pipeline(small_options(), sink);
  Block block = source.block(0);
  block.form = static_cast<Form>(99);
  (void)stream->add(std::move(block));
  EXPECT_EQ(stream->finish().code(), Code::kInvalid);
  EXPECT_TRUE(source.each_released(1));
}

TEST(CompressionPipeline, TakesNothingAfterItsEnd) {
  Source source(1);
  MemorySink sink;
  const auto stream = pipeline(small_options(), sink);
  ASSERT_TRUE(stream->finish().ok());
  EXPECT_EQ(stream->add(source.block(0)).code(), Code::kInvalid);
  EXPECT_TRUE(source.each_released(1));
  EXPECT_EQ(sink.dones, 1);
}

TEST(CompressionPipeline, CanBeAbandonedAtAnyMoment) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 60; ++round) {
    Source source(25, static_cast<uint64_t>(round));
    MemorySink sink;
    size_t added = 0;
    const size_t goal = random() % source.size();
    const int way = round % 3;
    {
      const auto stream = pipeline(small_options(1 + round % 3), sink);
      std::optional<std::thread> other;
      if (way == 0) other.emplace([&] { stream->abandon(); });
      Status status;
      while (status.ok() && added < goal) status = stream->add(source.block(added++));
      if (way == 1) stream->abandon();
      if (other) other->join();
      if (way != 2) {
        EXPECT_EQ(stream->finish().code(), Code::kInvalid);
        EXPECT_EQ(stream->add(source.block(added++)).code(), Code::kInvalid);
      }
    }
    EXPECT_EQ(sink.dones, 0);
    EXPECT_TRUE(source.each_released(added)) << round;
    EXPECT_EQ(source.held(), 0);
  }
}

// What waits in front of a write that does not come back is given back at once.
TEST(CompressionPipeline, AbandoningReleasesWhatWaits) {
  PipelineOptions options = small_options(1);
  options.block_bytes = kMiB;
  GatedSink sink;
  const Bytes random = random_block(kMiB);
  const auto stream = pipeline(options, sink);
  std::atomic<int> released{0};
  for (size_t i = 0; i < options.queue_blocks + options.result_blocks; ++i) {
    Block block;
    block.bytes = random;
    block.release = [&] { ++released; };
    ASSERT_TRUE(stream->add(std::move(block)).ok());
  }
  stream->abandon();
  EXPECT_GE(released, static_cast<int>(options.queue_blocks));
  sink.gate.open();
  EXPECT_EQ(stream->finish().code(), Code::kInvalid);
  EXPECT_EQ(released, static_cast<int>(options.queue_blocks + options.result_blocks));
}

TEST(CompressionPipeline, FollowsTheCourseOfTheChunk) {
  Policy policy({CompressionSetting::Mode::kLevel, 1});
  const Situation chunk{16 * kBlock, kBlock, 1, 0};
  Sample sample;
  sample.trials.fill({1000, 300, 1000});
  const Decision decision = policy.decide(chunk, sample);
  ASSERT_EQ(decision.form, Form::kZstd);
  auto course = std::make_shared<ChunkCourse>(policy, chunk, decision);
  const Bytes random = random_block(kBlock);
  MemorySink sink;
  std::vector<PackedBlock> packed;
  const auto stream =
      pipeline(small_options(1), sink, [&](const PackedBlock& block) { packed.push_back(block); });
  for (int i = 0; i < 16; ++i) {
    Block block;
    block.bytes = random;
    block.course = course;
    ASSERT_TRUE(stream->add(std::move(block)).ok());
  }
  ASSERT_TRUE(stream->finish().ok());
  // It was told that random bytes do not shrink.
  EXPECT_EQ(course->next(), Form::kStored);
  EXPECT_NE(policy.slowness(Form::kZstd), 1);
  EXPECT_EQ(course.use_count(), 1);
  EXPECT_EQ(sink.content.size(), 16 * kBlock);
}

TEST(CompressionPipeline, RefusesOptionsThatMakeNoSense) {
  const auto code = [](const std::function<void(PipelineOptions&)>& change) {
    PipelineOptions options = small_options();
    change(options);
    MemorySink sink;
    return CompressionPipeline::start(options, sink, monotonic_clock(), {}, {}).status().code();
  };
  EXPECT_EQ(code([](PipelineOptions& options) { options.workers = 0; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.block_bytes = 0; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.queue_blocks = 0; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.result_blocks = 0; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.write_bytes = 0; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.write_bytes = 1000; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions& options) { options.codec.level = 20; }), Code::kInvalid);
  EXPECT_EQ(code([](PipelineOptions&) {}), Code::kOk);
}

}  // namespace
}  // namespace gpusnap
