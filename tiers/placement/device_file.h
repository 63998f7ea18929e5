// SPDX-License-Identifier: Apache-2.0
//
// Files about a device, kept on the device itself. Each is text with one fact in each line, names
// the device, and ends with a checksum (calibration.h has an example). The newest file of a kind
// counts. No file is overwritten, so that after a crash at any instruction one is there and whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tiers/file_system.h"
#include "tiers/names.h"
#include "tiers/placement/device.h"
#include "tiers/status.h"

namespace gpusnap {

inline constexpr uint64_t kMostDeviceFileBytes = 256 << 10;

// The kind of file: "calibration" in "gpusnap calibration 2" and in "<key>-7.calibration".
struct DeviceFileKind {
  std::string_view name;
  uint64_t version = 1;
  // Tells the user what to do if an earlier version is refused.
  std::string_view remedy;
};

// Returns the lines that identify the device.
std::string lines_of(const DeviceIdentity& device);
// Adds the title before the lines and the checksum after them.
std::string seal(const DeviceFileKind& kind, const std::string& lines);

// Parses lines one after the other. After the first invalid line all further ones are invalid.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}

  // Returns the text after `name` and a space in the next line.
  std::string_view value(std::string_view name) {
    ++line_;
    const size_t end = left_.find('\n');
    const std::string_view line = left_.substr(0, end);
    if (end == std::string_view::npos || line.size() <= name.size() || !line.starts_with(name) ||
        line[name.size()] != ' ') {
      fail();
      return {};
    }
    left_.remove_prefix(end + 1);
    return line.substr(name.size() + 1);
  }

  std::string word(std::string_view name) {
    const std::string_view text = value(name);
    if (!is_word(text)) fail();
    return std::string(text);
  }

  std::string word_or_unknown(std::string_view name);

  uint64_t number(std::string_view name) { return checked(parse_number(value(name))); }

  // Returns two numbers that are separated by `between`.
  std::pair<uint64_t, uint64_t> numbers(std::string_view name, char between, uint64_t most_first) {
    const std::string_view text = value(name);
    const size_t at = std::min(text.find(between), text.size());
    const uint64_t first = checked(parse_number(text.substr(0, at)));
    const uint64_t second = checked(parse_number(text.substr(std::min(at + 1, text.size()))));
    if (first > most_first) fail();
    return {first, second};
  }

  uint64_t id(std::string_view name) { return checked(parse_id(value(name))); }

  bool next_is(std::string_view name) const { return good() && left_.starts_with(name); }
  bool good() const { return !wrong_line_; }
  size_t wrong_line() const { return wrong_line_.value_or(0); }
  std::string_view left() const { return left_; }
  void fail() {
    if (!wrong_line_) wrong_line_ = line_;
  }

 private:
  static std::optional<uint64_t> parse_id(std::string_view text);
  uint64_t checked(std::optional<uint64_t> value) {
    if (!value) fail();
    return value.value_or(0);
  }

  std::string_view left_;
  size_t line_ = 1;  // the title
  std::optional<size_t> wrong_line_;
};

DeviceIdentity take_device(Lines& lines);
// Checks that the checksum's line comes next, is right, and is the last one. Otherwise returns
// kDamaged; the message names no file. `text`: the whole file.
Status check_end(std::string_view text, Lines& lines);
// Returns the lines after the title of a file of that kind. Returns kDamaged, kNewer, or kInvalid
// if it is of an earlier version.
Result<std::string_view> take_title(std::string_view text, const DeviceFileKind& kind);

std::string device_file_name(const DeviceIdentity& device, uint64_t number,
                             const DeviceFileKind& kind);
// Writes the device's newest file of that kind to `folder`, which it makes if necessary, and then
// removes earlier ones. Returns kBusy while another process does the same.
Status save_device_file(FileSystem& files, const std::string& folder, const DeviceIdentity& device,
                        const DeviceFileKind& kind, const std::string& text);
struct DeviceFile {
  std::string path;
  Result<std::string> text;
};
// Returns the newest file, if any.
Result<std::optional<DeviceFile>> newest_device_file(FileSystem& files, const std::string& folder,
                                                     const DeviceIdentity& device,
                                                     const DeviceFileKind& kind);
// Returns kInvalid if the file is of another device, dated in the future, or too old.
Status check_device_use(const DeviceIdentity& of, int64_t measured_unix_s,
                        const DeviceIdentity& device, int64_t now_unix_s, int64_t most_age_s,
                        std::string_view remedy);

}  // namespace gpusnap
