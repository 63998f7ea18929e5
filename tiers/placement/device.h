// SPDX-License-Identifier: Apache-2.0
// Identifies the device that a folder lies on, so that measurements of one device are not used for
// another.
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

// Returns whether `text` is a known word: not empty.
bool is_word(std::string_view text);

// Returns whether both are the same file system on the same host. If both have a UUID, it decides,
// since device numbers change when a machine restarts; otherwise all known fields must be equal.
bool same_device(const DeviceIdentity& a, const DeviceIdentity& b);

// Returns the number as 16 hexadecimal digits.
std::string hexadecimal(uint64_t value);

// Returns 16 hexadecimal digits that are equal for identities of the same device.
std::string device_key(const DeviceIdentity& device);

// For messages: "/dev/nvme0n1p2 (ext4) on node17".
std::string describe(const DeviceIdentity& device);

// The folder must be there.
Result<DeviceIdentity> identify_device(const std::string& folder);

// Sets the type and the source of `device` to those that `mountinfo`, the text of
// /proc/self/mountinfo, has for its device number. Does nothing if it has none.
void add_mount(std::string_view mountinfo, DeviceIdentity& device);

}  // namespace gpusnap
