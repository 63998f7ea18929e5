// SPDX-License-Identifier: Apache-2.0
// Extracted data are the memory's, and no failure leaves a part of them.
#include "tools/cli/extraction.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "chain_support.h"
#include "fault_file_system.h"
#include "tools/cli/interruption.h"

namespace gpusnap {
namespace {

class ExtractionTest : public ::testing::Test {
 protected:
  // A full checkpoint of two ranks and an increment of it.
  ExtractionTest() {
    EXPECT_TRUE(files_.make_folder("/out").ok());
    for (uint32_t rank = 0; rank < 2; ++rank) {
      for (uint64_t i = 1; i <= 5; ++i) memory_[rank].allocate(0x100000 * i, 700 * i);
    }
    std::optional<test::Parent> parents[2];
    for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
      for (uint32_t rank = 0; rank < 2; ++rank) parents[rank] = take(epoch, rank, parents[rank]);
    }
    backend_.wait_for_checkpoints();
    checkpoint_ = store_->find("demo@2").value();
  }

  test::Parent take(uint64_t epoch, uint32_t rank, const std::optional<test::Parent>& parent) {
    test::DeviceMemory& memory = memory_[rank];
    for (uint64_t i = 1; i <= 5; ++i) {
      memory.write(0x100000 * i, 0, static_cast<std::byte>(i + 8 * epoch + 100 * rank));
    }
    test::Increment increment(backend_, {"demo", "run1", rank, 2, {}, uint64_t{12} << 10}, epoch);
    increment.save(memory, parent, random_);
    EXPECT_TRUE(increment.finish().ok());
    memory.clean();
    return {epoch, 0, memory.image()};
  }

  std::vector<ExtractedArray> arrays(const RangeSelection& selection,
                                     const ArrayOptions& options = {}) const {
    return plan_arrays(select_ranges(checkpoint_, selection).value(), options).value();
  }

  // All in one file.
  Status extract(const std::vector<ExtractedArray>& arrays, ArrayFormat format,
                 const std::string& path, bool replaces = false) {
    std::vector<const ExtractedArray*> all;
    for (const ExtractedArray& array : arrays) all.push_back(&array);
    std::vector<ArrayFile> outputs;
    outputs.emplace_back(format, checkpoint_.id, all);
    begins_ = {};
    for (size_t i = 0; i < all.size(); ++i) begins_.push_back(outputs[0].at(i));
    OutputTarget target(files_, path, OutputTarget::Kind::kFile, replaces);
    if (Status begun = target.begin(); !begun.ok()) return begun;
    Extraction extraction(*store_, checkpoint_, files_, target, outputs, {}, goes_on_);
    if (Status done = extraction.run(); !done.ok()) {
      output_failed_ = extraction.has_output_failed();
      return done;
    }
    return target.finish();
  }

  void expect_memory_in(const std::vector<ExtractedArray>& arrays, const std::string& path) const {
    const std::vector<std::byte> content = files_.content(path);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto& bytes = memory_[arrays[i].rank->rank].image().at(arrays[i].saved().address).bytes;
      const auto wanted = std::span(bytes).subspan(arrays[i].offset, arrays[i].bytes);
      ASSERT_LE(begins_[i] + wanted.size(), content.size());
      EXPECT_EQ(std::memcmp(content.data() + begins_[i], wanted.data(), wanted.size()), 0) << i;
    }
  }

  std::vector<std::string> outputs() const {
    std::vector<std::string> paths = files_.paths();
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("/out/"); });
    return paths;
  }

  test::Random random_{7};
  test::FaultFileSystem files_;
  test::LocalBackend backend_{files_};
  std::unique_ptr<Store> store_{std::move(Store::open(files_, "/pfs", true).value())};
  test::DeviceMemory memory_[2];  // by rank
  CheckpointInfo checkpoint_;
  std::function<bool()> goes_on_ = [] { return true; };
  std::vector<uint64_t> begins_;
  bool output_failed_ = false;
};

TEST_F(ExtractionTest, GivesWhatWasInMemory) {
  const auto all = arrays({});
  ASSERT_EQ(all.size(), 10U);
  for (const ArrayFormat format : {ArrayFormat::kNpz, ArrayFormat::kSafetensors}) {
    const std::string path = std::string("/out/all.") + name_of(format);
    const Status done = extract(all, format, path);
    ASSERT_TRUE(done.ok()) << done.message();
    expect_memory_in(all, path);
  }
  EXPECT_EQ(outputs().size(), 2U);
}

TEST_F(ExtractionTest, GivesAPartOfOneRange) {
  const auto part = arrays({.rank = 1, .numbers = {3}}, {find_element_type("u16"), {50, 7}, 301});
  ASSERT_TRUE(extract(part, ArrayFormat::kRaw, "/out/part").ok());
  expect_memory_in(part, "/out/part");
  EXPECT_EQ(files_.content("/out/part").size(), 700U);
}

TEST_F(ExtractionTest, OverwritesNothingUnasked) {
  files_.put("/out/there", {std::byte{1}});
  const auto one = arrays({.rank = 0, .numbers = {0}});
  EXPECT_EQ(extract(one, ArrayFormat::kNpy, "/out/there").code(), Code::kInvalid);
  EXPECT_EQ(files_.content("/out/there"), std::vector{std::byte{1}});
  ASSERT_TRUE(extract(one, ArrayFormat::kNpy, "/out/there", true).ok());
  expect_memory_in(one, "/out/there");
  ASSERT_TRUE(files_.make_folder("/out/folder").ok());
  EXPECT_EQ(extract(one, ArrayFormat::kNpy, "/out/folder", true).code(), Code::kInvalid);
  EXPECT_EQ(outputs(), std::vector<std::string>{"/out/there"});
}

TEST_F(ExtractionTest, LeavesNothingWhereItFails) {
  const auto all = arrays({});
  const Status full(Code::kNoSpace, "no room");
  size_t failures = 0;
  for (size_t operation = 0;; ++operation) {
    files_.inject({.operation = operation, .failure = full});
    const Status done = extract(all, ArrayFormat::kNpz, "/out/all.npz");
    const size_t operations = files_.operations();
    files_.heal();
    if (operation >= operations) {
      EXPECT_TRUE(done.ok());
      break;
    }
    ++failures;
    EXPECT_EQ(done.code(), Code::kNoSpace) << operation;
    // The folder's sync comes when the file has its name.
    const std::vector<std::string> left = outputs();
    if (!left.empty()) {
      EXPECT_EQ(left, std::vector<std::string>{"/out/all.npz"}) << operation;
      expect_memory_in(all, "/out/all.npz");
      files_.erase("/out/all.npz");
    }
  }
  EXPECT_GT(failures, 5U);
}

TEST_F(ExtractionTest, EndsWhereItIsAskedTo) {
  goes_on_ = [] { return false; };
  EXPECT_FALSE(extract(arrays({}), ArrayFormat::kNpz, "/out/all.npz").ok());
  EXPECT_EQ(outputs(), std::vector<std::string>());
}

TEST_F(ExtractionTest, RefusesDamagedBytes) {
  for (const std::string& path : files_.paths()) {
    if (!path.ends_with(".segment") || path.find("/e1/") == std::string::npos) continue;
    std::vector<std::byte> bytes = files_.content(path);
    for (size_t i = 4096; i < bytes.size(); i += 64) bytes[i] ^= std::byte{1};
    files_.put(path, bytes);
  }
  const Status done = extract(arrays({}), ArrayFormat::kNpz, "/out/all.npz");
  EXPECT_EQ(done.code(), Code::kDamaged);
  EXPECT_FALSE(output_failed_);
  EXPECT_NE(done.message().find("demo@2"), std::string::npos) << done.message();
  EXPECT_EQ(outputs(), std::vector<std::string>());
}

TEST(Interruptions, EndTheProcessOnceAllIsCleanedUp) {
  EXPECT_FALSE(Interruption().came());
  EXPECT_EXIT(
      {
        const Interruption interruption;
        (void)std::raise(SIGTERM);
        std::fputs(interruption.came() ? "noted" : "not noted", stderr);
      },
      ::testing::KilledBySignal(SIGTERM), "^noted");
}

}  // namespace
}  // namespace gpusnap
