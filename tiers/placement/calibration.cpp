#include "tiers/placement/calibration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

#include "tiers/checksum.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr std::string_view kTitle = "gpusnap calibration ";
constexpr uint64_t kVersion = 1;
constexpr uint64_t kMostBytes = 256 << 10;
constexpr size_t kMostSamples = 4096;
constexpr std::string_view kUnknown = "-";
constexpr std::string_view kSuffix = ".calibration";
constexpr std::string_view kTemporarySuffix = ".calibration.tmp";
constexpr const char* kRemedy = "; run gpusnap calibrate";
// Clocks of machines that share a folder differ.
constexpr int64_t kMostAheadSeconds = 3600;

std::optional<uint64_t> parse_hexadecimal(std::string_view text) {
  uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  if (end != text.data() + text.size() || hexadecimal(value) != text) return std::nullopt;
  return value;
}

std::string known(const std::string& word) {
  return word.empty() ? std::string(kUnknown) : word;
}

std::string text_of(const Calibration& calibration) {
  const DeviceIdentity& device = calibration.device;
  std::string text(kTitle);
  text += std::to_string(kVersion) + "\n";
  text += "host " + device.host + "\n";
  text += "device " + std::to_string(device.major) + ":" + std::to_string(device.minor) + "\n";
  text += "type " + device.file_system + "\n";
  text += "id " + hexadecimal(device.file_system_id) + "\n";
  text += "source " + known(device.source) + "\n";
  text += "uuid " + known(device.uuid) + "\n";
  text += "measured " + std::to_string(calibration.measured_unix_s) + "\n";
  text += "bytes " + std::to_string(calibration.bytes_per_writer) + "\n";
  for (const ThroughputSample& sample : calibration.samples) {
    text += "sample " + std::to_string(sample.writers) + " " +
            std::to_string(std::llround(sample.bytes_per_second)) + "\n";
  }
  return text + "checksum " + hexadecimal(checksum(text)) + "\n";
}

// Takes the lines one after the other. Once one was not as it must be, so are all that follow.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}

  // What follows `name` and a space on the next line.
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

  std::string word_or_unknown(std::string_view name) {
    std::string text = word(name);
    return text == kUnknown ? std::string() : text;
  }

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

  uint64_t id(std::string_view name) { return checked(parse_hexadecimal(value(name))); }

  bool next_is(std::string_view name) const { return good() && left_.starts_with(name); }
  bool good() const { return !wrong_line_; }
  size_t wrong_line() const { return wrong_line_.value_or(0); }
  std::string_view left() const { return left_; }
  void fail() {
    if (!wrong_line_) wrong_line_ = line_;
  }

 private:
  uint64_t checked(std::optional<uint64_t> value) {
    if (!value) fail();
    return value.value_or(0);
  }

  std::string_view left_;
  size_t line_ = 1;  // the title's
  std::optional<size_t> wrong_line_;
};

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

Calibration take_calibration(Lines& lines) {
  Calibration calibration;
  calibration.device = take_device(lines);
  calibration.measured_unix_s = static_cast<int64_t>(lines.number("measured"));
  calibration.bytes_per_writer = lines.number("bytes");
  while (lines.next_is("sample ")) {
    const auto [writers, rate] = lines.numbers("sample", ' ', kMostModelWriters);
    calibration.samples.push_back({static_cast<uint32_t>(writers), static_cast<double>(rate)});
    if (calibration.samples.size() > kMostSamples) lines.fail();
  }
  return calibration;
}

// The first line, and where it is one of ours, what is left of the text.
Result<std::string_view> take_title(std::string_view text) {
  const size_t end = text.find('\n');
  const std::string_view title = text.substr(0, end);
  if (end == std::string_view::npos || !title.starts_with(kTitle)) {
    return damaged("it is not a gpusnap calibration");
  }
  const std::optional<uint64_t> version = parse_number(title.substr(kTitle.size()));
  if (!version || *version == 0) return damaged("its first line has no version");
  if (*version > kVersion) {
    return Status(Code::kNewer, "it has format version " + std::to_string(*version) +
                                    " and this gpusnap knows up to " + std::to_string(kVersion) +
                                    "; use a later gpusnap");
  }
  return text.substr(end + 1);
}

}  // namespace

Result<std::string> encode(const Calibration& calibration) {
  if (Status good = check_samples(calibration.samples); !good.ok()) return good;
  std::string text = text_of(calibration);
  const Result<Calibration> back = decode_calibration(text);
  if (!back.ok()) return Status(Code::kInvalid, back.status().message());
  return text;
}

Result<Calibration> decode_calibration(std::string_view text) {
  if (text.size() > kMostBytes) return damaged("it is longer than it can be");
  const Result<std::string_view> rest = take_title(text);
  if (!rest.ok()) return rest.status();
  Lines lines(rest.value());
  Calibration calibration = take_calibration(lines);
  const std::string_view sealed = text.substr(0, text.size() - lines.left().size());
  const uint64_t sum = lines.id("checksum");
  if (!lines.good()) {
    return damaged("its line " + std::to_string(lines.wrong_line()) + " is not as it must be");
  }
  if (!lines.left().empty()) return damaged("it goes on behind its checksum");
  if (sum != checksum(sealed)) return damaged("its checksum is wrong");
  if (Status good = check_samples(calibration.samples); !good.ok()) return damaged(good.message());
  return calibration;
}

std::string calibration_name(const DeviceIdentity& device, uint64_t number) {
  return device_key(device) + "-" + std::to_string(number) + std::string(kSuffix);
}

namespace {

// Of a file of the device, if it is one: its number, whole or temporary.
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
               const std::string& text) {
  const Result<std::vector<FolderEntry>> entries = files.entries(folder);
  if (!entries.ok()) return entries.status();
  const std::string key = device_key(device);
  uint64_t last = 0;
  std::vector<std::string> before;
  for (const FolderEntry& entry : entries.value()) {
    const std::string path = folder + "/" + entry.name;
    if (const auto number = number_in(entry.name, key, kSuffix)) {
      last = std::max(last, *number);
      before.push_back(path);
    } else if (number_in(entry.name, key, kTemporarySuffix)) {
      if (Status removed = files.remove(path); !removed.ok()) return removed;
    }
  }
  const std::string path = folder + "/" + calibration_name(device, last + 1);
  const std::string temporary = path + ".tmp";
  if (Status written = write_whole(files, temporary, text); !written.ok()) return written;
  if (Status renamed = files.rename(temporary, path); !renamed.ok()) return renamed;
  if (Status synced = files.sync_folder(folder); !synced.ok()) return synced;
  for (const std::string& old : before) {
    if (Status removed = files.remove(old); !removed.ok()) return removed;
  }
  return {};
}

Result<Calibration> read_calibration(FileSystem& files, const std::string& path) {
  const Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  if (size > kMostBytes) return damaged("it is longer than it can be");
  std::string text(size, '\0');
  if (Status read = file.value()->read(0, std::as_writable_bytes(std::span(text))); !read.ok()) {
    return read;
  }
  return decode_calibration(text);
}

Status check_use(const Calibration& calibration, const DeviceIdentity& device, int64_t now_unix_s,
                 int64_t most_age_s) {
  if (!same_device(calibration.device, device)) {
    return {Code::kInvalid,
            "it is of " + describe(calibration.device) + ", not of " + describe(device) + kRemedy};
  }
  constexpr int64_t kDay = 24 * 60 * 60;
  const int64_t age = now_unix_s - calibration.measured_unix_s;
  if (age < -kMostAheadSeconds) {
    return {Code::kInvalid,
            "it is dated in the future; set the clock right, or run gpusnap calibrate again"};
  }
  if (age > most_age_s) {
    return {Code::kInvalid, "it is " + std::to_string(age / kDay) + " days old and may be " +
                                std::to_string(most_age_s / kDay) + kRemedy + " again"};
  }
  return {};
}

}  // namespace

std::string calibration_folder(const std::string& folder) {
  return user_folder(folder) + "/calibration";
}

Status save_calibration(FileSystem& files, const std::string& folder,
                        const Calibration& calibration) {
  return no_throw("store a calibration", [&]() -> Status {
    const Result<std::string> text = encode(calibration);
    if (!text.ok()) {
      return {Code::kInvalid, "cannot store the calibration of " + describe(calibration.device) +
                                  ": " + text.status().message()};
    }
    if (Status made = files.make_folder(folder); !made.ok()) return made;
    const Result<std::unique_ptr<FileLock>> lock = files.lock(folder + "/calibration.lock");
    if (!lock.ok()) return lock.status();
    return replace(files, folder, calibration.device, text.value());
  });
}

Result<Calibration> load_calibration(FileSystem& files, const std::string& folder,
                                     const DeviceIdentity& device, int64_t now_unix_s,
                                     int64_t most_age_s) {
  return no_throw("read a calibration", [&]() -> Result<Calibration> {
    const Status none(Code::kNotFound,
                      "there is no calibration of " + describe(device) + " in " + folder + kRemedy);
    const Result<std::vector<FolderEntry>> entries = files.entries(folder);
    if (entries.status().code() == Code::kNotFound) return none;
    if (!entries.ok()) return entries.status();
    const std::string key = device_key(device);
    std::optional<uint64_t> newest;
    for (const FolderEntry& entry : entries.value()) {
      newest = std::max(newest, number_in(entry.name, key, kSuffix));
    }
    if (!newest) return none;
    const std::string path = folder + "/" + calibration_name(device, *newest);
    const auto unusable = [&path](const Status& why) {
      return Status(why.code(), "calibration " + path + " cannot be used: " + why.message() +
                                    (why.code() == Code::kDamaged ? kRemedy : ""));
    };
    Result<Calibration> read = read_calibration(files, path);
    if (!read.ok()) return unusable(read.status());
    const Status fit = check_use(read.value(), device, now_unix_s, most_age_s);
    if (!fit.ok()) return unusable(fit);
    return read;
  });
}

}  // namespace gpusnap
