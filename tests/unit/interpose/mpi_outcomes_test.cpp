// The outcomes of MPI calls go through the journal and come back, however far ahead they are asked
// for.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <random>
#include <string>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/recorder.h"
#include "interpose/mpi/outcomes.h"
#include "tests/support/journal_file.h"

namespace gpusnap::mpi {
namespace {

class OutcomesTest : public ::testing::Test {
 protected:
  OutcomesTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "gpusnap-outcomes-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    auto file = JournalFile::create(posix_file_system(), folder_, "a.journal");
    auto recorder = Recorder::create(std::move(file.value()), "a.journal", {}, {}, 0, 0);
    recorder_ = std::move(recorder.value());
  }
  ~OutcomesTest() override { std::filesystem::remove_all(folder_); }

  void add(std::string_view name, uint64_t number, const Values& values) {
    recorder_->append_outcome(name, number, values);
  }
  void add_cut() { recorder_->append(kCutEntry, {}, 0, kAtCollective, nullptr, {}); }
  std::unique_ptr<OutcomeReader> read() {
    Manifest manifest;
    manifest.journal = recorder_->seal();
    manifest.calls = recorder_->calls();
    EXPECT_TRUE(recorder_->writer().settle(manifest.journal.back()).ok());
    auto reader = OutcomeReader::open(posix_file_system(), folder_, manifest);
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return std::move(reader.value());
  }
  static std::optional<Values> take(OutcomeReader& reader, const char* name, uint64_t number) {
    auto taken = reader.take(name, number);
    EXPECT_TRUE(taken.ok()) << taken.status().message();
    return taken.ok() ? taken.value() : std::nullopt;
  }

  std::string folder_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(OutcomesTest, ComeBackInTheirOrderBesideCalls) {
  add("MPI_Recv", 1, {3, 17});
  CallKey key;
  key.add(1, 2, 3);
  recorder_->append(5, key, 0);
  add("MPI_Waitsome", 2, {2, 0, 4});
  add("MPI_Barrier", 3, {1});
  add_cut();
  auto reader = read();
  EXPECT_EQ(take(*reader, "MPI_Recv", 1), (Values{3, 17}));
  EXPECT_EQ(reader->at_end().value(), false);
  EXPECT_EQ(take(*reader, "MPI_Waitsome", 2), (Values{2, 0, 4}));
  EXPECT_EQ(take(*reader, "MPI_Barrier", 3), (Values{1}));
  EXPECT_EQ(reader->at_end().value(), true);
  EXPECT_EQ(take(*reader, "MPI_Barrier", 4), std::nullopt);
}

TEST_F(OutcomesTest, OfManyCallsThatFoundNothingAreOneEntry) {
  const uint64_t before = recorder_->stream_bytes();
  for (uint64_t i = 1; i <= 100'000; ++i) add("MPI_Test", i, {0});
  add("MPI_Test", 100'001, {1});
  EXPECT_LT(recorder_->stream_bytes() - before, 200U);
  auto reader = read();
  for (uint64_t i = 1; i <= 100'000; ++i) ASSERT_EQ(take(*reader, "MPI_Test", i), (Values{0}));
  EXPECT_EQ(take(*reader, "MPI_Test", 100'001), (Values{1}));
}

TEST_F(OutcomesTest, ACutEndsARun) {
  add("MPI_Test", 1, {0});
  add("MPI_Test", 2, {0});
  add_cut();
  add("MPI_Test", 3, {0});
  auto reader = read();
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(take(*reader, "MPI_Test", i), (Values{0}));
  EXPECT_EQ(reader->at_end().value(), true);
}

TEST_F(OutcomesTest, AMatchIsFoundAheadOfItsTime) {
  add("MPI_Barrier", 2, {0});
  add("MPI_Test", 3, {0});
  add(kMatched, 1, {5, 9});
  add("MPI_Barrier", 4, {0});
  auto reader = read();
  EXPECT_EQ(reader->matched(1).value(), (Values{5, 9}));
  EXPECT_EQ(take(*reader, "MPI_Barrier", 2), (Values{0}));
  EXPECT_EQ(take(*reader, "MPI_Test", 3), (Values{0}));
  EXPECT_EQ(reader->matched(3).value(), std::nullopt);
  EXPECT_EQ(take(*reader, "MPI_Barrier", 4), (Values{0}));
}

TEST_F(OutcomesTest, AnotherCallIsNamed) {
  add("MPI_Recv", 1, {3, 17});
  const auto taken = read()->take("MPI_Barrier", 1);
  ASSERT_EQ(taken.status().code(), Code::kInvalid);
  EXPECT_EQ(taken.status().message(), "expected MPI_Recv, got MPI_Barrier");
}

TEST_F(OutcomesTest, OneThatWasNotRecordedIsNotThere) {
  add("MPI_Recv", 5, {3, 17});
  auto reader = read();
  EXPECT_EQ(take(*reader, "MPI_Recv", 4), std::nullopt);
  EXPECT_EQ(take(*reader, "MPI_Recv", 5), (Values{3, 17}));
}

TEST_F(OutcomesTest, RandomHistories) {
  static const char* const kNames[] = {"MPI_Test", "MPI_Recv", "MPI_Barrier"};
  std::mt19937 random(20261122);
  struct Call {
    const char* name;
    Values values;
  };
  std::vector<Call> calls;
  for (uint64_t number = 1; number <= 20'000; ++number) {
    Call call{kNames[random() % 3], {}};
    const size_t size = random() % 4;
    for (size_t i = 0; i < size; ++i) call.values.push_back(static_cast<int32_t>(random() % 2));
    add(call.name, number, call.values);
    calls.push_back(call);
    if (random() % 7 == 0) recorder_->append(3, {}, 0);
    if (random() % 50 == 0) add_cut();
  }
  auto reader = read();
  for (uint64_t number = 1; number <= calls.size(); ++number) {
    const Call& call = calls[number - 1];
    ASSERT_EQ(take(*reader, call.name, number), call.values) << number;
  }
  EXPECT_EQ(reader->at_end().value(), true);
}

}  // namespace
}  // namespace gpusnap::mpi
