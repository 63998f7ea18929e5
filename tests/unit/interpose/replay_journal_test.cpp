// The replayer reads the recorder's journal, also in another build of the library whose hooks have
// other numbers.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/recorder.h"
#include "interpose/journal/replayer.h"
#include "interpose/threads/thread_path.h"
#include "tests/support/journal_file.h"
#include "tests/unit/interpose/unhooked.h"

namespace gpusnap {

namespace {

// Whether the first call of the thread from that number on is this one.
bool next_call_is(CallsAhead& ahead, std::string_view thread, uint64_t from, uint16_t hook,
                  const CallKey& key) {
  ahead.forget_before(from);
  for (size_t i = 0; const SeenEntry* seen = ahead.at(i); ++i) {
    if (seen->is_call() && seen->thread == thread) return is_call(*seen, hook, key);
  }
  return false;
}

class ReplayJournalTest : public ::testing::Test {
 protected:
  ReplayJournalTest() {
    std::string name = (std::filesystem::temp_directory_path() / "gpusnap-journal-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ReplayJournalTest() override {
    insert_hooks(0);
    std::filesystem::remove_all(folder_);
  }
  std::unique_ptr<Recorder> record(const std::string& name, std::vector<JournalPart> before = {},
                                   uint64_t calls = 0) {
    auto file = JournalFile::create(posix_file_system(), folder_, name);
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto recorder =
        Recorder::create(std::move(file.value()), name, {}, std::move(before), calls, 0);
    EXPECT_TRUE(recorder.ok()) << recorder.status().message();
    return std::move(recorder.value());
  }
  std::vector<JournalPart> finish(Recorder& recorder) {
    auto parts = recorder.seal();
    const Status status = recorder.writer().settle(parts.back()).status();
    EXPECT_TRUE(status.ok()) << status.message();
    return parts;
  }
  std::unique_ptr<Replayer> replay(std::vector<JournalPart> parts, uint64_t calls) {
    auto replayer = Replayer::open(posix_file_system(), folder_, std::move(parts), calls);
    EXPECT_TRUE(replayer.ok()) << replayer.status().message();
    return std::move(replayer.value());
  }
  std::string folder_;
};

CallKey key_of(std::initializer_list<uint64_t> words, std::string_view name = {}) {
  CallKey key;
  for (uint64_t word : words) key.add(word);
  key.name = name;
  return key;
}

TEST_F(ReplayJournalTest, EveryPartOfAnEntryComesBack) {
  std::vector<std::byte> box(1000);
  for (size_t i = 0; i < box.size(); ++i) box[i] = static_cast<std::byte>(i);
  const HostBlock answer{box.data() + 3, 10, 4, 2, 50, 400};
  const Delivery delivery{{DeliveryHead::kMemory, 0x1000, 8, 20}, plain_block(box.data(), 20)};

  auto recorder = record("a.journal");
  recorder->append(7, key_of({1, 2, 3}), -5);
  recorder->append(8, key_of({4}, "a_kernel"), 0, kCaptured, &answer, {&delivery, 1});
  recorder->append(9, key_of({}, "no_more_than_a_name"), 0);
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  EXPECT_EQ(recorder->calls(), 3U);
  auto replayer = replay(finish(*recorder), 3);

  Entry entry;
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 7);
  EXPECT_EQ(entry.head.result, -5);
  EXPECT_EQ(entry.words, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_FALSE(replayer->at_cut());

  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.name, "a_kernel");
  EXPECT_EQ(entry.head.flags, kCaptured | kHasAnswer);
  std::vector<std::byte> rows;
  answer.for_each_row([&](auto row) { rows.insert(rows.end(), row.begin(), row.end()); });
  EXPECT_EQ(entry.answer, rows);
  DeliveryHead head;
  ASSERT_TRUE(replayer->next_delivery(head).ok());
  EXPECT_EQ(head.target, 0x1000U);
  std::vector<std::byte> bytes(head.size);
  ASSERT_TRUE(replayer->read(bytes).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), box.data(), 20), 0);

  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.name, "no_more_than_a_name");
  EXPECT_TRUE(replayer->at_cut());

  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, kCutEntry);
  EXPECT_EQ(replayer->next(entry).code(), Code::kDamaged) << "nothing is left";
}

// Calls with every number of words, over the ends of several of the journal's blocks.
TEST_F(ReplayJournalTest, ManyCallsInARow) {
  auto recorder = record("a.journal");
  constexpr uint64_t kCalls = 20'000;
  const auto words_of = [](uint64_t call) {
    std::vector<uint64_t> words(call * call % (kMaxWords + 1));
    for (size_t i = 0; i < words.size(); ++i) words[i] = call * 1000 + i;
    return words;
  };
  for (uint64_t call = 0; call < kCalls; ++call) {
    CallKey key;
    for (const uint64_t word : words_of(call)) key.add(word);
    recorder->append(static_cast<uint16_t>(call % 100), key, static_cast<int32_t>(call));
  }
  EXPECT_GT(recorder->stream_bytes(), 3 * JournalWriter::Options().block_bytes);
  EXPECT_EQ(recorder->calls(), kCalls);
  auto replayer = replay(finish(*recorder), kCalls);
  Entry entry;
  for (uint64_t call = 0; call < kCalls; ++call) {
    ASSERT_TRUE(replayer->next(entry).ok());
    ASSERT_EQ(entry.head.hook, call % 100);
    ASSERT_EQ(entry.head.result, static_cast<int32_t>(call));
    ASSERT_EQ(entry.words, words_of(call));
  }
  EXPECT_TRUE(replayer->at_cut());
}

TEST(CallKey, TakesAllWordsOrNone) {
  CallKey key;
  for (uint64_t i = 0; i < kMaxWords - 2; ++i) key.add(i);
  key.add(1, 2, 3);
  EXPECT_EQ(key.count, kMaxWords - 2);
  key.add(7, 8);
  EXPECT_EQ(key.count, kMaxWords);
  EXPECT_EQ(key.words[kMaxWords - 1], 8U);
  key.add(9);
  EXPECT_EQ(key.count, kMaxWords);
}

TEST_F(ReplayJournalTest, RunsOfBusyPollsAreOneEntry) {
  auto recorder = record("a.journal");
  for (int i = 0; i < 1000; ++i) recorder->append_poll(9);
  recorder->append_poll(10);
  recorder->append(9, {}, 0);
  EXPECT_EQ(recorder->calls(), 3U);
  auto replayer = replay(finish(*recorder), 3);
  Entry entry;
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 9);
  EXPECT_EQ(entry.words.at(0), 1000U);
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 10);
  EXPECT_EQ(entry.words.at(0), 1U);
}

TEST_F(ReplayJournalTest, HooksAreKnownByNameNotByNumber) {
  auto recorder = record("a.journal");
  recorder->append(20, {}, 0);
  auto parts = finish(*recorder);
  insert_hooks(5);  // in the reading build
  auto replayer = replay(parts, 1);
  Entry entry;
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 15);
}

TEST_F(ReplayJournalTest, ARestoredRunGoesOnInAPartOfItsOwn) {
  auto first = record("a.journal");
  first->append(1, {}, 0);
  auto parts = finish(*first);
  first->append(2, {}, 0);  // after the cut: lost with the process
  auto second = record("b.journal", parts, 1);
  second->append(3, {}, 0);
  EXPECT_EQ(second->calls(), 2U);
  auto replayer = replay(finish(*second), 2);
  Entry entry;
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 1);
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 3);
}

// A restored run may make MPI calls before its next hooked one.
TEST_F(ReplayJournalTest, APartMayBeginWithAnOutcome) {
  auto first = record("a.journal");
  first->append(1, {}, 0);
  auto second = record("b.journal", finish(*first), 1);
  const int32_t values[] = {3, -1};
  second->append_outcome("MPI_Recv", 7, values);
  second->append(2, {}, 0);
  auto replayer = replay(finish(*second), 2);
  Entry entry;
  ASSERT_TRUE(replayer->next(entry).ok());
  const Status status = replayer->next(entry);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(entry.head.hook, kOutcomeEntry);
  EXPECT_EQ(entry.name, "MPI_Recv");
  ASSERT_TRUE(replayer->next(entry).ok());
  EXPECT_EQ(entry.head.hook, 2);
}

TEST_F(ReplayJournalTest, ACallOfNoThreadIsRefused) {
  auto recorder = record("a.journal");
  const EntryHead call;
  recorder->writer().append(std::as_bytes(std::span(&call, 1)), 1);
  auto replayer = replay(finish(*recorder), 1);
  Entry entry;
  EXPECT_EQ(replayer->next(entry).code(), Code::kDamaged);
}

TEST_F(ReplayJournalTest, AManifestThatCountsOtherwiseIsRefused) {
  auto recorder = record("a.journal");
  recorder->append(1, {}, 0);
  EXPECT_FALSE(Replayer::open(posix_file_system(), folder_, finish(*recorder), 2).ok());
}

TEST_F(ReplayJournalTest, HostileEntriesAreRefused) {
  EntryHead head;
  head.hook = 0;
  head.words = 200;
  EntryHead with_name;
  with_name.name_bytes = UINT32_MAX;
  EntryHead with_answer;
  with_answer.flags = kHasAnswer;
  EntryHead unknown;
  unknown.hook = 0x7fff;
  EntryHead thread;  // of a number that nobody has
  thread.hook = kThreadEntry;
  thread.words = 1;
  EntryHead thread_without_number = thread;
  thread_without_number.words = 0;
  EntryHead thread_with_name = thread;
  thread_with_name.name_bytes = 100000;
  for (const EntryHead& hostile :
       {head, with_name, with_answer, unknown, thread, thread_without_number, thread_with_name}) {
    static int number = 0;
    auto recorder = record("h" + std::to_string(number++) + ".journal");
    recorder->append(1, {}, 0);
    recorder->writer().append(std::as_bytes(std::span(&hostile, 1)), 1);
    const uint64_t huge = UINT64_MAX;
    recorder->writer().append(std::as_bytes(std::span(&huge, 1)), 0);
    auto replayer = replay(finish(*recorder), 2);
    Entry entry;
    ASSERT_TRUE(replayer->next(entry).ok());
    EXPECT_EQ(replayer->next(entry).code(), Code::kDamaged);
  }
}

// Runs `body` on a thread with that path.
template <class Body>
void on_thread(uint32_t ordinal, Body&& body) {
  std::thread([&] {
    own_thread_path() = {};
    own_thread_path().known = true;
    own_thread_path().depth = 1;
    own_thread_path().ordinals[0] = ordinal;
    body();
  }).join();
}

TEST_F(ReplayJournalTest, EachEntryIsOfItsThread) {
  auto recorder = record("a.journal");
  recorder->append(1, {}, 0);
  on_thread(7, [&] {
    recorder->append(2, {}, 0);
    recorder->append(3, key_of({}, "name"), 0);
  });
  recorder->append(4, {}, 0);
  on_thread(8, [&] { recorder->append(5, {}, 0); });
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  auto parts = finish(*recorder);
  auto second = record("b.journal", parts, 5);  // numbers its threads anew
  on_thread(8, [&] { second->append(6, {}, 0); });
  second->append(7, {}, 0);
  auto replayer = replay(finish(*second), 7);
  Entry entry;
  std::string read;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(replayer->next(entry).ok());
    EXPECT_TRUE(i > 0 || !replayer->several_threads());
    read += (entry.head.hook == kCutEntry ? "cut" : std::to_string(entry.head.hook)) + " " +
            replayer->thread() + "; ";
  }
  EXPECT_EQ(read, "1 main; 2 7; 3 7; 4 main; 5 8; cut main; 6 8; 7 main; ");
  EXPECT_TRUE(replayer->several_threads());
}

TEST_F(ReplayJournalTest, TheNextCallOfEachThreadIsSeenAhead) {
  auto recorder = record("a.journal");
  recorder->append(1, key_of({7}, "name"), 0);
  for (int i = 0; i < 3; ++i) {
    on_thread(7, [&] { recorder->append(2, key_of({uint64_t(i)}, "name"), 0); });
    recorder->append(3, {}, 0);
  }
  on_thread(8, [&] { recorder->append(2, key_of({9}, "other"), 0); });
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  CallsAhead ahead(replay(finish(*recorder), 8));
  const auto next_is = [&](std::string_view thread, uint64_t from, uint16_t hook,
                           const CallKey& key) {
    return next_call_is(ahead, thread, from, hook, key);
  };
  EXPECT_TRUE(next_is("main", 0, 1, key_of({7}, "name")));
  EXPECT_FALSE(next_is("main", 1, 1, key_of({7}, "name")));
  EXPECT_TRUE(next_is("main", 1, 3, {}));
  EXPECT_TRUE(next_is("8", 1, 2, key_of({9}, "other")));
  EXPECT_FALSE(next_is("8", 1, 2, key_of({9}, "name")));
  EXPECT_FALSE(next_is("8", 1, 2, key_of({8}, "other")));
  EXPECT_FALSE(next_is("8", 1, 3, key_of({9}, "other")));
  EXPECT_TRUE(next_is("7", 1, 2, key_of({0}, "name")));
  EXPECT_FALSE(next_is("7", 2, 2, key_of({0}, "name")));
  EXPECT_TRUE(next_is("7", 2, 2, key_of({1}, "name")));
  EXPECT_TRUE(next_is("7", 4, 2, key_of({2}, "name")));
  EXPECT_FALSE(next_is("7", 6, 2, key_of({2}, "name")));  // it made no more
  EXPECT_FALSE(next_is("9", 7, 2, key_of({2}, "name")));
  EXPECT_FALSE(next_is("8", 8, 2, key_of({9}, "other")));
}

TEST_F(ReplayJournalTest, ACutAtTheEndOfACallIsSeenAhead) {
  auto recorder = record("a.journal");
  recorder->append(1, {}, 0);
  recorder->append(kCutEntry, {}, 0, kAtCallEnd, nullptr, {});
  recorder->append(1, {}, 0);
  recorder->append_callback(kCallbackEntry, 0, 0, 0, {});
  recorder->append_callback(kCallbackEndEntry, 0, 0, 0, {});
  recorder->append(kCutEntry, {}, 0, kAtCallEnd, nullptr, {});
  recorder->append(1, {}, 0);
  recorder->append_callback(kCallbackEntry, 1, 0, 0, {});
  recorder->append_callback(kCallbackEndEntry, 1, 0, 0, {});
  recorder->append(1, {}, 0);
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  CallsAhead ahead(replay(finish(*recorder), 4));
  const auto next_is = [&](std::string_view thread, uint64_t from, uint16_t hook,
                           const CallKey& key) {
    return next_call_is(ahead, thread, from, hook, key);
  };
  EXPECT_TRUE(ahead.cut_at_end_comes(1));
  EXPECT_TRUE(ahead.cut_at_end_comes(2));
  EXPECT_TRUE(next_is("main", 2, 1, {}));
  EXPECT_FALSE(ahead.cut_at_end_comes(3));
  EXPECT_FALSE(ahead.cut_at_end_comes(4));  // that one was made before a call
}

// One turn of a loop with entries of each kind: the numbers of host functions, of MPI calls and of
// copies that are delivered later count up.
void record_turn(Recorder& recorder, uint64_t turn) {
  static const std::byte kLoss[4] = {std::byte{1}, std::byte{2}};
  const Delivery copy{{DeliveryHead::kCopy, turn, 0, 4}, plain_block(kLoss, 4)};
  const Delivery memory{{DeliveryHead::kMemory, 0x7000, 8, 4}, plain_block(kLoss, 4)};
  for (uint64_t launch = 0; launch < 500; ++launch) {
    recorder.append(static_cast<uint16_t>(launch % 3), key_of({launch, 7, 1, 256}), 0);
  }
  recorder.append(4, key_of({1}, "a_name"), 0);
  recorder.append_poll(6);
  recorder.append_callback(kCallbackEntry, 2 * turn + 1, 0, 0, {&memory, 1});
  recorder.append_callback(kCallbackEndEntry, 2 * turn + 1, 0, 0, {});
  recorder.append_callback(kCallbackEntry, 2 * turn, 0, 0, {});
  recorder.append_callback(kCallbackEndEntry, 2 * turn, 0, 0, {});
  const int32_t source[] = {3, 9};
  recorder.append_outcome("MPI_Recv", 5 * turn + 1, source);
  const int32_t none = 0;
  for (uint64_t i = 2; i < 5; ++i) {
    recorder.append_outcome("MPI_Test", 5 * turn + i, {&none, 1});
  }
  recorder.append_outcome("MPI_Wait", 5 * turn + 5, source);
  recorder.append(5, {}, 0, kCaptured, nullptr, std::array{copy, memory});
}

TEST_F(ReplayJournalTest, TurnsOfALoopHaveEqualBytes) {
  auto recorder = record("a.journal");
  record_turn(*recorder, 0);
  record_turn(*recorder, 1);
  const uint64_t first = finish(*recorder).back().file_bytes;
  for (uint64_t turn = 2; turn < 100; ++turn) record_turn(*recorder, turn);
  auto parts = finish(*recorder);
  EXPECT_LE(parts.back().file_bytes - first, 200U);

  auto replayer = replay(parts, recorder->calls());
  for (uint64_t turn = 0; turn < 100; ++turn) {
    std::vector<uint64_t> functions, outcomes, copies;
    for (Entry entry; entry.head.hook != 5;) {
      ASSERT_TRUE(replayer->next(entry).ok());
      const uint16_t kind = entry.head.hook;
      if (kind == kCallbackEntry || kind == kCallbackEndEntry) functions.push_back(entry.words[0]);
      if (kind == kOutcomeEntry) outcomes.push_back(entry.words[0]);
      for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
        DeliveryHead head;
        ASSERT_TRUE(replayer->next_delivery(head).ok());
        std::byte bytes[4];
        ASSERT_TRUE(replayer->read(bytes).ok());
        EXPECT_EQ(bytes[1], std::byte{2});
        if (head.kind == DeliveryHead::kCopy) copies.push_back(head.target);
        if (head.kind == DeliveryHead::kMemory) {
          EXPECT_EQ(head.target, 0x7000U);
        }
      }
    }
    const uint64_t f = 2 * turn, o = 5 * turn;
    ASSERT_EQ(functions, (std::vector<uint64_t>{f + 1, f + 1, f, f}));
    ASSERT_EQ(outcomes, (std::vector<uint64_t>{o + 1, o + 2, o + 5}));
    ASSERT_EQ(copies, std::vector<uint64_t>{turn});
  }
  EXPECT_TRUE(replayer->at_cut());
}

class StreamReader final : public JournalReader {
 public:
  explicit StreamReader(std::string stream) : stream_(std::move(stream)) {}
  Status read(std::span<std::byte> bytes) override {
    if (bytes.size() > stream_.size() - at_) return {Code::kNotFound, "the end"};
    std::memcpy(bytes.data(), stream_.data() + at_, bytes.size());
    at_ += bytes.size();
    return {};
  }
  uint64_t total_bytes() const override { return stream_.size(); }
  uint64_t total_entries() const override { return 0; }

 private:
  const std::string stream_;
  size_t at_ = 0;
};

// In version 6 numbers were no steps; a part of it may come before one of this version.
TEST_F(ReplayJournalTest, NumbersOfEarlierVersionsAreAsTheyAre) {
  std::string stream;
  const auto put = [&](const auto& value) {
    stream.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const int32_t version : {6, 7, 6}) {
    put(EntryHead{kTableEntry, 0, 0, version, 5, 0});
    stream += "call\n";
    put(EntryHead{kThreadEntry, 1, 0, 0, 4, 0});
    put(uint64_t{0});
    stream += "main";
    for (const uint64_t number : {10, 3, 1}) {
      put(EntryHead{kCallbackEntry, 1, 0, 0, 0, 1});
      put(number);
      put(DeliveryHead{DeliveryHead::kCopy, number, 0, 0});
    }
  }
  Replayer replayer(std::make_unique<StreamReader>(stream), 0);
  for (const uint64_t number : {10, 3, 1, 9, 12, 13, 10, 3, 1}) {
    Entry entry;
    ASSERT_TRUE(replayer.next(entry).ok());
    EXPECT_EQ(entry.words[0], number);
    DeliveryHead head;
    ASSERT_TRUE(replayer.next_delivery(head).ok());
    EXPECT_EQ(head.target, number);
  }
}

TEST_F(ReplayJournalTest, WhatConcernsAThreadAloneIsNotItsNextCall) {
  const auto sets = static_cast<uint16_t>(HookId::cuCtxSetCurrent);
  CallKey known;
  known.data = 1 << 16;
  auto recorder = record("a.journal");
  recorder->append(sets, known, 0);
  on_thread(3, [&] {
    recorder->append(sets, {}, 0);  // of a context that comes up here
    recorder->append(sets, known, 0);
    recorder->append(2, {}, 0);
  });
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  CallsAhead ahead(replay(finish(*recorder), 4));
  const auto next_is = [&](std::string_view thread, uint64_t from, uint16_t hook,
                           const CallKey& key) {
    return next_call_is(ahead, thread, from, hook, key);
  };
  EXPECT_TRUE(next_is("main", 0, sets, known));
  EXPECT_TRUE(next_is("3", 1, sets, {}));
  EXPECT_TRUE(next_is("3", 2, 2, {}));
}

TEST_F(ReplayJournalTest, AThreadMayBeThereUnderAnothersPath) {
  auto recorder = record("a.journal");
  recorder->name_threads({{"7", "8"}, {"8", "7"}});
  recorder->append(1, {}, 0);
  on_thread(7, [&] { recorder->append(2, {}, 0); });
  on_thread(8, [&] { recorder->append(3, {}, 0); });
  on_thread(9, [&] { recorder->append(4, {}, 0); });
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  auto replayer = replay(finish(*recorder), 4);
  Entry entry;
  std::string read;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(replayer->next(entry).ok());
    read += std::to_string(entry.head.hook) + " " + replayer->thread() + "; ";
  }
  EXPECT_EQ(read, "1 main; 2 8; 3 7; 4 9; ");
}

TEST_F(ReplayJournalTest, AThreadMayBeSpokenForByAnother) {
  auto recorder = record("a.journal");
  recorder->name_threads({{"7", "8"}, {"8", "7"}});
  const uint64_t given = 5;
  const HostBlock answer = plain_block(&given, sizeof given);
  recorder->append_for("7", 1, key_of({64}), 0, &answer);
  recorder->append_for("9", 2, {}, 3, nullptr);
  recorder->append(3, {}, 0);
  on_thread(7, [&] { recorder->append(4, {}, 0); });
  recorder->append(kCutEntry, {}, 0, 0, nullptr, {});
  auto replayer = replay(finish(*recorder), 4);
  Entry entry;
  std::string read;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(replayer->next(entry).ok());
    read += std::to_string(entry.head.hook) + " " + replayer->thread() + " " +
            std::to_string(entry.head.result) + " " + std::to_string(entry.answer.size()) + "; ";
  }
  EXPECT_EQ(read, "1 8 0 8; 2 9 3 0; 3 main 0 0; 4 8 0 0; ");
}

// A thread that polls is not held back by others in a replay, and others need only its first poll.
TEST_F(ReplayJournalTest, RunsOfPollsStandWhereTheyBegan) {
  auto recorder = record("a.journal");
  recorder->append_poll(1);
  on_thread(0, [&] { recorder->append_poll(1); });
  recorder->append_poll(1);
  recorder->append_poll(1);
  on_thread(1, [&] { recorder->append(2, {}, 0); });  // ends both runs
  recorder->append_poll(1);
  recorder->append_poll(3);
  recorder->append_poll(1);
  auto replayer = replay(finish(*recorder), 6);
  Entry entry;
  std::string read;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(replayer->next(entry).ok());
    read += replayer->thread() + ":" + std::to_string(entry.head.hook) + "x" +
            std::to_string(entry.words.empty() ? 0 : entry.words[0]) + " ";
  }
  EXPECT_EQ(read, "main:1x3 0:1x1 1:2x0 main:1x1 main:3x1 main:1x1 ");
}

TEST_F(ReplayJournalTest, NoNumberOfPollsIsTooLarge) {
  auto recorder = record("a.journal");
  for (uint16_t i = 0; i < 100; ++i) recorder->append_poll(i % 2);
  auto replayer = replay(finish(*recorder), 100);
  Entry entry;
  for (uint16_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(replayer->next(entry).ok());
    ASSERT_EQ(entry.head.hook, i % 2);
  }
}

}  // namespace
}  // namespace gpusnap
