// Which device a folder lies on, so that what was measured on one is not believed of another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tiers/status.h"

namespace gpusnap {

// The strings are words: at most 255 bytes, printable ASCII without spaces. Empty: not known.
struct DeviceIdentity {
  std::string host;
  uint32_t major = 0;  // st_dev
  uint32_t minor = 0;
  std::string file_system;      // its type: "ext4"
  uint64_t file_system_id = 0;  // f_fsid of statfs()
  std::string source;           // what is mounted: "/dev/nvme0n1p2", "tmpfs", "server:/export"
  std::string uuid;             // of the block device's file system
  bool operator==(const DeviceIdentity&) const = default;
};

// Whether `text` is a word that is known.
bool is_word(std::string_view text);

// One host and one file system. Numbers of devices change when a machine starts again, so a UUID
// decides where both have one; else all that is known must be the same.
bool same_device(const DeviceIdentity& a, const DeviceIdentity& b);

// The number as 16 hexadecimal digits.
std::string hexadecimal(uint64_t value);

// 16 hexadecimal digits that devices which are the same share.
std::string device_key(const DeviceIdentity& device);

// For messages: "/dev/nvme0n1p2 (ext4) on node17".
std::string describe(const DeviceIdentity& device);

// The folder must be there.
Result<DeviceIdentity> identify_device(const std::string& folder);

// The type and the source of what `mountinfo`, the text of /proc/self/mountinfo, has mounted under
// that device number go into `device`; nothing where it has none.
void add_mount(std::string_view mountinfo, DeviceIdentity& device);

}  // namespace gpusnap
