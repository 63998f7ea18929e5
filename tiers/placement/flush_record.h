// SPDX-License-Identifier: Apache-2.0
//
// The average rate of flushes to the external store when a backend ended, and the best number of
// concurrent flushes. The record is kept beside the calibration of a local device for the next
// backend, which would otherwise have to guess (AvgFlushBW in the VeloC paper starts without a
// value).
//
//   gpusnap flushes 2
//   host node17                      and so on: the device, as in calibration.h
//   measured 1790000000              seconds since 1970
//   rate 1203456789                  bytes a second
//   best 16                          flushes at the same time; 0: not known
//   checksum 5d1f0c6a77e3b218
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tiers/file_system.h"
#include "tiers/placement/device.h"
#include "tiers/status.h"

namespace gpusnap {

struct FlushRecord {
  DeviceIdentity device;  // that it is kept on
  int64_t measured_unix_s = 0;
  double bytes_per_second = 0;  // whole bytes
  uint32_t flushes = 0;         // the best number, at most kMostFlushes; 0: not known
  bool operator==(const FlushRecord&) const = default;
};

// Returns kInvalid, without a name in the message, if decode_flush_record() would refuse the
// result.
Result<std::string> encode(const FlushRecord& record);
// Takes arbitrary text. Messages say what is wrong, without a path.
Result<FlushRecord> decode_flush_record(std::string_view text);

// As save_calibration() and load_calibration(), in the same folder.
Status save_flush_record(FileSystem& files, const std::string& folder, const FlushRecord& record);
Result<FlushRecord> load_flush_record(FileSystem& files, const std::string& folder,
                                      const DeviceIdentity& device, int64_t now_unix_s,
                                      int64_t most_age_s);

}  // namespace gpusnap
