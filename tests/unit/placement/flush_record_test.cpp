// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/flush_record.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>

#include "fault_file_system.h"
#include "tiers/placement/device_file.h"

namespace gpusnap::test {
namespace flush_record {

constexpr const char* kFolder = "/ssd/calibration";
constexpr int64_t kThen = 1790000000;
constexpr int64_t kMonth = 30 * 24 * 60 * 60;

const DeviceIdentity kDisk{"node17",         259,      2, "ext4", 0x8a3f0c55d1e2b794,
                           "/dev/nvme0n1p2", "0b9f-1c"};

FlushRecord record_of(double rate) {
  return {kDisk, kThen, rate, 16};
}

Result<FlushRecord> load(FileSystem& files, int64_t now = kThen) {
  return load_flush_record(files, kFolder, kDisk, now, kMonth);
}

TEST(FlushRecord, IsReadBack) {
  const std::string text = encode(record_of(1.2e9)).value();
  EXPECT_TRUE(text.starts_with("gpusnap flushes 2\nhost node17\ndevice 259:2\n")) << text;
  EXPECT_NE(text.find("\nmeasured 1790000000\nrate 1200000000\nbest 16\nchecksum "),
            std::string::npos);
  EXPECT_EQ(decode_flush_record(text).value(), record_of(1.2e9));
}

TEST(FlushRecord, NoBytesButItsOwnAreTaken) {
  const std::string text = encode(record_of(1.2e9)).value();
  for (size_t at = 0; at < text.size(); ++at) {
    EXPECT_FALSE(decode_flush_record(text.substr(0, at)).ok()) << at;
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_FALSE(decode_flush_record(other).ok()) << at;
  }
  EXPECT_FALSE(decode_flush_record(text + text).ok());
}

TEST(FlushRecord, OnlyARateIsKept) {
  for (const double wrong : {0.0, -1.0, 0.4, 2e15, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(encode(record_of(wrong)).status().code(), Code::kInvalid) << wrong;
  }
}

TEST(FlushRecord, NoMoreFlushesAreKeptThanThereMayBe) {
  FlushRecord record = record_of(1e9);
  for (const uint32_t flushes : {0U, 1U, kMostFlushes}) {
    record.flushes = flushes;
    EXPECT_EQ(decode_flush_record(encode(record).value()).value(), record);
  }
  record.flushes = kMostFlushes + 1;
  EXPECT_EQ(encode(record).status().code(), Code::kInvalid);
}

TEST(FlushRecord, TheNewestCounts) {
  FaultFileSystem files;
  EXPECT_EQ(load(files).status().code(), Code::kNotFound);
  for (const double rate : {3e9, 1e9, 2e9}) {
    ASSERT_TRUE(save_flush_record(files, kFolder, record_of(rate)).ok());
    EXPECT_EQ(load(files).value().bytes_per_second, rate);
  }
  EXPECT_EQ(load(files, kThen + kMonth + 1).status().code(), Code::kInvalid);
  EXPECT_EQ(load(files, kThen - kMonth).status().code(), Code::kInvalid);
}

// Copied there with the rest of a device's files, say.
TEST(FlushRecord, ThatOfAnotherDeviceIsNot) {
  FaultFileSystem files;
  FlushRecord foreign = record_of(1e9);
  foreign.device.host = "node18";
  const std::string text = encode(foreign).value();
  const auto bytes = std::as_bytes(std::span(text));
  files.put(std::string(kFolder) + "/" + device_file_name(kDisk, 1, {"flushes", 1, ""}),
            {bytes.begin(), bytes.end()});
  const Status refused = load(files).status();
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("node18"), std::string::npos) << refused.message();
}

}  // namespace flush_record
}  // namespace gpusnap::test
