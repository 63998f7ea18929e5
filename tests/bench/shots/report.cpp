// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/report.h"

#include <algorithm>
#include <functional>

#include "tests/bench/json_line.h"

namespace gpusnap::shots {

namespace {

using bench::JsonLine;

double rate(uint64_t bytes, int64_t wait_ns) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(wait_ns, 1)) * 1e9;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// The middle of the sorted values; -1 if there is none.
double median(std::vector<double> values) {
  if (values.empty()) return -1;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Value = std::function<double(const Process&)>;

std::vector<double> each(const std::vector<Process>& processes, const Value& value) {
  std::vector<double> values;
  for (const Process& process : processes) values.push_back(value(process));
  return values;
}

void spread(JsonLine& json, const std::string& name, const std::vector<double>& values) {
  json.number(name, mean(values));
  json.number(name + "_min", *std::ranges::min_element(values));
  json.number(name + "_max", *std::ranges::max_element(values));
}

void report_waits(JsonLine& json, const std::vector<Process>& processes) {
  spread(json, "write_rate", each(processes, [](const Process& process) {
           return rate(process.result.bytes, process.result.write_wait_ns);
         }));
  spread(json, "restore_rate", each(processes, [](const Process& process) {
           return rate(process.result.bytes, process.result.restore_wait_ns);
         }));
  const auto seconds = [&](const std::string& name, int64_t ShotResult::*wait_ns) {
    json.number(name, mean(each(processes, [wait_ns](const Process& process) {
                  return static_cast<double>(process.result.*wait_ns) / 1e9;
                })));
  };
  seconds("write_wait_s", &ShotResult::write_wait_ns);
  seconds("restore_wait_s", &ShotResult::restore_wait_ns);
  seconds("flush_wait_s", &ShotResult::flush_wait_ns);
  seconds("ended_s", &ShotResult::ended_ns);
}

// Restores by the slowest medium that they, or their prefetches, read.
void report_sources(JsonLine& json, const std::vector<Process>& processes) {
  const std::pair<Medium, const char*> media[] = {{Medium::kDevice, "from_device"},
                                                  {Medium::kHost, "from_host"},
                                                  {Medium::kDrives, "from_drives"}};
  for (const auto& [medium, name] : media) {
    json.number(name, mean(each(processes, [from = medium](const Process& process) {
                  return static_cast<double>(
                      std::ranges::count(process.result.restores, from, &Restored::from));
                })));
  }
}

// The part of the restores that took no longer than a copy within the device.
void report_device_speed(JsonLine& json, const Configuration& configuration,
                         const std::vector<Process>& processes) {
  constexpr double kNearly = 0.99;
  json.number("at_device_speed", mean(each(processes, [&configuration](const Process& process) {
                const auto count = std::ranges::count_if(
                    process.result.restores, [&configuration](const Restored& restored) {
                      return rate(restored.bytes, restored.wait_ns) >=
                             kNearly * configuration.machine.device;
                    });
                return static_cast<double>(count) /
                       static_cast<double>(process.result.restores.size());
              })));
}

void report_caches(JsonLine& json, const Configuration& configuration,
                   const std::vector<Process>& processes) {
  const size_t host = configuration.has_device_cache ? 1 : 0;
  const auto peak = [&processes](size_t cache) {
    return std::ranges::max(each(processes, [cache](const Process& process) {
      return static_cast<double>(process.runtime.peak(cache));
    }));
  };
  json.number("device_cache", host == 1 ? static_cast<double>(configuration.device_cache) : 0);
  json.number("host_cache", static_cast<double>(configuration.host_cache));
  json.number("device_peak", host == 1 ? peak(0) : 0);
  json.number("host_peak", peak(host));
}

void report_predictor(JsonLine& json, const std::vector<Process>& processes) {
  std::vector<double> flushes, restores;
  for (const Process& process : processes) {
    const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const PredictorErrors errors = process.runtime.predictor_errors();
    add(flushes, errors.flushes);
    add(restores, errors.restores);
  }
  json.number("flush_error", median(std::move(flushes)));
  json.number("restore_error", median(std::move(restores)));
}

// By iteration of the backward pass: the rate of all processes, and their mean distance.
void report_iterations(JsonLine& json, const std::vector<Process>& processes) {
  std::vector<double> rates, distances;
  for (size_t i = 0; i < processes.front().result.restores.size(); ++i) {
    rates.push_back(mean(each(processes, [i](const Process& process) {
      const Restored& restored = process.result.restores[i];
      return rate(restored.bytes, restored.wait_ns);
    })));
    distances.push_back(mean(each(processes, [i](const Process& process) {
      return static_cast<double>(process.result.restores[i].distance);
    })));
  }
  json.numbers("rates", rates);
  json.numbers("distances", distances);
}

}  // namespace

std::string report(const std::string& line, const Configuration& configuration,
                   const std::vector<Process>& processes) {
  JsonLine json;
  json.text("configuration", line);
  report_waits(json, processes);
  report_sources(json, processes);
  report_device_speed(json, configuration, processes);
  report_caches(json, configuration, processes);
  report_predictor(json, processes);
  size_t failed = 0, restored = 0;
  std::string fault;
  for (const Process& process : processes) {
    failed += process.result.failed;
    restored += process.result.restores.size();
    if (!process.runtime.fault().empty()) fault = process.runtime.fault();
  }
  json.number("gpus", configuration.gpus);
  json.number("checkpoints", static_cast<double>(configuration.checkpoints));
  json.number("bytes", mean(each(processes, [](const Process& process) {
                return static_cast<double>(process.result.bytes);
              })));
  json.number("restored", static_cast<double>(restored));
  json.number("failed", static_cast<double>(failed));
  json.text("fault", fault);
  if (configuration.reports_iterations) report_iterations(json, processes);
  return json.end();
}

}  // namespace gpusnap::shots
