// Measurements of a device, as a file.
//
// A calibration is text, one fact a line, in this order and each line ended by a newline:
//
//   gpusnap calibration 2
//   host node17
//   device 259:2                     st_dev, as major:minor
//   type ext4
//   id 8a3f0c55d1e2b794              f_fsid, 16 hexadecimal digits
//   source /dev/nvme0n1p2            "-" where it is not known
//   uuid 0b9f...                     likewise
//   measured 1790000000              seconds since 1970
//   bytes 67108864                   that each writer wrote, at most
//   memory 9876543210                bytes a second that one writer copies within memory
//   sample 1 702000000               writers, bytes a second of all of them together; a line each,
//   sample 11 1204000000             writers equally spaced
//   checksum 5d1f0c6a77e3b218        of all bytes before this line
//
// There is one way to write a calibration; everything else is refused. Calibrations of version 1
// were measured in another way.
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
  double memory_bytes_per_second = 0;     // of each writer; whole bytes, as the next
  std::vector<ThroughputSample> samples;  // whole bytes a second
  bool operator==(const Calibration&) const = default;
};

// kInvalid, without a name, where decode_calibration() would not take it back.
Result<std::string> encode(const Calibration& calibration);

// Takes text from anywhere. Messages say what is wrong, without a path. The result fits a
// ThroughputModel.
Result<Calibration> decode_calibration(std::string_view text);

// The file of a device's n-th calibration: "<device's key>-<n>.calibration".
std::string calibration_name(const DeviceIdentity& device, uint64_t number);

// Where the calibrations of the device that `folder` lies on are kept: on the device itself, for
// this user alone.
std::string calibration_folder(const std::string& folder);
// Devices age, and are filled.
inline constexpr int64_t kMostCalibrationAge_s = int64_t{90} * 24 * 3600;

// Writes it as the device's newest into `folder`, which is made if need be, and then removes those
// before it. A crash at any instruction leaves one of them there and whole. kBusy while another
// process does the same.
Status save_calibration(FileSystem& files, const std::string& folder,
                        const Calibration& calibration);

// The device's newest. kNotFound where there is none; kInvalid where it was measured on another
// device or host, longer ago than `most_age_s`, or after `now_unix_s`; kDamaged, kNewer. Messages
// name the device or the file, and say what to do.
Result<Calibration> load_calibration(FileSystem& files, const std::string& folder,
                                     const DeviceIdentity& device, int64_t now_unix_s,
                                     int64_t most_age_s);

}  // namespace gpusnap
