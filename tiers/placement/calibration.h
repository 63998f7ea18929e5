// SPDX-License-Identifier: Apache-2.0
// Measurements of a device, and their file.
//
// The file is text with one fact in each line, in this order; each line ends with a newline:
//
//   gpusnap calibration 2
//   host node17
//   device 259:2                     st_dev, as major:minor
//   type ext4
//   id 8a3f0c55d1e2b794              f_fsid, 16 hexadecimal digits
//   source /dev/nvme0n1p2            "-": not known
//   uuid 0b9f...                     "-": not known
//   measured 1790000000              seconds since 1970
//   bytes 67108864                   the most bytes that each writer wrote
//   memory 9876543210                bytes per second of one writer that copies within memory
//   sample 1 702000000               writers, and bytes per second of all of them together; one
//   sample 11 1204000000             line for each sample, writers equally spaced
//   checksum 5d1f0c6a77e3b218        of all bytes before this line
//
// Each calibration has exactly one form; everything else is refused. Calibrations of version 1 were
// measured in another way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/placement/device.h"
#include "tiers/placement/throughput_model.h"
#include "tiers/status.h"

namespace gpusnap {

struct Calibration {
  DeviceIdentity device;
  int64_t measured_unix_s = 0;
  uint64_t bytes_per_writer = 0;
  double memory_bytes_per_second = 0;     // of each writer; a whole number
  std::vector<ThroughputSample> samples;  // whole bytes per second
  bool operator==(const Calibration&) const = default;
};

// Returns kInvalid, without a name in the message, if decode_calibration() would refuse the result.
Result<std::string> encode(const Calibration& calibration);

// Takes arbitrary text. Messages say what is wrong, without a path. The result fits a
// ThroughputModel.
Result<Calibration> decode_calibration(std::string_view text);

// Returns the file name of a device's n-th calibration: "<device's key>-<n>.calibration".
std::string calibration_name(const DeviceIdentity& device, uint64_t number);

// Returns the folder with the calibrations of the device that `folder` lies on. It is on the device
// itself, for this user alone.
std::string calibration_folder(const std::string& folder);
// Devices change their speed with age and with their filling.
inline constexpr int64_t kMostCalibrationAge_s = int64_t{90} * 24 * 3600;

// Writes the device's newest calibration to `folder`, which it makes if necessary, and then removes
// earlier ones. After a crash at any instruction one of them is there and whole. Returns kBusy
// while another process does the same.
Status save_calibration(FileSystem& files, const std::string& folder,
                        const Calibration& calibration);

// Returns the device's newest calibration. Returns kNotFound if there is none; kInvalid if it was
// measured on another device or host, longer ago than `most_age_s`, or after `now_unix_s`;
// kDamaged; kNewer. Messages name the device or the file, and say what to do.
Result<Calibration> load_calibration(FileSystem& files, const std::string& folder,
                                     const DeviceIdentity& device, int64_t now_unix_s,
                                     int64_t most_age_s);

}  // namespace gpusnap
