// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/device.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/io/folder_names.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr size_t kLongestWord = 255;

bool is_word_byte(char c) {
  return c > ' ' && c <= '~';
}

std::string word(std::string_view text) {
  std::string made(text.substr(0, kLongestWord));
  std::replace_if(
      made.begin(), made.end(), [](char c) { return !is_word_byte(c); }, '_');
  return made;
}

std::string number_of(const DeviceIdentity& device) {
  return std::to_string(device.major) + ":" + std::to_string(device.minor);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? word(name.data()) : std::string();
}

// As udev names it; where there is no such folder, there is none to be had without being root.
std::string uuid_of(dev_t block_device) {
  FolderNames names("/dev/disk/by-uuid");
  while (const char* name = names.next()) {
    struct stat about {};
    if (::fstatat(names.descriptor(), name, &about, 0) == 0 && S_ISBLK(about.st_mode) &&
        about.st_rdev == block_device) {
      return word(name);
    }
  }
  return {};
}

uint64_t id_of(const struct statfs& system) {
  uint64_t id = 0;
  static_assert(sizeof system.f_fsid == sizeof id);
  std::memcpy(&id, &system.f_fsid, sizeof id);
  return id;
}

std::string read_mountinfo() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Status cannot_identify(const std::string& folder, int error) {
  std::array<char, 128> buffer{};
  const char* reason = strerror_r(error, buffer.data(), buffer.size());
  const bool missing = error == ENOENT || error == ENOTDIR;
  return {missing ? Code::kNotFound : Code::kIo, "cannot tell the device of " + folder + ": " +
                                                     reason +
                                                     (missing ? "; make the folder first" : "")};
}

}  // namespace

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestWord &&
         std::all_of(text.begin(), text.end(), is_word_byte);
}

bool same_device(const DeviceIdentity& a, const DeviceIdentity& b) {
  if (a.host != b.host || a.file_system != b.file_system) return false;
  if (!a.uuid.empty() && !b.uuid.empty()) return a.uuid == b.uuid;
  return a == b;
}

std::string hexadecimal(uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64, value);
  return text.data();
}

std::string device_key(const DeviceIdentity& device) {
  std::string identity = device.host + ' ' + device.file_system + ' ';
  if (device.uuid.empty()) {
    identity += number_of(device) + ' ' + hexadecimal(device.file_system_id) + ' ' + device.source;
  } else {
    identity += device.uuid;
  }
  return hexadecimal(checksum(identity));
}

std::string describe(const DeviceIdentity& device) {
  return (device.source.empty() ? "device " + number_of(device) : device.source) + " (" +
         device.file_system + ") on " + device.host;
}

// Fields of each line: ID, parent, MAJOR:MINOR, root, mount point, options, optional fields, "-",
// TYPE, SOURCE, options of the file system.
void add_mount(std::string_view mountinfo, DeviceIdentity& device) {
  constexpr size_t kNumber = 2;
  const std::string number = number_of(device);
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    if (fields.size() <= kNumber || fields[kNumber] != number) continue;
    const auto dash = std::find(fields.begin() + kNumber, fields.end(), "-");
    if (fields.end() - dash < 3) continue;
    device.file_system = word(dash[1]);
    device.source = word(dash[2]);
    return;
  }
}

Result<DeviceIdentity> identify_device(const std::string& folder) {
  return no_throw("tell a folder's device", [&]() -> Result<DeviceIdentity> {
    struct stat about {};
    struct statfs system {};
    if (::stat(folder.c_str(), &about) < 0 || ::statfs(folder.c_str(), &system) < 0) {
      return cannot_identify(folder, errno);
    }
    DeviceIdentity device;
    device.host = host_name();
    if (device.host.empty()) device.host = "localhost";
    device.major = major(about.st_dev);
    device.minor = minor(about.st_dev);
    device.file_system = "0x" + hexadecimal(static_cast<uint64_t>(system.f_type));
    device.file_system_id = id_of(system);
    add_mount(read_mountinfo(), device);
    device.uuid = uuid_of(about.st_dev);
    return device;
  });
}

}  // namespace gpusnap
