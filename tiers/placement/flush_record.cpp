// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/flush_record.h"

#include <cmath>
#include <optional>

#include "tiers/no_throw.h"
#include "tiers/placement/device_file.h"
#include "tiers/placement/throughput_model.h"
#include "tiers/placement/tier_settings.h"

namespace gpusnap {

namespace {

constexpr DeviceFileKind kFlushRecord = {"flushes", 2, ""};

bool is_rate(double rate) {
  return rate >= 1 && rate <= kMostBytesPerSecond;
}

}  // namespace

Result<std::string> encode(const FlushRecord& record) {
  if (!is_rate(record.bytes_per_second)) return Status(Code::kInvalid, "it is no rate of flushes");
  if (record.flushes > kMostFlushes) return Status(Code::kInvalid, "they are too many flushes");
  std::string text = seal(kFlushRecord, lines_of(record.device) + "measured " +
                                            std::to_string(record.measured_unix_s) + "\nrate " +
                                            std::to_string(std::llround(record.bytes_per_second)) +
                                            "\nbest " + std::to_string(record.flushes) + "\n");
  const Result<FlushRecord> back = decode_flush_record(text);
  if (!back.ok()) return Status(Code::kInvalid, back.status().message());
  return text;
}

Result<FlushRecord> decode_flush_record(std::string_view text) {
  const Result<std::string_view> rest = take_title(text, kFlushRecord);
  if (!rest.ok()) return rest.status();
  Lines lines(rest.value());
  FlushRecord record;
  record.device = take_device(lines);
  record.measured_unix_s = static_cast<int64_t>(lines.number("measured"));
  record.bytes_per_second = static_cast<double>(lines.number("rate"));
  if (!is_rate(record.bytes_per_second)) lines.fail();
  const uint64_t flushes = lines.number("best");
  if (flushes > kMostFlushes) lines.fail();
  record.flushes = static_cast<uint32_t>(flushes);
  if (Status whole = check_end(text, lines); !whole.ok()) return whole;
  return record;
}

Status save_flush_record(FileSystem& files, const std::string& folder, const FlushRecord& record) {
  return no_throw("keep the speed of flushes", [&]() -> Status {
    const Result<std::string> text = encode(record);
    if (!text.ok()) return text.status();
    return save_device_file(files, folder, record.device, kFlushRecord, text.value());
  });
}

Result<FlushRecord> load_flush_record(FileSystem& files, const std::string& folder,
                                      const DeviceIdentity& device, int64_t now_unix_s,
                                      int64_t most_age_s) {
  return no_throw("read the speed of flushes", [&]() -> Result<FlushRecord> {
    const auto newest = newest_device_file(files, folder, device, kFlushRecord);
    if (!newest.ok()) return newest.status();
    if (!newest.value()) return Status(Code::kNotFound, "no speed of flushes is kept in " + folder);
    const DeviceFile& file = *newest.value();
    const auto unusable = [&file](const Status& why) {
      return Status(why.code(), file.path + " cannot be used: " + why.message());
    };
    if (!file.text.ok()) return unusable(file.text.status());
    Result<FlushRecord> read = decode_flush_record(file.text.value());
    if (!read.ok()) return unusable(read.status());
    const Status fit =
        check_device_use(read->device, read->measured_unix_s, device, now_unix_s, most_age_s, "");
    if (!fit.ok()) return unusable(fit);
    return read;
  });
}

}  // namespace gpusnap
