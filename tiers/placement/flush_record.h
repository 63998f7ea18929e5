// SPDX-License-Identifier: Apache-2.0
//
// The average rate of flushes to the external store when a backend ended, and how many at the same
// time were best, kept beside the calibration of a local device for the next one, which would have
// to guess (AvgFlushBW in the VeloC paper, which begins it with nothing).
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
  uint32_t flushes = 0;         // that were best, at most kMostFlushes; 0: not known
  bool operator==(const FlushRecord&) const = default;
};

// kInvalid, without a name, where decode_flush_record() would not take it back.
Result<std::string> encode(const FlushRecord& record);
// Takes text from anywhere. Messages say what is wrong, without a path.
Result<FlushRecord> decode_flush_record(std::string_view text);

// As with calibrations (save_calibration(), load_calibration()), in the same folder.
Status save_flush_record(FileSystem& files, const std::string& folder, const FlushRecord& record);
Result<FlushRecord> load_flush_record(FileSystem& files, const std::string& folder,
                                      const DeviceIdentity& device, int64_t now_unix_s,
                                      int64_t most_age_s);

}  // namespace gpusnap
