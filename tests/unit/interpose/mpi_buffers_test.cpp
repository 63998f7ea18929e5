// Which bytes an MPI call can touch, what stands in their place, and how they get into the journal.
#include "interpose/mpi/buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace gpusnap::mpi::buffers_test {
namespace {

// A type as MPI has it: where each item begins and ends, and where the next one begins.
struct Type {
  intptr_t true_lower = 0, true_extent = 0;
  intptr_t lower = 0, extent = 0;
};

// Handles are places of types; of others nothing is known.
Handle handle_of(const Type& type) {
  return reinterpret_cast<Handle>(&type);
}
int extent_of(Handle type, intptr_t* lower, intptr_t* extent) {
  if (type == 0) return kOtherError;
  *lower = reinterpret_cast<const Type*>(type)->lower;
  *extent = reinterpret_cast<const Type*>(type)->extent;
  return kSuccess;
}
int true_extent_of(Handle type, intptr_t* lower, intptr_t* extent) {
  if (type == 0) return kOtherError;
  *lower = reinterpret_cast<const Type*>(type)->true_lower;
  *extent = reinterpret_cast<const Type*>(type)->true_extent;
  return kSuccess;
}
Library fake_library() {
  Library library;
  library.type_extent = &extent_of;
  library.type_true_extent = &true_extent_of;
  return library;
}

void expect_span(const Type& type, int64_t count, int64_t offset, uint64_t bytes) {
  int unused = 0;
  const Span span = span_of(fake_library(), {&unused, count, handle_of(type)});
  EXPECT_EQ(span.offset, offset);
  EXPECT_EQ(span.bytes, bytes);
}

constexpr Type plain(intptr_t bytes) {
  return {.true_extent = bytes, .extent = bytes};
}

TEST(SpanOf, PlainItemsAreAllOfIt) {
  expect_span(plain(4), 1, 0, 4);
  expect_span(plain(4), 1000, 0, 4000);
  expect_span(plain(8), INT64_C(3'000'000'000), 0, UINT64_C(24'000'000'000));
}

TEST(SpanOf, NothingIsNothing) {
  expect_span(plain(4), 0, 0, 0);
  expect_span(plain(4), -1, 0, 0);
  const Span unknown = span_of(fake_library(), {nullptr, 5, 0});
  EXPECT_EQ(unknown.offset, 0);
  EXPECT_EQ(unknown.bytes, 0u);
}

// A column of 10 rows of 100 bytes: its extent ends with its last item.
TEST(SpanOf, GapsInsideOfATypeCount) {
  const Type column{.true_extent = 908, .extent = 908};
  expect_span(column, 1, 0, 908);
  expect_span(column, 3, 0, 3 * 908);
}

// The same, made to begin 8 bytes behind the one before it: they lie in one another.
TEST(SpanOf, ItemsMayLieInOneAnother) {
  const Type column{.true_extent = 908, .extent = 8};
  expect_span(column, 1, 0, 908);
  expect_span(column, 3, 0, 908 + 16);
}

TEST(SpanOf, WhatABoundaryAddsBehindTheLastItemDoesNotCount) {
  const Type padded{.true_extent = 12, .extent = 16};
  expect_span(padded, 1, 0, 12);
  expect_span(padded, 4, 0, 3 * 16 + 12);
  const Type displaced{.true_lower = 40, .true_extent = 4, .lower = 0, .extent = 64};
  expect_span(displaced, 1, 40, 4);
  expect_span(displaced, 2, 40, 68);
}

// Rows from the last one up.
TEST(SpanOf, ATypeMayReachBeforeTheBuffersStart) {
  const Type rising{.true_lower = -900, .true_extent = 908, .lower = -900, .extent = 908};
  expect_span(rising, 1, -900, 908);
  expect_span(rising, 2, -900, 2 * 908);
}

TEST(SpanOf, TheLastItemMayBeTheFirstInMemory) {
  const Type backwards{.true_extent = 4, .extent = -16};
  expect_span(backwards, 1, 0, 4);
  expect_span(backwards, 3, -32, 36);
  const Type displaced{.true_lower = 8, .true_extent = 4, .extent = -16};
  expect_span(displaced, 3, -24, 36);
}

TEST(SpanOf, IsFromTheFirstToTheLastByteOfAnyItem) {
  std::mt19937 random(17);
  auto between = [&](int from, int to) {
    return std::uniform_int_distribution<intptr_t>(from, to)(random);
  };
  for (int round = 0; round < 1000; ++round) {
    const Type type{.true_lower = between(-50, 50),
                    .true_extent = between(1, 60),
                    .lower = between(-50, 50),
                    .extent = between(-80, 80)};
    const int64_t count = between(1, 9);
    int64_t first = INT64_MAX, end = INT64_MIN;
    for (int64_t i = 0; i < count; ++i) {
      first = std::min<int64_t>(first, i * type.extent + type.true_lower);
      end = std::max<int64_t>(end, i * type.extent + type.true_lower + type.true_extent);
    }
    expect_span(type, count, first, static_cast<uint64_t>(end - first));
  }
}

// ---- buffers in several parts ----

Span span_of_parts(const std::vector<int>& counts, const std::vector<int>& displacements,
                   const Type& type) {
  int unused = 0;
  Buffer buffer{.start = &unused, .type = handle_of(type)};
  buffer.blocks = {
      .number = counts.size(), .counts = {counts.data()}, .displacements = {displacements.data()}};
  return span_of(fake_library(), buffer);
}
void expect_parts(const Span& span, int64_t offset, uint64_t bytes) {
  EXPECT_EQ(span.offset, offset);
  EXPECT_EQ(span.bytes, bytes);
}

TEST(SpanOfBlocks, IsAllOfThemWithWhatLiesBetween) {
  expect_parts(span_of_parts({2, 3}, {0, 10}, plain(4)), 0, 52);
  expect_parts(span_of_parts({2, 3}, {10, 0}, plain(4)), 0, 48);
  expect_parts(span_of_parts({2, 3}, {7, 12}, plain(4)), 28, 32);
  expect_parts(span_of_parts({1, 1}, {-3, 2}, plain(8)), -24, 48);
}

TEST(SpanOfBlocks, EmptyPartsAreNowhere) {
  expect_parts(span_of_parts({0, 3, 0}, {-100, 5, 1000}, plain(4)), 20, 12);
  expect_parts(span_of_parts({0, -1}, {-100, 5}, plain(4)), 0, 0);
  expect_parts(span_of_parts({}, {}, plain(4)), 0, 0);
}

TEST(SpanOfBlocks, DisplacementsAreInExtentsAndTypesHaveGaps) {
  const Type displaced{.true_lower = 40, .true_extent = 4, .lower = 0, .extent = 64};
  expect_parts(span_of_parts({1, 2}, {3, 0}, displaced), 40, 196);
}

TEST(SpanOfBlocks, CountsMayBeWide) {
  const std::vector<int64_t> counts{1, INT64_C(3'000'000'000)}, displacements{0, 2};
  const Type type = plain(2);
  Buffer buffer{.type = handle_of(type)};
  buffer.blocks = {
      .number = 2, .counts = {counts.data(), true}, .displacements = {displacements.data(), true}};
  expect_parts(span_of(fake_library(), buffer), 0, UINT64_C(6'000'000'004));
}

TEST(SpanOfBlocks, WithTypesOfTheirOwnDisplacementsAreBytes) {
  const Type bytes = plain(1), words = plain(8);
  const std::vector<Handle> types{handle_of(words), handle_of(bytes)};
  const std::vector<int> counts{2, 5}, displacements{3, 100};
  Library library = fake_library();
  library.handle_bytes = sizeof(Handle);
  Buffer buffer;
  buffer.blocks = {.number = 2,
                   .counts = {counts.data()},
                   .displacements = {displacements.data()},
                   .types = {types.data()}};
  expect_parts(span_of(library, buffer), 3, 102);
}

TEST(SpanOfBlocks, TypesOfFortranAreNumbers) {
  static const Type kTypes[] = {plain(4), plain(16)};
  Library library = fake_library();
  library.type_f2c = [](int number) { return handle_of(kTypes[number]); };
  const std::vector<int> types{1, 0}, counts{1, 1}, displacements{0, 20};
  Buffer buffer;
  buffer.blocks = {.number = 2,
                   .counts = {counts.data()},
                   .displacements = {displacements.data()},
                   .types = {types.data(), true}};
  expect_parts(span_of(library, buffer), 0, 24);
}

TEST(SpanOfBlocks, IsFromTheFirstToTheLastByteOfAnyItem) {
  std::mt19937 random(23);
  auto between = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int round = 0; round < 1000; ++round) {
    const Type type{.true_lower = between(-50, 50),
                    .true_extent = between(1, 60),
                    .lower = between(-50, 50),
                    .extent = between(-80, 80)};
    std::vector<int> counts, displacements;
    int64_t first = INT64_MAX, end = INT64_MIN;
    for (int part = between(1, 6); part > 0; --part) {
      counts.push_back(between(0, 4));
      displacements.push_back(between(-20, 20));
      for (int64_t i = 0; i < counts.back(); ++i) {
        const int64_t at = (displacements.back() + i) * type.extent + type.true_lower;
        first = std::min(first, at);
        end = std::max<int64_t>(end, at + type.true_extent);
      }
    }
    const bool any = first != INT64_MAX;
    expect_parts(span_of_parts(counts, displacements, type), any ? first : 0,
                 any ? static_cast<uint64_t>(end - first) : 0);
  }
}

TEST(SpanOfBytes, AreThoseBehindThePosition) {
  int unused = 0;
  expect_parts(span_of(fake_library(), {.start = &unused, .count = 92, .behind = 8}), 8, 92);
  expect_parts(span_of(fake_library(), {.start = &unused, .count = -1, .behind = 8}), 8, 0);
}

TEST(StandTest, NoneIsTheBufferItself) {
  int there = 0;
  BounceBuffer none;
  EXPECT_EQ(none.start({&there, 1, 0}), &there);
}

// MPI reaches its first byte from the start that it is given, as it would the buffer's.
TEST(StandTest, ItsStartIsWhereTheBuffersWouldBe) {
  BounceBuffer before(Span{-16, 40});
  EXPECT_EQ(before.start({}), before.bytes() + 16);
  BounceBuffer moved = std::move(before);
  EXPECT_EQ(moved.start({}), moved.bytes() + 16);
  BounceBuffer plain_one(Span{0, 8});
  EXPECT_EQ(plain_one.start({}), plain_one.bytes());
}

// A message of five items into a buffer of nine, each with a byte behind it that is none of its
// own: meanwhile the host's memory is brought up to date with what the device wrote there.
TEST(StandTest, WhatIsKeptAsideComesWithoutWhatLiesBetween) {
  std::string memory = "a.b.c.d.e.f.g.h.i.";
  BounceBuffer aside = BounceBuffer::aside_of(Span{2, 15}, {memory.data(), 0, 0});
  auto* const filled = static_cast<char*>(aside.start({}));
  EXPECT_NE(filled, memory.data());
  for (int i = 1; i < 6; ++i) filled[2 * i] = 'X';
  EXPECT_EQ(memory, "a.b.c.d.e.f.g.h.i.");
  for (size_t i = 1; i < memory.size(); i += 2) memory[i] = ':';
  memory[14] = 'H';
  aside.give_back();
  EXPECT_EQ(memory, "a:X:X:X:X:X:g:H:i:");
}

TEST(StandTest, AnotherMessageBeginsWithWhatIsThere) {
  std::string memory = "abcd";
  BounceBuffer aside = BounceBuffer::aside_of(Span{0, 4}, {memory.data(), 0, 0});
  auto* const filled = static_cast<char*>(aside.start({}));
  filled[1] = 'X';
  aside.give_back();
  memory[1] = 'b';
  aside.give_back();
  EXPECT_EQ(memory, "abcd");  // it has been given back once
  memory[0] = 'A';
  aside.begin_again();
  EXPECT_EQ(aside.start({}), filled);
  filled[2] = 'Y';
  aside.give_back();
  EXPECT_EQ(memory, "AbYd");
}

void expect_received(const BounceBuffer& stand, bool dense,
                     const std::vector<std::pair<int64_t, uint64_t>>& expected) {
  std::vector<std::pair<int64_t, uint64_t>> runs;
  for (const Span& run : stand.received(dense)) runs.emplace_back(run.offset, run.bytes);
  EXPECT_EQ(runs, expected);
}

TEST(StandTest, WhatHasBeenReceivedAreTheBytesThatChanged) {
  BounceBuffer stand(Span{0, 10});
  stand.begin();
  expect_received(stand, false, {});
  expect_received(stand, true, {});
  for (size_t at : {2, 3, 7, 9}) stand.all()[at] = std::byte{1};
  expect_received(stand, false, {{2, 2}, {7, 1}, {9, 1}});
  stand.all()[9] = std::byte{0};
  expect_received(stand, true, {{0, 8}});
  stand.begin();
  expect_received(stand, false, {});
}

TEST(StandTest, OfNoBytesIsTheBufferItself) {
  int there = 0;
  BounceBuffer empty(Span{0, 0});
  EXPECT_EQ(empty.start({&there, 0, 0}), &there);
}

TEST(StandTest, OfDeviceMemoryNothingComesBack) {
  BounceBuffer stand(Span{0, 4});
  std::memset(stand.start({}), 1, 4);
  stand.give_back();
}

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 200);
  return bytes;
}

TEST(ValuesOf, EveryNumberOfBytesComesBack) {
  for (size_t count : {0, 1, 2, 3, 4, 5, 7, 8, 9, 1000, 1001}) {
    const std::vector<std::byte> bytes = some_bytes(count);
    std::vector<std::byte> back(count);
    const Status status = bytes_of(values_of(bytes), back.data(), count);
    EXPECT_TRUE(status.ok()) << count << ": " << status.message();
    EXPECT_EQ(back, bytes);
  }
}

// Runs of one 0 are kept as a number of times: bytes must be nothing of the kind.
TEST(ValuesOf, NoBytesAreNotTakenForAnotherOutcome) {
  EXPECT_NE(values_of({}), Values{0});
  EXPECT_NE(values_of({}), Values{});
}

TEST(ValuesOf, AnotherSizeIsAnotherMessage) {
  std::vector<std::byte> to(100, std::byte{9});
  for (uint64_t expected : {0, 7, 9, 100}) {
    const Status status = bytes_of(values_of(some_bytes(8)), to.data(), expected);
    EXPECT_EQ(status.code(), Code::kInvalid) << expected;
  }
  EXPECT_EQ(to, std::vector<std::byte>(100, std::byte{9}));
}

TEST(ValuesOf, WhatIsNoSuchThingIsDamaged) {
  std::vector<std::byte> to(100);
  Values cut_short = values_of(some_bytes(8));
  cut_short.pop_back();
  Values huge = values_of(some_bytes(8));
  std::memset(huge.data(), 0xff, sizeof(uint64_t));
  for (const Values& values : {Values{}, Values{1}, cut_short, huge}) {
    EXPECT_EQ(bytes_of(values, to.data(), 8).code(), Code::kDamaged) << values.size();
  }
}

}  // namespace
}  // namespace gpusnap::mpi::buffers_test
