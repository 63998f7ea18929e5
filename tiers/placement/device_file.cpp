// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/device_file.h"

#include <charconv>
#include <memory>
#include <span>
#include <vector>

#include "tiers/checksum.h"

namespace gpusnap {

namespace {

constexpr std::string_view kUnknown = "-";
constexpr std::string_view kTemporary = ".tmp";
// Clocks of machines that share a folder differ.
constexpr int64_t kMostAheadSeconds = 3600;

std::string known(const std::string& word) {
  return word.empty() ? std::string(kUnknown) : word;
}

std::string title_of(const DeviceFileKind& kind) {
  return "gpusnap " + std::string(kind.name) + " ";
}

}  // namespace

std::string lines_of(const DeviceIdentity& device) {
  return "host " + device.host + "\ndevice " + std::to_string(device.major) + ":" +
         std::to_string(device.minor) + "\ntype " + device.file_system + "\nid " +
         hexadecimal(device.file_system_id) + "\nsource " + known(device.source) + "\nuuid " +
         known(device.uuid) + "\n";
}

std::string seal(const DeviceFileKind& kind, const std::string& lines) {
  const std::string text = title_of(kind) + std::to_string(kind.version) + "\n" + lines;
  return text + "checksum " + hexadecimal(checksum(text)) + "\n";
}

std::string Lines::word_or_unknown(std::string_view name) {
  std::string text = word(name);
  return text == kUnknown ? std::string() : text;
}

std::optional<uint64_t> Lines::parse_id(std::string_view text) {
  uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  if (end != text.data() + text.size() || hexadecimal(value) != text) return std::nullopt;
  return value;
}

DeviceIdentity take_device(Lines& lines) {
  DeviceIdentity device;
  device.host = lines.word("host");
  const auto [major, minor] = lines.numbers("device", ':', UINT32_MAX);
  if (minor > UINT32_MAX) lines.fail();
  device.major = static_cast<uint32_t>(major);
  device.minor = static_cast<uint32_t>(minor);
  device.file_system = lines.word("type");
  device.file_system_id = lines.id("id");
  device.source = lines.word_or_unknown("source");
  device.uuid = lines.word_or_unknown("uuid");
  return device;
}

Status check_end(std::string_view text, Lines& lines) {
  const std::string_view sealed = text.substr(0, text.size() - lines.left().size());
  const uint64_t sum = lines.id("checksum");
  if (!lines.good()) {
    return damaged("its line " + std::to_string(lines.wrong_line()) + " is not as it must be");
  }
  if (!lines.left().empty()) return damaged("it goes on behind its checksum");
  if (sum != checksum(sealed)) return damaged("its checksum is wrong");
  return {};
}

Result<std::string_view> take_title(std::string_view text, const DeviceFileKind& kind) {
  if (text.size() > kMostDeviceFileBytes) return damaged("it is longer than it can be");
  const size_t end = text.find('\n');
  const std::string_view title = text.substr(0, end);
  const std::string begin = title_of(kind);
  if (end == std::string_view::npos || !title.starts_with(begin)) {
    return damaged("it is not a " + begin.substr(0, begin.size() - 1));
  }
  const std::optional<uint64_t> version = parse_number(title.substr(begin.size()));
  if (!version || *version == 0) return damaged("its first line has no version");
  if (*version > kind.version) {
    return Status(Code::kNewer, "it has format version " + std::to_string(*version) +
                                    " and this gpusnap knows up to " +
                                    std::to_string(kind.version) + "; use a later gpusnap");
  }
  if (*version < kind.version) {
    return Status(Code::kInvalid, "it was measured by an earlier gpusnap, in another way" +
                                      std::string(kind.remedy));
  }
  return text.substr(end + 1);
}

std::string device_file_name(const DeviceIdentity& device, uint64_t number,
                             const DeviceFileKind& kind) {
  return device_key(device) + "-" + std::to_string(number) + "." + std::string(kind.name);
}

namespace {

// The number of a file of the device, whole or temporary, if it is one.
std::optional<uint64_t> number_in(std::string_view name, const std::string& key,
                                  std::string_view suffix) {
  if (name.size() <= key.size() + 1 + suffix.size() || !name.starts_with(key + "-") ||
      !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name.remove_prefix(key.size() + 1);
  name.remove_suffix(suffix.size());
  return parse_number(name);
}

Status write_whole(FileSystem& files, const std::string& path, const std::string& text) {
  const Result<std::unique_ptr<WritableFile>> file = files.create(path);
  if (!file.ok()) return file.status();
  if (Status written = file.value()->append(std::as_bytes(std::span(text))); !written.ok()) {
    return written;
  }
  return file.value()->sync();
}

// Under the folder's lock. Nothing is ever overwritten: a later number replaces an earlier one.
Status replace(FileSystem& files, const std::string& folder, const DeviceIdentity& device,
               const DeviceFileKind& kind, const std::string& text) {
  const Result<std::vector<FolderEntry>> entries = files.entries(folder);
  if (!entries.ok()) return entries.status();
  const std::string key = device_key(device);
  const std::string suffix = "." + std::string(kind.name);
  uint64_t last = 0;
  std::vector<std::string> before;
  for (const FolderEntry& entry : entries.value()) {
    const std::string path = folder + "/" + entry.name;
    if (const auto number = number_in(entry.name, key, suffix)) {
      last = std::max(last, *number);
      before.push_back(path);
    } else if (number_in(entry.name, key, suffix + std::string(kTemporary))) {
      if (Status removed = files.remove(path); !removed.ok()) return removed;
    }
  }
  const std::string path = folder + "/" + device_file_name(device, last + 1, kind);
  const std::string temporary = path + std::string(kTemporary);
  if (Status written = write_whole(files, temporary, text); !written.ok()) return written;
  if (Status renamed = files.rename(temporary, path); !renamed.ok()) return renamed;
  if (Status synced = files.sync_folder(folder); !synced.ok()) return synced;
  for (const std::string& old : before) {
    if (Status removed = files.remove(old); !removed.ok()) return removed;
  }
  return {};
}

Result<std::string> read_whole(FileSystem& files, const std::string& path) {
  const Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  if (size > kMostDeviceFileBytes) return damaged("it is longer than it can be");
  std::string text(size, '\0');
  if (Status read = file.value()->read(0, std::as_writable_bytes(std::span(text))); !read.ok()) {
    return read;
  }
  return text;
}

}  // namespace

Status save_device_file(FileSystem& files, const std::string& folder, const DeviceIdentity& device,
                        const DeviceFileKind& kind, const std::string& text) {
  if (Status made = files.make_folder(folder); !made.ok()) return made;
  const auto lock = files.lock(folder + "/" + std::string(kind.name) + ".lock");
  if (!lock.ok()) return lock.status();
  return replace(files, folder, device, kind, text);
}

Result<std::optional<DeviceFile>> newest_device_file(FileSystem& files, const std::string& folder,
                                                     const DeviceIdentity& device,
                                                     const DeviceFileKind& kind) {
  const Result<std::vector<FolderEntry>> entries = files.entries(folder);
  if (entries.status().code() == Code::kNotFound) return std::optional<DeviceFile>();
  if (!entries.ok()) return entries.status();
  const std::string key = device_key(device);
  const std::string suffix = "." + std::string(kind.name);
  std::optional<uint64_t> newest;
  for (const FolderEntry& entry : entries.value()) {
    newest = std::max(newest, number_in(entry.name, key, suffix));
  }
  if (!newest) return std::optional<DeviceFile>();
  const std::string path = folder + "/" + device_file_name(device, *newest, kind);
  return std::optional<DeviceFile>({path, read_whole(files, path)});
}

Status check_device_use(const DeviceIdentity& of, int64_t measured_unix_s,
                        const DeviceIdentity& device, int64_t now_unix_s, int64_t most_age_s,
                        std::string_view remedy) {
  const std::string do_it(remedy);
  if (!same_device(of, device)) {
    return {Code::kInvalid, "it is of " + describe(of) + ", not of " + describe(device) + do_it};
  }
  constexpr int64_t kDay = 24 * 60 * 60;
  const int64_t age = now_unix_s - measured_unix_s;
  if (age < -kMostAheadSeconds) {
    return {Code::kInvalid,
            "it is dated in the future; set the clock right, or run gpusnap calibrate again"};
  }
  if (age > most_age_s) {
    return {Code::kInvalid, "it is " + std::to_string(age / kDay) + " days old and may be " +
                                std::to_string(most_age_s / kDay) + do_it + " again"};
  }
  return {};
}

}  // namespace gpusnap
