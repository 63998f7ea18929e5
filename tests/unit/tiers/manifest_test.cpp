#include "tiers/manifest.h"

#include <functional>
#include <limits>
#include <thread>

#include "support.h"
#include "tiers/checksum.h"
#include "tiers/format.h"

namespace gpusnap::test {
namespace {

Manifest small() {
  Job job;
  job.ranges = {100, 200};
  Manifest m = manifest_of(job, 4);
  m.segments = {{"r0-a-0.segment", 5000}, {"r0-a-1.segment", 4300}};
  m.extents = {{1, 0, 200, 1, 4096, 11}, {0, 60, 40, 0, 4160, 12}, {0, 0, 60, 0, 4096, 13}};
  m.journal = {{"a-r0.journal", 100, 1000, 10}, {"b-r0.journal", 32, 0, 0}};
  return m;
}

Status decoded(const Manifest& manifest) {
  return decode_manifest(encode(manifest)).status();
}

TEST(Manifest, ComesBackAsItWas) {
  Manifest m = small();
  m.program_write = 7;
  m.direct_bytes = 4096;
  m.peer_bytes = 8192;
  m.job_run = 99;
  m.interval = {12.5, 0.1, 1.0 / 3, 3600, 4, 7, 0.25, 2, 28, 3, 86400.5};
  m.since_stored = 5;
  m.readings = {{"main", 0, false, std::string("\x80\0\x01", 3)}, {"1/0", 4, true, ""}};
  const auto back = decode_manifest(encode(m));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(encode(back.value()), encode(m));
  EXPECT_EQ(back->bytes(), 300U);
  EXPECT_EQ(back->extents[1].offset, 60U);
  EXPECT_EQ(back->extents[1].checksum, 12U);
  EXPECT_EQ(back->segments[1].size, 4300U);
  EXPECT_EQ(back->journal[0].entries, 10U);
  EXPECT_EQ(back->program.arguments, m.program.arguments);
  ASSERT_EQ(back->program.devices.size(), 1U);
  EXPECT_EQ(back->program.devices[0].memory, 1U << 30);
  EXPECT_EQ(back->program.devices[0].major, 9);
  EXPECT_EQ(back->program.device_count, 2U);
  ASSERT_EQ(back->program.libraries.size(), 2U);
  EXPECT_EQ(back->program.libraries[0].build_id, "0a1b");
  EXPECT_EQ(back->program_write, 7U);
  EXPECT_EQ(back->direct_bytes, 4096U);
  EXPECT_EQ(back->peer_bytes, 8192U);
  EXPECT_EQ(back->job_run, 99U);
  EXPECT_EQ(back->interval, m.interval);
  EXPECT_EQ(back->since_stored, 5U);
  ASSERT_EQ(back->readings.size(), 2U);
  EXPECT_EQ(back->readings[0].thread, "main");
  EXPECT_EQ(back->readings[0].bytes, std::string("\x80\0\x01", 3));
  EXPECT_FALSE(back->readings[0].ended);
  EXPECT_EQ(back->readings[1].source, 4);
  EXPECT_TRUE(back->readings[1].ended);
  ASSERT_EQ(back->program.inputs.size(), 2U);
  EXPECT_EQ(back->program.inputs[0].path, "/data/big.cfg");
  EXPECT_EQ(back->program.inputs[0].checksum, 56U);
  EXPECT_TRUE(back->program.inputs[0].has_checksum);
  EXPECT_EQ(back->program.inputs[1].size, 78U);
  EXPECT_EQ(back->program.inputs[1].modified_ns, 90);
  EXPECT_FALSE(back->program.inputs[1].has_checksum);
  EXPECT_EQ(back->host, "host");
  EXPECT_EQ(back->cut_unix_ns, 4'000'000'000);
}

TEST(Manifest, MayTellOfNoInterval) {
  const auto back = decode_manifest(encode(small()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_FALSE(back->interval.is_chosen());
}

TEST(Manifest, AnIntervalThatCannotBeIsRefused) {
  const plan::ChosenInterval good = {12.5, 0.1, 0, 3600, plan::ChosenInterval::kMostMeasurements};
  Manifest m = small();
  m.interval = good;
  EXPECT_TRUE(decoded(m).ok());
  const double nonsense[] = {-1,
                             -1e-300,
                             1e13,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
  const auto expect_refused = [&m, &good](const char* field) {
    const Status status = decoded(m);
    EXPECT_EQ(status.code(), Code::kDamaged) << field;
    expect_message(status, "the interval that it tells of cannot be");
    m.interval = good;
  };
  for (const double value : nonsense) {
    m.interval.interval_s = value;
    expect_refused("interval");
    m.interval.stall_s = value;
    expect_refused("stall");
    m.interval.latency_s = value;
    expect_refused("latency");
    m.interval.between_failures_s = value;
    expect_refused("between failures");
  }
  m.interval.interval_s = 0;
  expect_refused("no interval, and the rest");
  m.interval.between_failures_s = 0;
  expect_refused("failures without end");
  ++m.interval.measurements;
  expect_refused("measurements");
}

TEST(Manifest, BytesMayLieAnywhereInMemory) {
  const auto bytes = encode(small());
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  EXPECT_TRUE(decode_manifest(std::span(shifted).subspan(1)).ok());
}

TEST(Manifest, OneThatCannotBeIsRefused) {
  const std::vector<std::pair<const char*, std::function<void(Manifest&)>>> cases = {
      {"rank is not", [](Manifest& m) { m.rank = 1; }},
      {"rank is not", [](Manifest& m) { m.ranks = 0; }},
      {"job's name", [](Manifest& m) { m.job = ""; }},
      {"job's name", [](Manifest& m) { m.job = "\033[2J"; }},
      {"segment's file name", [](Manifest& m) { m.segments[0].file = "../../passwd"; }},
      {"segment's file name", [](Manifest& m) { m.segments[0].file = ".."; }},
      {"segment's file name", [](Manifest& m) { m.segments[0].file = ""; }},
      {"segment's file name", [](Manifest& m) { m.segments[0].file = std::string(256, 'x'); }},
      {"segment's file name", [](Manifest& m) { m.segments[0].file = std::string("a\0b", 3); }},
      {"journal part's file name", [](Manifest& m) { m.journal[1].file = "/etc/x"; }},
      {"range that is not there", [](Manifest& m) { m.extents[0].range = 2; }},
      {"segment that is not there", [](Manifest& m) { m.extents[0].segment = 2; }},
      {"beyond its range", [](Manifest& m) { m.extents[0].size = 0; }},
      {"beyond its range", [](Manifest& m) { m.extents[0].size = 201; }},
      {"beyond its range", [](Manifest& m) { m.extents[0].offset = UINT64_MAX; }},
      {"beyond its segment", [](Manifest& m) { m.extents[0].segment_offset = 4095; }},
      {"beyond its segment", [](Manifest& m) { m.extents[0].segment_offset = 4101; }},
      {"beyond its segment", [](Manifest& m) { m.extents[0].segment_offset = UINT64_MAX - 1; }},
      {"range 0 is not saved at byte 60",
       [](Manifest& m) {
         m.extents[1].offset = 0;
         ++m.extents[1].offset;
         m.extents.erase(m.extents.begin() + 1);
       }},
      {"range 0 is saved twice at byte 1", [](Manifest& m) { m.extents[1].offset = 1; }},
      {"range 1 is not saved at byte 0", [](Manifest& m) { m.extents.erase(m.extents.begin()); }},
      {"range 1 is not saved at byte 0",
       [](Manifest& m) {
         m.extents[0].offset = 1;
         m.extents[0].size = 199;
       }},
      {"range 1 is not saved at byte 200", [](Manifest& m) { m.ranges[1].size = 201; }},
      {"larger than memory", [](Manifest& m) { m.ranges[0].size = UINT64_MAX; }},
      {"too short", [](Manifest& m) { m.journal[0].file_bytes = 31; }},
      {"longer than it can be", [](Manifest& m) { m.journal[1].stream_bytes = UINT64_MAX; }},
      {"longer than it can be", [](Manifest& m) { m.journal[1].entries = UINT64_MAX; }},
  };
  for (const auto& [message, spoil] : cases) {
    Manifest m = small();
    spoil(m);
    const Status status = decoded(m);
    EXPECT_EQ(status.code(), Code::kDamaged) << message;
    expect_message(status, message);
  }
}

// An increment on epoch 3: all of range 0 is new, and some of range 1.
Manifest increment() {
  Manifest m = small();
  m.parent = 3;
  m.chain = 2;
  m.ranges[0].fresh = true;
  m.ranges[1].life = 7;
  m.extents[0] = {1, 50, 50, 1, 4096, 11};
  return m;
}

TEST(Manifest, AnIncrementComesBackAsItWas) {
  const auto back = decode_manifest(encode(increment()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->parent, 3U);
  EXPECT_EQ(back->chain, 2U);
  EXPECT_TRUE(back->ranges[0].fresh);
  EXPECT_FALSE(back->ranges[1].fresh);
  EXPECT_EQ(back->ranges[1].life, 7U);
  EXPECT_EQ(back->bytes(), 300U);
  EXPECT_EQ(back->own_bytes(), 150U);
  Manifest nothing_changed = increment();
  nothing_changed.extents.erase(nothing_changed.extents.begin());
  EXPECT_TRUE(decoded(nothing_changed).ok());
}

// Nothing in a manifest of version 1 says that it is full: it has no parent.
TEST(Manifest, TheFirstVersionIsReadAsAFullOne) {
  std::vector<std::byte> bytes = encode(small());
  const auto put = [&](size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  ASSERT_EQ(bytes[8], std::byte{format_version(FileKind::kManifest)});
  bytes[8] = std::byte{1};
  put(12, checksum(std::span(bytes).first(12)), 4);
  put(32, checksum(std::span(bytes).first(32)), 8);
  const auto back = decode_manifest(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->parent, 0U);
  EXPECT_EQ(back->ranges[0].life, 0U);
  EXPECT_EQ(back->own_bytes(), back->bytes());
}

TEST(Manifest, AnIncrementThatCannotBeIsRefused) {
  const std::vector<std::pair<const char*, std::function<void(Manifest&)>>> cases = {
      {"do not agree", [](Manifest& m) { m.chain = 0; }},
      {"do not agree", [](Manifest& m) { m.parent = 0; }},
      {"no earlier checkpoint", [](Manifest& m) { m.parent = 4; }},
      {"no earlier checkpoint", [](Manifest& m) { m.parent = UINT64_MAX; }},
      {"was merged and has a parent", [](Manifest& m) { m.replaces = 5; }},
      {"more ancestors", [](Manifest& m) { m.chain = kMostAncestors + 1; }},
      {"range 1 is to be in the parent", [](Manifest& m) { m.ranges[1].life = 0; }},
      {"range 0 is not saved at byte 0", [](Manifest& m) { m.extents.pop_back(); }},
      {"range 1 is not saved at byte 0", [](Manifest& m) { m.ranges[1].fresh = true; }},
      {"range 1 is not saved at byte 0", [](Manifest& m) { m.parent = m.chain = 0; }},
      {"range 1 is saved twice at byte 99",
       [](Manifest& m) {
         m.extents.push_back({1, 99, 1, 1, 4096, 0});
       }},
      {"range 1 is saved twice at byte 50",
       [](Manifest& m) {
         m.extents.push_back({1, 50, 1, 1, 4096, 0});
       }},
  };
  for (const auto& [message, spoil] : cases) {
    Manifest m = increment();
    spoil(m);
    const Status status = decoded(m);
    EXPECT_EQ(status.code(), Code::kDamaged) << message;
    expect_message(status, message);
  }
}

// Range 1 and the end of range 0 are compressed together; the beginning of range 0 is not.
Manifest compressed() {
  Manifest m = small();
  for (Extent* extent : {&m.extents[0], &m.extents[1]}) {
    extent->form = Form::kShuffle4;
    extent->segment = 1;
    extent->segment_offset = 4096;
    extent->block_stored = 50;
    extent->block_bytes = 240;
  }
  m.extents[1].within = 200;
  return m;
}

TEST(Manifest, BlocksComeBackAsTheyWere) {
  const auto back = decode_manifest(encode(compressed()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->extents[0].form, Form::kShuffle4);
  EXPECT_EQ(back->extents[0].stored(), 50U);
  EXPECT_EQ(back->extents[0].size, 200U);
  EXPECT_EQ(back->extents[0].within, 0U);
  EXPECT_EQ(back->extents[1].form, Form::kShuffle4);
  EXPECT_EQ(back->extents[1].within, 200U);
  EXPECT_EQ(back->extents[1].block_bytes, 240U);
  EXPECT_EQ(back->extents[2].form, Form::kStored);
  EXPECT_EQ(back->extents[2].stored(), 60U);
  EXPECT_EQ(back->own_bytes(), 300U);
}

TEST(Manifest, BlocksMayLieWhereTheirExtentsWouldNotFit) {
  Manifest m = compressed();
  m.segments[1].size = 4096 + 50;
  EXPECT_TRUE(decoded(m).ok());
}

TEST(Manifest, ABlockThatCannotBeIsRefused) {
  const auto of_both = [](auto change) {
    return [change](Manifest& m) {
      change(m.extents[0]);
      change(m.extents[1]);
    };
  };
  const auto first_of = [](uint64_t size) {
    return
        [size](Manifest& m) { m.ranges[1].size = m.extents[0].size = m.extents[1].within = size; };
  };
  const std::vector<std::pair<const char*, std::function<void(Manifest&)>>> cases = {
      {"not smaller", of_both([](Extent& e) { e.block_stored = 240; })},
      {"not smaller", of_both([](Extent& e) { e.block_stored = 0; })},
      {"not smaller", of_both([](Extent& e) { e.block_stored = UINT64_MAX; })},
      {"beyond its segment", [](Manifest& m) { m.segments[1].size = 4096 + 49; }},
      {"form that is none", of_both([](Extent& e) { e.form = static_cast<Form>(5); })},
      {"larger than it may be", first_of(kMostBlockBytes - 10)},
      {"larger than it may be", first_of(UINT64_MAX - 1000)},
  };
  for (const auto& [message, spoil] : cases) {
    Manifest m = compressed();
    spoil(m);
    const Status status = decoded(m);
    EXPECT_EQ(status.code(), Code::kDamaged) << message;
    expect_message(status, message);
  }
}

// An extent of 150 KiB from 10 KiB on has three parts; a small one lies before it.
Manifest with_parts() {
  Manifest m = small();
  m.ranges = {{}, {}};
  m.ranges[0].size = 160 << 10;
  m.ranges[1].size = 1;
  m.segments = {{"r0-a-0.segment", 4096 + (161 << 10)}};
  m.extents = {{0, 0, 10 << 10, 0, 4096, 11},
               {0, 10 << 10, 150 << 10, 0, 4096 + (10 << 10), 0},
               {1, 0, 1, 0, 4096 + (160 << 10), 12}};
  m.extents[1].parts = {21, 22, 23};
  return m;
}

TEST(Manifest, PartsComeBackAsTheyWere) {
  const auto back = decode_manifest(encode(with_parts()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->extents[0].part_count(), 1U);
  EXPECT_EQ(back->extents[0].part(0).checksum, 11U);
  EXPECT_EQ(back->extents[2].part(0).checksum, 12U);
  const Extent& extent = back->extents[1];
  EXPECT_EQ(extent.parts, (std::vector<uint64_t>{21, 22, 23}));
  EXPECT_EQ(extent.part(0).end, uint64_t{54} << 10);
  EXPECT_EQ(extent.part(1).begin, uint64_t{54} << 10);
  EXPECT_EQ(extent.part(1).end, uint64_t{118} << 10);
  EXPECT_EQ(extent.part(2).end, uint64_t{150} << 10);
  EXPECT_EQ(extent.part_at((118 << 10) - 1), 1U);
  EXPECT_EQ(extent.part_at(118 << 10), 2U);
}

// As earlier versions had them.
TEST(Manifest, AnExtentMayHaveOneChecksumForAllOfIt) {
  Manifest m = with_parts();
  m.extents[1].parts.clear();
  m.extents[1].checksum = 14;
  const auto back = decode_manifest(encode(m));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->extents[1].part_count(), 1U);
  EXPECT_EQ(back->extents[1].part(0).end, uint64_t{150} << 10);
  EXPECT_EQ(back->extents[1].part(0).checksum, 14U);
}

TEST(Manifest, AsManyChecksumsAsPartsOrItIsRefused) {
  for (const size_t parts : {1U, 2U, 4U}) {
    Manifest m = with_parts();
    m.extents[1].parts.assign(parts, 5);
    const Status status = decoded(m);
    EXPECT_EQ(status.code(), Code::kDamaged) << parts;
    expect_message(status, parts < 3 ? "not as many checksums" : "more checksums");
  }
  Manifest m = with_parts();
  m.ranges[0].size = UINT64_MAX;
  m.ranges[1].size = 0;
  m.extents[1].size = UINT64_MAX - 5;
  EXPECT_EQ(decoded(m).code(), Code::kDamaged);
}

TEST(Manifest, EveryTruncationIsRefused) {
  const auto bytes = encode(small());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_manifest(std::span(bytes).first(size)).status().code(), Code::kDamaged);
  }
}

TEST(Manifest, ManyExtentsAreNoTrouble) {
  Manifest m = small();
  const uint64_t count = 200'000;
  m.ranges = {SavedRange{}};
  m.ranges[0].size = count;
  m.segments[0].size = kSegmentHeaderBytes + count;
  m.extents.clear();
  for (uint64_t i = 0; i < count; ++i) m.extents.push_back({0, count - 1 - i, 1, 0, 4096 + i, i});
  EXPECT_TRUE(decoded(m).ok());
}

}  // namespace
}  // namespace gpusnap::test
