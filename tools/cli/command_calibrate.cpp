// SPDX-License-Identifier: Apache-2.0
// gpusnap calibrate: how fast a folder's device takes writes from so many writers at a time, for
// the placement of chunks (section IV.C of the VeloC paper).
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "interpose/services/log.h"
#include "interpose/services/setting_values.h"
#include "interpose/services/settings.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/measure.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/curve_svg.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct CalibrateOptions {
  std::vector<std::string> folders;  // empty: those of GPUSNAP_SSD
  uint32_t writers = 64;             // the most that are measured with
  uint64_t chunk = 0;                // bytes of each writer; 0: GPUSNAP_CHUNK
  uint64_t slot = 0;                 // bytes that are written at a time: GPUSNAP_SLOT
  uint32_t writes = 0;               // of these on their way: GPUSNAP_WRITES
  bool check = false;                // measure with every number of writers besides
  bool show = false;                 // what is stored; nothing is measured
  bool json = false;
  std::string svg;  // file for a chart; empty: none
};

struct Calibrated {
  std::string folder;
  Calibration calibration;
  std::vector<ThroughputSample> checked;  // with every number of writers; empty: not asked for
  std::string refused;                    // what was stored before and cannot be used; one line
  std::string stored;                     // where it lies
};

ThroughputModel model_of(const Calibrated& done) {
  return ThroughputModel::fit(done.calibration.samples).value();
}

// A line that is written over until it is done; for people alone.
bool show_progress(const std::string& folder, const MeasureProgress& progress) {
  if (::isatty(STDERR_FILENO) == 0) return true;
  const std::string last =
      progress.last.writers == 0
          ? std::string()
          : fmt::format(", {} writers: {}/s", progress.last.writers,
                        show_bytes(static_cast<uint64_t>(progress.last.bytes_per_second)));
  fmt::print(stderr, "\r\x1b[K{}: {} of {}{}", printable(folder), progress.done, progress.of, last);
  if (progress.done == progress.of) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  return true;
}

// Half of what is free, and no more than the setting allows: others write there, too.
Result<uint64_t> room_in(const SsdFolder& folder) {
  struct statvfs about {};
  if (::statvfs(folder.path.c_str(), &about) != 0) {
    return Status(errno == ENOENT ? Code::kNotFound : Code::kIo,
                  "cannot calibrate " + folder.path + ": " + std::strerror(errno));
  }
  const uint64_t half = uint64_t{about.f_bavail} * about.f_frsize / 2;
  return folder.capacity == 0 ? half : std::min(half, folder.capacity);
}

Result<std::vector<ThroughputSample>> measure(const SsdFolder& folder,
                                              const CalibrateOptions& options, bool every_number) {
  const Result<uint64_t> room = room_in(folder);
  if (!room.ok()) return room.status();
  MeasureSettings settings;
  settings.folder = folder.path;
  settings.most_writers = options.writers;
  settings.bytes_per_writer = options.chunk;
  settings.slot_bytes = options.slot;
  settings.in_flight = options.writes;
  settings.most_bytes = std::max<uint64_t>(room.value(), 1);
  settings.every_number = every_number;
  auto samples = measure_throughput(
      posix_file_system(), monotonic_clock(), settings,
      [&](const MeasureProgress& progress) { return show_progress(folder.path, progress); });
  if (!samples.ok()) return samples.status();
  // As they are stored.
  for (ThroughputSample& sample : samples.value()) {
    sample.bytes_per_second = std::round(sample.bytes_per_second);
  }
  return samples;
}

// Returns the calibration that is stored of the device now.
Result<Calibration> stored_of(const std::string& folder, const DeviceIdentity& device) {
  return load_calibration(posix_file_system(), calibration_folder(folder), device,
                          std::time(nullptr), kMostCalibrationAge_s);
}

Result<Calibrated> calibrate(const SsdFolder& folder, const CalibrateOptions& options) {
  Calibrated done;
  done.folder = folder.path;
  const Result<DeviceIdentity> device = identify_device(folder.path);
  if (!device.ok()) return device.status();
  const Result<Calibration> before = stored_of(folder.path, device.value());
  if (options.show) {
    if (!before.ok()) return before.status();
    done.calibration = before.value();
    done.stored = calibration_folder(folder.path);
    return done;
  }
  if (!before.ok() && before.status().code() != Code::kNotFound) {
    done.refused = before.status().message();
  }
  Result<std::vector<ThroughputSample>> samples = measure(folder, options, false);
  if (!samples.ok()) return samples.status();
  const Result<double> memory = measure_memory(monotonic_clock(), options.slot);
  if (!memory.ok()) return memory.status();
  done.calibration = {device.value(), std::time(nullptr), options.chunk, std::round(memory.value()),
                      samples.value()};
  if (options.check) {
    Result<std::vector<ThroughputSample>> checked = measure(folder, options, true);
    if (!checked.ok()) return checked.status();
    done.checked = std::move(checked.value());
  }
  done.stored = calibration_folder(folder.path);
  const Status saved = save_calibration(posix_file_system(), done.stored, done.calibration);
  if (!saved.ok()) return saved;
  return done;
}

std::string show_rate(double bytes_per_second) {
  return show_bytes(static_cast<uint64_t>(bytes_per_second)) + "/s";
}

// The samples, or all that was measured to check the model.
const std::vector<ThroughputSample>& rows_of(const Calibrated& done) {
  return done.checked.empty() ? done.calibration.samples : done.checked;
}

void print_table(const Calibrated& done) {
  const ThroughputModel model = model_of(done);
  fmt::print("{}: {}\n", printable(done.folder), printable(describe(done.calibration.device)));
  std::vector<std::vector<std::string>> rows = {{"WRITERS", "TOGETHER", "EACH", "MODEL"}};
  for (const ThroughputSample& sample : rows_of(done)) {
    rows.push_back({fmt::format("{}", sample.writers), show_rate(sample.bytes_per_second),
                    show_rate(sample.bytes_per_second / sample.writers),
                    show_rate(model.total(sample.writers))});
  }
  fmt::print("{}", table(rows, "rrrr"));
  fmt::print("memory: {} by each writer\n", show_rate(done.calibration.memory_bytes_per_second));
  if (!done.checked.empty()) {
    const ThroughputModel::Error error = model.error_against(done.checked);
    fmt::print("the model is off by {:.1f}% on average, {:.1f}% at most (with {} writers)\n",
               error.mean * 100, error.most * 100, error.most_at);
  }
  fmt::print("stored in {}\n", printable(done.stored));
}

std::string as_json(const std::vector<Calibrated>& all) {
  Json json;
  json.begin_array();
  for (const Calibrated& done : all) {
    const ThroughputModel model = model_of(done);
    json.begin_object();
    json.key("folder").value(done.folder);
    json.key("device").value(describe(done.calibration.device));
    json.key("measured").value(show_iso_time(done.calibration.measured_unix_s * 1'000'000'000));
    json.key("bytes_per_writer").value(done.calibration.bytes_per_writer);
    json.key("memory_bytes_per_second").value(done.calibration.memory_bytes_per_second);
    const auto list = [&](const char* name, const std::vector<ThroughputSample>& samples) {
      json.key(name).begin_array();
      for (const ThroughputSample& sample : samples) {
        json.begin_object();
        json.key("writers").value(uint64_t{sample.writers});
        json.key("bytes_per_second").value(sample.bytes_per_second);
        json.key("model").value(model.total(sample.writers));
        json.end_object();
      }
      json.end_array();
    };
    list("samples", done.calibration.samples);
    list("checked", done.checked);
    if (!done.checked.empty()) {
      const ThroughputModel::Error error = model.error_against(done.checked);
      json.key("error_mean").value(error.mean);
      json.key("error_most").value(error.most);
      json.key("error_most_at").value(uint64_t{error.most_at});
    }
    json.key("stored").value(done.stored);
    json.end_object();
  }
  return json.end_array().text() + "\n";
}

std::vector<Chart> charts_of(const std::vector<Calibrated>& all) {
  constexpr double kMiB = 1 << 20;
  std::vector<Chart> charts;
  for (const Calibrated& done : all) {
    const ThroughputModel model = model_of(done);
    Curve predicted{"B-spline through the samples", {}, true};
    Curve samples{"samples", {}, false};
    Curve measured{"measured with every number of writers", {}, true};
    Curve error{"error", {}, true};
    for (uint32_t writers = 1; writers <= done.calibration.samples.back().writers; ++writers) {
      predicted.points.push_back({double(writers), model.total(writers) / kMiB});
    }
    for (const ThroughputSample& sample : done.calibration.samples) {
      samples.points.push_back({double(sample.writers), sample.bytes_per_second / kMiB});
    }
    for (const ThroughputSample& sample : done.checked) {
      measured.points.push_back({double(sample.writers), sample.bytes_per_second / kMiB});
      const double off = std::abs(model.total(sample.writers) / sample.bytes_per_second - 1);
      error.points.push_back({double(sample.writers), off * 100});
    }
    Chart chart{done.folder + ": throughput", "writers", "MiB/s", {predicted, samples}};
    if (!done.checked.empty()) chart.curves.push_back(measured);
    charts.push_back(chart);
    if (!done.checked.empty()) {
      charts.push_back({done.folder + ": error of the model", "writers", "% of measured", {error}});
    }
  }
  return charts;
}

Status write_svg(const std::string& path, const std::vector<Calibrated>& all) {
  const std::string text = charts_as_svg(charts_of(all));
  std::FILE* const file = std::fopen(path.c_str(), "we");
  const bool wrote =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (wrote && closed) return {};
  return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno)};
}

int calibrate_command(const CalibrateOptions& asked) {
  CalibrateOptions options = asked;
  const ParsedSettings parsed = parse_settings(environ);
  for (const std::string& line : parsed.errors) log(LogLevel::kError, line);
  if (!parsed.errors.empty()) return kExitSettings;
  if (options.chunk == 0) options.chunk = parsed.settings.tiers.chunk;
  options.slot = parsed.settings.slot;
  options.writes = parsed.settings.writes;
  std::vector<SsdFolder> folders;
  for (const std::string& folder : options.folders) {
    folders.push_back({std::filesystem::absolute(folder).lexically_normal().string(), 0});
  }
  if (folders.empty()) folders = parsed.settings.tiers.ssd;
  if (folders.empty()) {
    log(LogLevel::kError, "which folder? give one, or set GPUSNAP_SSD");
    return kExitUsage;
  }
  std::vector<Calibrated> all;
  for (const SsdFolder& folder : folders) {
    Result<Calibrated> done = calibrate(folder, options);
    if (!done.ok()) return fail(done.status());
    if (!done->refused.empty()) log(LogLevel::kWarn, done->refused, ": it has been measured again");
    if (!options.json) print_table(done.value());
    all.push_back(std::move(done.value()));
  }
  if (options.json) fmt::print("{}", as_json(all));
  if (options.svg.empty()) return kExitOk;
  const Status wrote = write_svg(options.svg, all);
  return wrote.ok() ? static_cast<int>(kExitOk) : fail(wrote);
}

void declare_calibrate(CLI::App& command, CalibrateOptions& options) {
  command.add_option("FOLDER", options.folders,
                     "folders on the devices (default: those of GPUSNAP_SSD)");
  command
      .add_option("--writers", options.writers,
                  "the most writers at a time that are measured with (default 64)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command
      .add_option_function<std::string>(
          "--chunk",
          [&options](const std::string& text) {
            if (!parse_size(text, options.chunk) || options.chunk < kLeastChunk ||
                options.chunk > kMostChunk) {
              throw CLI::ValidationError("--chunk", "'" + text + "' is not a size from 64K to 4G");
            }
          },
          "bytes that each writer writes (default GPUSNAP_CHUNK, 64M)")
      ->type_name("SIZE");
  CLI::Option* const check = command.add_flag(
      "--check", options.check,
      "measure with every number of writers besides, and say how far the model is off");
  command.add_flag("--show", options.show, "show what is stored; measure nothing")->excludes(check);
  command.add_flag("--json", options.json,
                   "an array of objects with folder, device, measured, bytes_per_writer, "
                   "memory_bytes_per_second, samples, "
                   "checked, error_mean, error_most, error_most_at, stored");
  command.add_option("--svg", options.svg, "write a chart into this file")->type_name("FILE");
  end_help(command,
           "Writes files into a folder gpusnap-calibration in each FOLDER and removes them: as the "
           "backend\nwrites chunks, GPUSNAP_WRITES times GPUSNAP_SLOT of each on their way, "
           "without a sync. At\nmost half of what is free, or the capacity in GPUSNAP_SSD, is "
           "used. What was measured is "
           "kept\n"
           "on the device for 90 days; what is older, or comes from another host or device, is\n"
           "refused by the placement, and here said and measured again.\n\n"
           "Examples:\n"
           "  gpusnap calibrate /local\n"
           "  GPUSNAP_SSD=/nvme0,/nvme1 gpusnap calibrate --check --svg curve.svg\n\n");
}

}  // namespace

const Command kCalibrateCommand{
    "calibrate", "measure how fast devices take writes, for the placement of chunks",
    [](CLI::App& command) { return action_of(command, declare_calibrate, calibrate_command); }};

}  // namespace gpusnap
