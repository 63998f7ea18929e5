// SPDX-License-Identifier: Apache-2.0
//
// Files about a device, kept on the device itself: text, one fact a line, with the device that they
// are about and a checksum at the end (calibration.h has an example). The newest of a kind counts;
// nothing is overwritten, so one of them is there and whole, whatever dies at whatever instruction.
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
  // Tells the user what to do where an earlier version is not taken any more.
  std::string_view remedy;
};

// The lines that say which device it is.
std::string lines_of(const DeviceIdentity& device);
// With the title before and the checksum behind.
std::string seal(const DeviceFileKind& kind, const std::string& lines);

// Takes the lines one after the other. Once one was not as it must be, so are all that follow.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}

  // The text after `name` and a space on the next line.
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

  // Two numbers with `between` between them.
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
  size_t line_ = 1;  // the title's
  std::optional<size_t> wrong_line_;
};

DeviceIdentity take_device(Lines& lines);
// The checksum's line, and nothing behind it: kDamaged, with what is wrong and no name. `text`: all
// of it.
Status check_end(std::string_view text, Lines& lines);
// The lines after the first one of a file of that kind: kDamaged, kNewer, kInvalid where it is
// of an earlier version.
Result<std::string_view> take_title(std::string_view text, const DeviceFileKind& kind);

std::string device_file_name(const DeviceIdentity& device, uint64_t number,
                             const DeviceFileKind& kind);
// Writes it as the device's newest of its kind into `folder`, which is made if need be, and then
// removes those before it. kBusy while another process does the same.
Status save_device_file(FileSystem& files, const std::string& folder, const DeviceIdentity& device,
                        const DeviceFileKind& kind, const std::string& text);
struct DeviceFile {
  std::string path;
  Result<std::string> text;
};
// The newest; nothing where there is none.
Result<std::optional<DeviceFile>> newest_device_file(FileSystem& files, const std::string& folder,
                                                     const DeviceIdentity& device,
                                                     const DeviceFileKind& kind);
// kInvalid where it is of another device, dated in the future, or older than it may be.
Status check_device_use(const DeviceIdentity& of, int64_t measured_unix_s,
                        const DeviceIdentity& device, int64_t now_unix_s, int64_t most_age_s,
                        std::string_view remedy);

}  // namespace gpusnap
