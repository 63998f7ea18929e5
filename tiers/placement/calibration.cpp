// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/calibration.h"

#include <cmath>
#include <optional>

#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/placement/device_file.h"

namespace gpusnap {

namespace {

constexpr size_t kMostSamples = 4096;
constexpr std::string_view kRemedy = "; run gpusnap calibrate";
// The first was of files that were written through the page cache and synced.
constexpr DeviceFileKind kCalibration = {"calibration", 2, kRemedy};

std::string text_of(const Calibration& calibration) {
  std::string lines = lines_of(calibration.device);
  lines += "measured " + std::to_string(calibration.measured_unix_s) + "\n";
  lines += "bytes " + std::to_string(calibration.bytes_per_writer) + "\n";
  lines += "memory " + std::to_string(std::llround(calibration.memory_bytes_per_second)) + "\n";
  for (const ThroughputSample& sample : calibration.samples) {
    lines += "sample " + std::to_string(sample.writers) + " " +
             std::to_string(std::llround(sample.bytes_per_second)) + "\n";
  }
  return seal(kCalibration, lines);
}

Calibration take_calibration(Lines& lines) {
  Calibration calibration;
  calibration.device = take_device(lines);
  calibration.measured_unix_s = static_cast<int64_t>(lines.number("measured"));
  calibration.bytes_per_writer = lines.number("bytes");
  calibration.memory_bytes_per_second = static_cast<double>(lines.number("memory"));
  if (!(calibration.memory_bytes_per_second >= 1 &&
        calibration.memory_bytes_per_second <= kMostBytesPerSecond)) {
    lines.fail();
  }
  while (lines.next_is("sample ")) {
    const auto [writers, rate] = lines.numbers("sample", ' ', kMostModelWriters);
    calibration.samples.push_back({static_cast<uint32_t>(writers), static_cast<double>(rate)});
    if (calibration.samples.size() > kMostSamples) lines.fail();
  }
  return calibration;
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
  const Result<std::string_view> rest = take_title(text, kCalibration);
  if (!rest.ok()) return rest.status();
  Lines lines(rest.value());
  Calibration calibration = take_calibration(lines);
  if (Status whole = check_end(text, lines); !whole.ok()) return whole;
  if (Status good = check_samples(calibration.samples); !good.ok()) return damaged(good.message());
  return calibration;
}

std::string calibration_name(const DeviceIdentity& device, uint64_t number) {
  return device_file_name(device, number, kCalibration);
}

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
    return save_device_file(files, folder, calibration.device, kCalibration, text.value());
  });
}

Result<Calibration> load_calibration(FileSystem& files, const std::string& folder,
                                     const DeviceIdentity& device, int64_t now_unix_s,
                                     int64_t most_age_s) {
  return no_throw("read a calibration", [&]() -> Result<Calibration> {
    const auto newest = newest_device_file(files, folder, device, kCalibration);
    if (!newest.ok()) return newest.status();
    if (!newest.value()) {
      return Status(Code::kNotFound, "there is no calibration of " + describe(device) + " in " +
                                         folder + std::string(kRemedy));
    }
    const DeviceFile& file = *newest.value();
    const auto unusable = [&file](const Status& why) {
      return Status(why.code(),
                    "calibration " + file.path + " cannot be used: " + why.message() +
                        (why.code() == Code::kDamaged ? std::string(kRemedy) : std::string()));
    };
    if (!file.text.ok()) return unusable(file.text.status());
    Result<Calibration> read = decode_calibration(file.text.value());
    if (!read.ok()) return unusable(read.status());
    const Status fit = check_device_use(read->device, read->measured_unix_s, device, now_unix_s,
                                        most_age_s, kRemedy);
    if (!fit.ok()) return unusable(fit);
    return read;
  });
}

}  // namespace gpusnap
