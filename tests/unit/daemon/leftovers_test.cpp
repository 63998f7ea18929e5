#include "tiers/daemon/leftovers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "fault_file_system.h"
#include "tiers/backend/block_log.h"
#include "tiers/names.h"

namespace gpusnap::test {
namespace {

CheckpointText part(uint64_t epoch, uint32_t rank = 0) {
  CheckpointText text;
  text.store = "/store";
  text.job = "wave";
  text.run = "r1";
  text.epoch = epoch;
  text.rank = rank;
  return text;
}

class Leftovers : public testing::Test {
 protected:
  void write(const std::string& path, std::vector<std::byte> bytes = {}) {
    EXPECT_TRUE(files_.make_folder(path.substr(0, path.rfind('/'))).ok());
    auto file = files_.create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(file.value()->append(bytes).ok());
  }
  void write_log(const std::string& ssd, const CheckpointText& text, bool sealed) {
    std::vector<std::byte> bytes = encode_log_text(encode(text));
    if (sealed) {
      for (const std::byte byte : encode_log_sealed(3)) bytes.push_back(byte);
    }
    write(user_folder(ssd) + "/node/0123456789abcdef/wave/e" + std::to_string(text.epoch) + "/r" +
              std::to_string(text.rank) + "-r1-0.blocks",
          bytes);
  }
  std::vector<CheckpointText> found() { return leftovers_on(files_, {{"/a", 0}, {"/b", 0}}); }

  FaultFileSystem files_;
};

TEST_F(Leftovers, AreNoneWhereThereIsNothing) {
  EXPECT_TRUE(found().empty());
}

TEST_F(Leftovers, AreWhatIsSealedAndNotInItsStore) {
  write_log("/a", part(1), true);
  write_log("/a", part(2), false);
  write_log("/b", part(3, 1), true);
  EXPECT_EQ(found(), (std::vector<CheckpointText>{part(1), part(3, 1)}));
  write("/store/wave/e1/r0.manifest");
  EXPECT_EQ(found(), std::vector<CheckpointText>{part(3, 1)});
}

TEST_F(Leftovers, AreNotWhatTheStoreHasPassed) {
  write_log("/a", part(1), true);
  write("/store/wave/e1/r1.manifest");
  write("/store/wave/e2/r0.manifest");
  // Its epoch is there, and waits for it.
  EXPECT_EQ(found(), std::vector<CheckpointText>{part(1)});
  EXPECT_FALSE(is_in_store(files_, part(1)));
  ASSERT_TRUE(files_.remove("/store/wave/e1/r1.manifest").ok());
  ASSERT_TRUE(files_.remove_folder("/store/wave/e1").ok());
  EXPECT_TRUE(found().empty());
}

TEST_F(Leftovers, CopiesGoWithWhatTheyAreOf) {
  const std::string below = "/node/0123456789abcdef/wave/e";
  for (const uint64_t epoch : {1, 2}) {
    std::vector<std::byte> bytes = encode_log_text(encode(part(epoch)));
    for (const std::byte byte : encode_log_sealed(3)) bytes.push_back(byte);
    for (const std::byte byte : encode_log_committed()) bytes.push_back(byte);
    const std::string folder = user_folder("/a") + below + std::to_string(epoch);
    write(folder + "/r0-r1-0.blocks", bytes);
    write(user_folder("/b") + below + std::to_string(epoch) + "/r0-r1-0.chunk", {});
  }
  write_log("/a", part(3), true);
  const size_t all = files_.paths().size();
  remove_stale_copies(files_, {{"/a", 0}, {"/b", 0}});
  EXPECT_EQ(files_.paths().size(), all) << "nothing is known of a store that cannot be read";
  write("/store/wave/e2/r0.manifest");
  EXPECT_EQ(found(), std::vector<CheckpointText>{part(3)});
  remove_stale_copies(files_, {{"/a", 0}, {"/b", 0}});
  EXPECT_FALSE(files_.exists(user_folder("/a") + below + "1/r0-r1-0.blocks"));
  EXPECT_FALSE(files_.exists(user_folder("/b") + below + "1/r0-r1-0.chunk"));
  EXPECT_TRUE(files_.exists(user_folder("/a") + below + "2/r0-r1-0.blocks"));
  EXPECT_TRUE(files_.exists(user_folder("/b") + below + "2/r0-r1-0.chunk"));
  EXPECT_EQ(found(), std::vector<CheckpointText>{part(3)});
}

TEST_F(Leftovers, TakeSpaceOnEachDevice) {
  write_log("/a", part(1), true);
  write_log("/a", part(1, 1), true);
  CheckpointText other = part(2);
  other.store = "/elsewhere";
  write_log("/b", other, true);
  const std::string chunk = user_folder("/b") + "/node/0123456789abcdef/wave/e1/r0-r1-0.chunk";
  write(chunk, std::vector<std::byte>(1000));
  const auto one = encode_log_text(encode(part(1))).size() + encode_log_sealed(3).size();
  const auto of = [&](const std::string& store) {
    return space_on(files_, {{"/a", 0}, {"/b", 0}},
                    [&](const std::string& each) { return each == store; });
  };
  EXPECT_EQ(of("/store"), (std::map<std::string, uint64_t>{{"wave", 2 * one + 1000}}));
  EXPECT_EQ(of("/elsewhere").size(), 1U);
  EXPECT_TRUE(of("/nowhere").empty());
}

TEST_F(Leftovers, ThatCannotBeReadArePassedOver) {
  const std::string folder = user_folder("/a") + "/node/0123456789abcdef/wave/e1/";
  write(folder + "r0-r1-0.blocks", std::vector<std::byte>(100, std::byte{7}));
  write(folder + "something");
  write(user_folder("/a") + "/calibration/x.calibration");
  std::vector<std::byte> hostile = encode_log_text("no text at all");
  for (const std::byte byte : encode_log_sealed(0)) hostile.push_back(byte);
  write(folder + "r1-r1-0.blocks", hostile);
  EXPECT_TRUE(found().empty());
}

}  // namespace
}  // namespace gpusnap::test
