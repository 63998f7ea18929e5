// ValueLog of what a program has read of clocks and random bytes: how they are kept, and that what
// was given is taken again.
#include "interpose/nondeterminism/value_log.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "interpose/hook/hook.h"
#include "interpose/nondeterminism/clocks.h"

namespace gpusnap::nondeterminism {
namespace {

std::string bytes_of(const ValueLog& series) {
  std::string all;
  series.for_each_piece([&](const std::byte* bytes, size_t size) {
    all.append(reinterpret_cast<const char*>(bytes), size);
  });
  return all;
}

Given given(const char* thread, Source source, const std::string& bytes, bool ended = false) {
  return {thread, source, ended, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

std::string number_bytes(std::initializer_list<int64_t> numbers) {
  ValueLog series;
  for (const int64_t number : numbers) series.add(number);
  return bytes_of(series);
}

// In a process of its own, as all of them have one memory for what is noted.
template <class Body>
bool holds_in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<int64_t> numbers_of(const ValueLog& series) {
  const std::string bytes = bytes_of(series);
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  std::vector<int64_t> numbers;
  int64_t number = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t used = get_number(first + at, bytes.size() - at, number, number);
    if (used == 0) break;
    at += used;
    numbers.push_back(number);
  }
  return numbers;
}

sigjmp_buf ahead;
int instructions_left = 0;

// Makes a call of which the processor traps after each instruction, and jumps out of it after so
// many of them. False: it ended before that.
template <class Call>
bool is_left_after(int instructions, const Call& call) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (--instructions_left == 0) siglongjmp(ahead, 1);
  };
  sigaction(SIGTRAP, &action, nullptr);
  instructions_left = instructions;
  if (sigsetjmp(ahead, 1) != 0) return true;
  asm volatile(
      "lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
  call();
  asm volatile(
      "lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
          : "memory", "cc");
  return false;
}

int64_t as_told(const void* with) {
  return nanoseconds(*static_cast<const timespec*>(with));
}

constexpr Source kMonotonicClock = clock_source(CLOCK_MONOTONIC);
constexpr int64_t kRecorded = 50 * kSecond;  // by that clock

constexpr std::array<int64_t, 12> kNumbers = {0,
                                              1,
                                              -1,
                                              63,
                                              64,
                                              -64,
                                              -65,
                                              1'790'000'000'123'456'789,
                                              1'790'000'000'123'456'814,
                                              std::numeric_limits<int64_t>::max(),
                                              std::numeric_limits<int64_t>::min(),
                                              7};

// Every process has one memory for them, so the order of these counts: nothing is noted before.
TEST(Outside, NumbersAreKeptAsDifferences) {
  int64_t previous = 0;
  for (const int64_t number : kNumbers) {
    std::byte bytes[kMostNumberBytes];
    const size_t size = put_number(number, previous, bytes);
    int64_t back = 0;
    EXPECT_EQ(get_number(bytes, size, previous, back), size);
    EXPECT_EQ(back, number);
    EXPECT_EQ(get_number(bytes, size - 1, previous, back), 0U) << number;
    previous = number;
  }
  std::byte bytes[kMostNumberBytes];
  EXPECT_EQ(put_number(1'790'000'000'000'000'050, 1'790'000'000'000'000'000, bytes), 1U);
}

TEST(Outside, BytesOfAFileAreNumbersOrNot) {
  int64_t last = 1;
  EXPECT_TRUE(are_numbers(nullptr, 0, last));
  EXPECT_EQ(last, 0);
  const std::array<std::byte, 3> whole = {std::byte{2}, std::byte{0x80}, std::byte{1}};
  EXPECT_TRUE(are_numbers(whole.data(), 3, last));
  EXPECT_EQ(last, 1 + 64);
  EXPECT_FALSE(are_numbers(whole.data(), 2, last));
  const std::vector<std::byte> endless(11, std::byte{0x80});
  EXPECT_FALSE(are_numbers(endless.data(), endless.size(), last));
}

TEST(Outside, NothingIsFollowedBeforeTheBeginning) {
  EXPECT_FALSE(Own(Source::kTime));
}

TEST(Outside, WhatWasGivenIsTakenAndMoreIsAdded) {
  ValueLog recorded;
  static std::string clock, random, of_child = "of a child", monotonic, earlier, processor;
  begin(nullptr, 0);
  for (const int64_t number : kNumbers) recorded.add(number);
  clock = bytes_of(recorded);
  random = "some bytes";
  static std::string cut_short = random;
  monotonic = number_bytes({kRecorded});
  earlier = number_bytes({kRecorded - 10 * kSecond});
  processor = number_bytes({32});
  const std::array<Given, 7> all = {
      given("main", Source::kTime, clock),         given("main", Source::kRandom, random),
      given("main", kMonotonicClock, monotonic),   given("main", Source::kProcessorTime, processor),
      given("1", kMonotonicClock, earlier),        given("main+1", Source::kRandom, of_child),
      given("0", Source::kRandom, cut_short, true)};
  begin(all.data(), all.size());
  ASSERT_TRUE(restored());
  {
    const Own own(Source::kTime);
    ASSERT_TRUE(own);
    EXPECT_FALSE(Own(Source::kTime));  // as a signal's handler would find it
    leave_series();                    // and jump from there
    EXPECT_TRUE(Own(Source::kTime));
    for (const int64_t number : kNumbers) {
      int64_t back = 0;
      ASSERT_TRUE(own->take(back));
      EXPECT_EQ(back, number);
    }
    int64_t none = 0;
    EXPECT_FALSE(own->take(none));
    recorded.add(8);
    own->add(8);
    EXPECT_EQ(bytes_of(*own), bytes_of(recorded));
  }
  {
    const Guard guard;
    EXPECT_FALSE(Own(Source::kTime));
  }
  const Own own(Source::kRandom);
  std::array<char, 16> bytes = {};
  EXPECT_EQ(own->take_bytes(bytes.data(), 4), 4U);
  EXPECT_EQ(own->take_bytes(bytes.data() + 4, 12), 6U);
  EXPECT_STREQ(bytes.data(), "some bytes");
  EXPECT_FALSE(has_missed_any());
}

TEST(Outside, WhoAsksForMoreThanASeriesThatEndedIsNoted) {
  const std::string text = "ab";  // which a series only points to
  ValueLog series(given("0", Source::kRandom, text, true));
  std::array<char, 3> bytes = {};
  EXPECT_EQ(series.take_bytes(bytes.data(), bytes.size()), 2U);
  EXPECT_TRUE(has_missed_any());
  series.add_bytes("c", 1);
  EXPECT_EQ(bytes_of(series), "ab");
}

TEST(Outside, ASeriesHasABound) {
  ValueLog series;
  std::mt19937_64 random(1);
  std::string expected;
  while (!series.ended()) {
    std::string piece(1 + random() % 3000, '\0');
    for (char& byte : piece) byte = static_cast<char>(random());
    series.add_bytes(piece.data(), piece.size());
    if (!series.ended()) expected += piece;
  }
  EXPECT_GT(expected.size(), kMostBytes - 3000);
  EXPECT_LE(expected.size(), kMostBytes);
  series.add(1);
  EXPECT_EQ(bytes_of(series), expected);
}

// Within a block, and where another one is needed.
TEST(Outside, ANumberIsAddedWholeOrNotWhereAHandlerJumpsAway) {
  for (const int64_t before : {3, 125}) {
    bool is_left = true;
    for (int instructions = 1; is_left; ++instructions) {
      ValueLog series;
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < before; ++i) expected.push_back(i);
      for (const int64_t number : expected) series.add(number);
      is_left = is_left_after(instructions, [&] { series.add(kRecorded); });
      series.add(kRecorded + 1);
      expected.push_back(kRecorded + 1);
      const std::vector<int64_t> added = numbers_of(series);
      if (added == expected) continue;
      expected.insert(expected.end() - 1, kRecorded);
      ASSERT_EQ(added, expected) << before << " numbers, after " << instructions << " instructions";
    }
  }
}

TEST(Outside, ANumberIsTakenWholeOrNotWhereAHandlerJumpsAway) {
  const std::string bytes = number_bytes({1, kRecorded, 2 * kRecorded, 5 * kRecorded});
  bool is_left = true;
  for (int instructions = 1; is_left; ++instructions) {
    ValueLog series(given("0", Source::kTime, bytes));
    int64_t number = 0;
    ASSERT_TRUE(series.take(number));
    int64_t lost = 0;
    is_left = is_left_after(instructions, [&] { (void)series.take(lost); });
    ASSERT_TRUE(series.take(number));
    if (number == kRecorded) {
      ASSERT_TRUE(series.take(number));
    }
    ASSERT_EQ(number, 2 * kRecorded) << "after " << instructions << " instructions";
    ASSERT_TRUE(series.take(number));
    ASSERT_EQ(number, 5 * kRecorded);
    ASSERT_FALSE(series.take(number));
  }
}

TEST(Outside, ThreadsOfOtherWaysAreNotFollowed) {
  bool followed = true;
  std::thread([&] { followed = static_cast<bool>(Own(Source::kTime)); }).join();
  EXPECT_FALSE(followed);
}

// The second child that is forked asks for what that of the recorded run had asked for.
TEST(Outside, AChildHasItsOwn) {
  const auto takes = [](const std::string& expected) {
    std::string bytes(expected.size(), '\0');
    const Own own(Source::kRandom);
    return own && own->take_bytes(bytes.data(), bytes.size()) == expected.size() &&
           bytes == expected;
  };
  EXPECT_TRUE(holds_in_child([&] {
    begin_again_in_child();
    return !takes("o") && !takes("s");
  }));
  count_fork();
  EXPECT_TRUE(holds_in_child([&] {
    begin_again_in_child();
    return takes("of a child") && !takes("s");
  }));
  // And its children are none that were recorded; nor one beyond what a name has room for.
  EXPECT_TRUE(holds_in_child([&] {
    begin_again_in_child();
    begin_again_in_child();
    bool none = !takes("o");
    for (int i = 0; i < 100; ++i) begin_again_in_child();
    return none && !Own(Source::kRandom) && is_the_program();
  }));
}

// The values of a checkpoint and the added ones do not grow from restore to restore.
TEST(Outside, AllHaveABoundWithWhatIsGiven) {
  EXPECT_TRUE(holds_in_child([] {
    const std::string much(kPoolBytes, 'x');
    const Given given_much = given("2", Source::kRandom, much);
    begin(&given_much, 1);
    ValueLog series;
    const std::string more(2000, 'y');
    series.add_bytes(more.data(), more.size());
    return series.ended();
  }));
}

// The program has been told a moment of long ago, and waits from there.
TEST(Outside, MomentsAreThoseOfTheRealClock) {
  timespec now = {}, room = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_EQ(tell_again(kMonotonicClock, as_told, &now), kRecorded);
  const timespec told = timespec_of(kRecorded + 3 * kSecond);
  const timespec* const moment = real_moment(false, &told, room);
  EXPECT_EQ(nanoseconds(*moment), nanoseconds(now) + 3 * kSecond);
  const timespec wrong = {1, 2 * kSecond};
  EXPECT_EQ(real_moment(false, &wrong, room), &wrong);
  EXPECT_EQ(real_moment(false, nullptr, room), nullptr);
  {
    const Guard guard;
    EXPECT_EQ(real_moment(false, &told, room), &told);
  }
  std::thread([&] {
    timespec other = {};
    EXPECT_EQ(real_moment(false, &told, other), &told);
  }).join();
  // It has no more: the real one, which is later anyway.
  EXPECT_EQ(tell_again(kMonotonicClock, as_told, &now), nanoseconds(now));
  EXPECT_EQ(real_moment(false, &told, room), &told);
}

// One thread is behind the recorded times, another one in the midst of them: it waits until moments
// of both.
TEST(Outside, MomentsOfThreadsThatAreFurtherOn) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::thread([&] {
    ThreadPath& path = own_thread_path();
    path.known = true;
    path.depth = 1;
    path.ordinals[0] = 1;
    EXPECT_EQ(tell_again(kMonotonicClock, as_told, &now), kRecorded - 10 * kSecond);
    timespec room = {};
    const timespec own = timespec_of(kRecorded - 9 * kSecond);
    EXPECT_EQ(nanoseconds(*real_moment(false, &own, room)), nanoseconds(now) + kSecond);
    const timespec of_the_other = timespec_of(nanoseconds(now) + kSecond);
    EXPECT_EQ(real_moment(false, &of_the_other, room), &of_the_other);
  }).join();
}

TEST(Outside, AClockDoesNotGoBehindWhatItHasTold) {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const Source source = clock_source(CLOCK_BOOTTIME);
  const int64_t later = nanoseconds(now) + 1000 * kSecond;
  clock_was_at(source, later);
  const auto real = [](const void*) {
    timespec at = {};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return nanoseconds(at);
  };
  EXPECT_GE(tell_again(source, real, nullptr), later);
  // A processor's time starts again in each process, but is not told as less than before.
  const auto three = [](const void*) { return int64_t{3}; };
  EXPECT_EQ(tell_again(Source::kProcessorTime, three, nullptr), 32);
  EXPECT_EQ(tell_again(Source::kProcessorTime, three, nullptr), 32);
}

// Nor where it is not noted any more, or in a child.
TEST(Outside, AClockDoesNotGoBackWhereItIsNotFollowed) {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const Source source = clock_source(CLOCK_BOOTTIME);
  EXPECT_TRUE(holds_in_child([&] {
    begin_again_in_child();
    stop();
    return !Own(source) && tell_again(source, as_told, &now) > nanoseconds(now);
  }));
  EXPECT_TRUE(holds_in_child([&] {
    stop_in_this_thread();
    return !Own(source) && tell_again(source, as_told, &now) > nanoseconds(now);
  }));
  const Guard guard;
  EXPECT_EQ(tell_again(source, as_told, &now), nanoseconds(now));
}

}  // namespace
}  // namespace gpusnap::nondeterminism
