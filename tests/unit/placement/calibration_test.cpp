#include "tiers/placement/calibration.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <span>

#include "fault_file_system.h"
#include "tiers/checksum.h"

namespace gpusnap::test {
namespace {

constexpr const char* kFolder = "/home/user/gpusnap";
constexpr int64_t kMeasured = 1790000000;
constexpr int64_t kMonth = 30 * 24 * 60 * 60;

const DeviceIdentity kDisk{"node17",         259,      2, "ext4", 0x8a3f0c55d1e2b794,
                           "/dev/nvme0n1p2", "0b9f-1c"};

Calibration calibration_at(int64_t measured_unix_s) {
  Calibration calibration;
  calibration.device = kDisk;
  calibration.measured_unix_s = measured_unix_s;
  calibration.bytes_per_writer = 64 << 20;
  calibration.memory_bytes_per_second = 9e9;
  for (uint32_t i = 0; i < 16; ++i) {
    calibration.samples.push_back({1 + 12 * i, 700e6 - 20e6 * double(i)});
  }
  return calibration;
}

std::string text_at(int64_t measured_unix_s) {
  return encode(calibration_at(measured_unix_s)).value();
}

// Makes the checksum good again.
std::string sealed(std::string text) {
  text.resize(text.rfind("checksum "));
  char sum[17];
  std::snprintf(sum, sizeof sum, "%016llx", static_cast<unsigned long long>(checksum(text)));
  return text + "checksum " + sum + "\n";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

void expect_refused(const std::string& text, const std::string& message) {
  const auto decoded = decode_calibration(text);
  ASSERT_FALSE(decoded.ok()) << text;
  EXPECT_NE(decoded.status().message().find(message), std::string::npos)
      << decoded.status().message();
}

Result<Calibration> load(FileSystem& files, int64_t now) {
  return load_calibration(files, kFolder, kDisk, now, kMonth);
}

TEST(CalibrationTest, IsReadBack) {
  const std::string text = text_at(kMeasured);
  const auto back = decode_calibration(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back.value(), calibration_at(kMeasured));
  EXPECT_TRUE(ThroughputModel::fit(back->samples).ok());

  Calibration bare = calibration_at(0);
  bare.device.source.clear();
  bare.device.uuid.clear();
  EXPECT_EQ(decode_calibration(encode(bare).value()).value(), bare);
}

TEST(CalibrationTest, IsWrittenAsTheHeaderSays) {
  const std::string text = text_at(kMeasured);
  EXPECT_TRUE(
      text.starts_with("gpusnap calibration 2\nhost node17\ndevice 259:2\ntype ext4\n"
                       "id 8a3f0c55d1e2b794\nsource /dev/nvme0n1p2\nuuid 0b9f-1c\n"
                       "measured 1790000000\nbytes 67108864\nmemory 9000000000\n"
                       "sample 1 700000000\n"
                       "sample 13 680000000\n"));
  EXPECT_EQ(sealed(text), text);
}

TEST(CalibrationTest, NoBytesButItsOwnAreTaken) {
  const std::string text = text_at(kMeasured);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(decode_calibration(text.substr(0, size)).ok()) << size;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char flip : {'\x01', '\x10', '\x80'}) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ flip);
      EXPECT_FALSE(decode_calibration(other).ok()) << at;
    }
  }
  expect_refused(text + "\n", "goes on behind");
  expect_refused(text + text, "goes on behind");
}

TEST(CalibrationTest, AGoodChecksumAloneIsNotBelieved) {
  const std::string text = text_at(kMeasured);
  const std::pair<const char*, const char*> changes[] = {
      {"host node17", "host "},
      {"host node17", "host node 17"},
      {"host node17", "host no\tde"},
      {"host node17\n", ""},
      {"host node17\n", "host node17\nhost node17\n"},
      {"259:2", "259"},
      {"259:2", "259:-2"},
      {"259:2", "4294967296:2"},
      {"259:2", "2:4294967296"},
      {"id 8a3f0c55d1e2b794", "id 8A3F0C55D1E2B794"},
      {"id 8a3f0c55d1e2b794", "id 8a3f"},
      {"measured 1790000000", "measured -1"},
      {"measured 1790000000", "measured 01"},
      {"bytes 67108864", "bytes 99999999999999999999"},
      {"memory 9000000000", "memory 0"},
      {"memory 9000000000", "memory 9e9"},
      {"memory 9000000000\n", ""},
      {"sample 1 ", "sample 2 "},
      {"sample 1 ", "sample  1 "},
      {"sample 1 700000000", "sample 1"},
      {"sample 1 700000000", "sample 1 0"},
      {"sample 1 700000000", "sample 1 7e8"},
      {"sample 1 700000000", "sample 1 999999999999999999"},
      {"sample 13 680000000\n", ""},
      {"type ext4", "kind ext4"},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_FALSE(decode_calibration(sealed(with(text, from, to))).ok()) << to;
  }
  expect_refused(sealed(with(text, "type ext4", "type ext 4")), "its line 4 is not as it must be");
  expect_refused(sealed(with(text, "sample 13", "sample 14")), "as far from the one before");
  expect_refused("", "not a gpusnap calibration");
  expect_refused(std::string(300 << 10, 'x'), "longer");
  EXPECT_EQ(decode_calibration(with(text, "calibration 2", "calibration 3")).status().code(),
            Code::kNewer);
  const Status earlier = decode_calibration(with(text, "calibration 2", "calibration 1")).status();
  EXPECT_EQ(earlier.code(), Code::kInvalid);
  EXPECT_NE(earlier.message().find("run gpusnap calibrate"), std::string::npos);
  std::string many = "gpusnap calibration 2\n";
  for (int i = 0; i < 10000; ++i) many += "sample 1 1\n";
  expect_refused(many, "line 2 ");
}

TEST(CalibrationTest, NothingIsWrittenThatCannotBeRead) {
  Calibration wrong = calibration_at(kMeasured);
  const auto refused = [&wrong] {
    FaultFileSystem files;
    const Status saved = save_calibration(files, kFolder, wrong);
    EXPECT_TRUE(files.paths().empty());
    const Calibration good = calibration_at(kMeasured);
    wrong = good;
    return saved.code() == Code::kInvalid;
  };
  wrong.device.host = "two words";
  EXPECT_TRUE(refused());
  wrong.measured_unix_s = -1;
  EXPECT_TRUE(refused());
  wrong.samples.clear();
  EXPECT_TRUE(refused());
  wrong.samples[3].bytes_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(refused());
}

TEST(CalibrationTest, TheNewestReplacesThoseBefore) {
  FaultFileSystem files;
  EXPECT_EQ(load(files, kMeasured).status().code(), Code::kNotFound);
  for (int64_t i = 0; i < 12; ++i) {
    const Status saved = save_calibration(files, kFolder, calibration_at(kMeasured + i));
    ASSERT_TRUE(saved.ok()) << saved.message();
    const auto loaded = load(files, kMeasured + i);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(loaded->measured_unix_s, kMeasured + i);
  }
  Calibration other = calibration_at(kMeasured);
  other.device.uuid = "another";
  ASSERT_TRUE(save_calibration(files, kFolder, other).ok());
  EXPECT_EQ(load(files, kMeasured).value().measured_unix_s, kMeasured + 11);
  size_t calibrations = 0;
  for (const std::string& path : files.paths()) {
    calibrations += path.find(".calibration") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(calibrations, 2U);
}

TEST(CalibrationTest, StaleOrForeignOnesAreRefused) {
  FaultFileSystem files;
  ASSERT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured)).ok());
  EXPECT_TRUE(load(files, kMeasured + kMonth).ok());
  EXPECT_TRUE(load(files, kMeasured - 60).ok());
  const Status stale = load(files, kMeasured + kMonth + 1).status();
  EXPECT_EQ(stale.code(), Code::kInvalid);
  EXPECT_NE(stale.message().find("30 days old"), std::string::npos) << stale.message();
  EXPECT_NE(stale.message().find("run gpusnap calibrate"), std::string::npos);
  const Status future = load(files, kMeasured - 7200).status();
  EXPECT_EQ(future.code(), Code::kInvalid);
  EXPECT_NE(future.message().find("future"), std::string::npos) << future.message();

  // That of another host under this one's name.
  Calibration foreign = calibration_at(kMeasured);
  foreign.device.host = "node18";
  const std::string text = encode(foreign).value();
  const auto bytes = std::as_bytes(std::span(text));
  const std::string path = std::string(kFolder) + "/" + calibration_name(kDisk, 5);
  files.put(path, {bytes.begin(), bytes.end()});
  const Status refused = load(files, kMeasured).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_EQ(refused.message(), "calibration " + path +
                                   " cannot be used: it is of /dev/nvme0n1p2 (ext4) on node18, "
                                   "not of /dev/nvme0n1p2 (ext4) on node17; run gpusnap calibrate");
}

TEST(CalibrationTest, ADamagedOneIsSaidToBe) {
  FaultFileSystem files;
  ASSERT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured)).ok());
  const std::string path = std::string(kFolder) + "/" + calibration_name(kDisk, 1);
  auto bytes = files.content(path);
  bytes[100] ^= std::byte{1};
  files.put(path, bytes);
  const Status damaged = load(files, kMeasured).status();
  EXPECT_EQ(damaged.code(), Code::kDamaged);
  EXPECT_NE(damaged.message().find(path), std::string::npos);
  EXPECT_NE(damaged.message().find("run gpusnap calibrate"), std::string::npos);
  // And it is replaced.
  ASSERT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured)).ok());
  EXPECT_TRUE(load(files, kMeasured).ok());
}

// The machine stops at each operation of a replacement, and forgets more or less.
TEST(CalibrationTest, OneIsThereWhateverDiesWhenever) {
  for (const Survival survival : kAllSurvivals) {
    bool finished = false;
    for (size_t operation = 0; !finished; ++operation) {
      FaultFileSystem files;
      ASSERT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured)).ok());
      files.inject({operation, std::nullopt});
      finished = save_calibration(files, kFolder, calibration_at(kMeasured + 1)).ok();
      files.crash(survival);
      const auto loaded = load(files, kMeasured);
      ASSERT_TRUE(loaded.ok()) << loaded.status().message() << " at " << operation;
      EXPECT_TRUE(!finished || loaded->measured_unix_s == kMeasured + 1);
      // The next one finds nothing in its way, and leaves nothing behind but itself.
      ASSERT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured + 2)).ok());
      EXPECT_EQ(load(files, kMeasured).value().measured_unix_s, kMeasured + 2);
      EXPECT_LE(files.paths().size(), 2U);  // and the lock's file
      ASSERT_LT(operation, 50U);
    }
  }
}

TEST(CalibrationTest, FailuresAreReported) {
  bool finished = false;
  for (size_t operation = 0; !finished; ++operation) {
    FaultFileSystem files;
    files.inject({operation, Status(Code::kNoSpace, "disk full")});
    const Status saved = save_calibration(files, kFolder, calibration_at(kMeasured));
    finished = saved.ok();
    EXPECT_EQ(saved.message(), finished ? "" : "disk full");
    files.heal();
    EXPECT_TRUE(save_calibration(files, kFolder, calibration_at(kMeasured)).ok());
    EXPECT_TRUE(load(files, kMeasured).ok());
    ASSERT_LT(operation, 50U);
  }
}

TEST(CalibrationTest, TwoAtATimeAreKeptApart) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder(kFolder).ok());
  const auto lock = files.lock(std::string(kFolder) + "/calibration.lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(save_calibration(files, kFolder, calibration_at(kMeasured)).code(), Code::kBusy);
}

}  // namespace
}  // namespace gpusnap::test
