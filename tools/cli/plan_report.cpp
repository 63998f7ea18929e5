// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/plan_report.h"

#include <fmt/format.h>

#include <cmath>

#include "tiers/plan/published.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f}%", share * 100);
}
std::string points(double difference) {
  return fmt::format("{:+.1f}", difference * 100);
}

std::string show_interval(double seconds) {
  if (std::isinf(seconds)) return "never";
  return seconds > 0 ? show_span(seconds) : "always";
}

const std::vector<plan::Level>& own_levels(const PlanReport& report) {
  return report.configurations.back().levels;
}

std::string levels_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"LEVEL", "HOLDS THE JOB", "IN BACKGROUND", "RESTART", "A FAILURE EVERY"}};
  for (const plan::Level& level : own_levels(report)) {
    rows.push_back({level.name, show_span(level.stall_s), show_span(level.latency_s),
                    show_span(level.restart_s), show_interval(1 / level.failures_per_s)});
  }
  return table(rows, "lrrrr");
}

std::string configurations_table(const PlanReport& report) {
  std::vector<std::string> head = {"CONFIGURATION", "EFFICIENCY", "CHECKPOINTS", "RESTARTS",
                                   "LOST WORK"};
  for (const plan::Level& level : own_levels(report)) head.push_back("TO " + level.name);
  std::vector<std::vector<std::string>> rows = {head};
  for (const plan::Configuration& each : report.configurations) {
    const plan::Overhead& overhead = each.prediction.overhead;
    double checkpoints = 0;
    for (const double share : overhead.checkpoint) checkpoints += share;
    rows.push_back({each.name, percent(each.prediction.efficiency), percent(checkpoints),
                    percent(overhead.restart), percent(overhead.lost_work)});
    for (const double interval_s : each.prediction.intervals_s) {
      rows.back().push_back(show_interval(interval_s));
    }
  }
  return table(rows, "l" + std::string(head.size() - 1, 'r'));
}

std::string recommendation(const PlanReport& report) {
  const plan::Prediction& own = report.configurations.back().prediction;
  std::string text;
  for (size_t i = 0; i < own.intervals_s.size(); ++i) {
    const double interval_s = own.intervals_s[i];
    if (std::isinf(interval_s)) continue;
    text +=
        fmt::format("{}to {} {}", text.empty() ? "Checkpoint " : ", ", own_levels(report)[i].name,
                    interval_s > 0 ? "every " + show_span(interval_s) : "at any time");
  }
  if (text.empty()) return "Nothing fails: take no checkpoints.\n";
  return text + fmt::format("; expected efficiency {}.\n", percent(own.efficiency));
}

std::string what_if_table(const PlanReport& report) {
  constexpr double kWorthwhile = 0.0005;
  const double now = report.configurations.back().prediction.efficiency;
  std::vector<std::vector<std::string>> rows = {{"CHANGE", "EFFICIENCY", "POINTS"}};
  for (const plan::WhatIf& each : report.what_if) {
    if (each.efficiency - now < kWorthwhile) continue;
    rows.push_back(
        {each.key + "=" + each.value, percent(each.efficiency), points(each.efficiency - now)});
  }
  return rows.size() > 1 ? "\n" + table(rows, "lrr") : "";
}

std::string published_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"PUBLISHED (3.6 EF, 16 GPUS A CPU)", "PAPER", "MODEL", "POINTS"}};
  for (const plan::PublishedPoint& point : plan::published_points()) {
    const double ours = plan::efficiency_of(point, report.model);
    rows.push_back({point.what, (point.at_most ? "< " : "") + percent(point.efficiency),
                    percent(ours), points(ours - point.efficiency)});
  }
  return "\n" + table(rows, "lrrr");
}

std::string compression_table(const PlanReport& report) {
  const plan::CompressionCosts& costs = *report.compression;
  const plan::CompressionPoints at = plan::points_of(costs);
  std::vector<std::vector<std::string>> rows = {
      {"CHECKPOINT OF ALL PROCESSES", "AS PRINTED", "CORRECTED"}};
  const plan::CheckpointTimes printed = printed_times(costs, report.machine.processes);
  const plan::CheckpointTimes corrected = corrected_times(costs, report.machine.processes);
  rows.push_back(
      {"uncompressed", show_span(printed.uncompressed_s), show_span(corrected.uncompressed_s)});
  rows.push_back({"compressed, then stored", show_span(printed.sequential_s),
                  show_span(corrected.sequential_s)});
  rows.push_back({"compressed in a pipeline", show_span(printed.pipelined_s),
                  show_span(corrected.pipelined_s)});
  return "\n" + table(rows, "lrr") +
         fmt::format(
             "Processes: {:.0f}. Saturated from k = {:.0f}, compressed k' = {:.0f}, "
             "pipelined k'' = {:.0f}.\nCompression helps from p0 = {:.0f}, in a pipeline "
             "from p0' = {:.0f}.\n",
             report.machine.processes, at.saturation, at.compressed_saturation,
             at.pipelined_saturation, at.sequential_benefit, at.pipelined_benefit);
}

std::string simulation_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"SIMULATED", "EFFICIENCY", "MODEL", "FAILURES", "EVENTS"}};
  for (const SimulatedConfiguration& each : report.simulated) {
    uint64_t failures = 0;
    for (const uint64_t count : each.result.failures) failures += count;
    double model = 0;
    for (const plan::Configuration& configuration : report.configurations) {
      if (configuration.name == each.name) model = configuration.prediction.efficiency;
    }
    rows.push_back({each.name, percent(each.result.efficiency()), percent(model),
                    std::to_string(failures), std::to_string(each.result.events)});
  }
  return "\n" + table(rows, "lrrrr") + fmt::format("Seed {}.\n", report.seed);
}

void add_levels(Json& json, const std::vector<plan::Level>& levels) {
  json.key("levels").begin_array();
  for (const plan::Level& level : levels) {
    json.begin_object();
    json.key("name").value(level.name);
    json.key("stall_s").precise(level.stall_s);
    json.key("latency_s").precise(level.latency_s);
    json.key("restart_s").precise(level.restart_s);
    json.key("failures_per_s").precise(level.failures_per_s);
    json.end_object();
  }
  json.end_array();
}

void add_configuration(Json& json, const plan::Configuration& each) {
  json.begin_object();
  json.key("efficiency").precise(each.prediction.efficiency);
  json.key("intervals_s").begin_object();
  for (size_t i = 0; i < each.levels.size(); ++i) {
    json.key(each.levels[i].name).precise(each.prediction.intervals_s[i]);
  }
  json.end_object();
  const plan::Overhead& overhead = each.prediction.overhead;
  json.key("overhead").begin_object();
  for (size_t i = 0; i < each.levels.size(); ++i) {
    json.key("checkpoint_" + each.levels[i].name).precise(overhead.checkpoint[i]);
  }
  json.key("restart").precise(overhead.restart);
  json.key("lost_work").precise(overhead.lost_work);
  json.end_object();
  add_levels(json, each.levels);
  json.end_object();
}

void add_published(Json& json, plan::Model model) {
  json.key("published").begin_array();
  for (const plan::PublishedPoint& point : plan::published_points()) {
    json.begin_object();
    json.key("what").value(point.what);
    json.key("paper").precise(point.efficiency);
    json.key("at_most").value(point.at_most);
    json.key("model").precise(plan::efficiency_of(point, model));
    json.end_object();
  }
  json.end_array();
}

void add_times(Json& json, const char* name, const plan::CheckpointTimes& times) {
  json.key(name).begin_object();
  json.key("uncompressed_s").precise(times.uncompressed_s);
  json.key("sequential_s").precise(times.sequential_s);
  json.key("pipelined_s").precise(times.pipelined_s);
  json.end_object();
}

void add_compression(Json& json, const PlanReport& report) {
  const plan::CompressionPoints at = plan::points_of(*report.compression);
  json.key("compression").begin_object();
  json.key("processes").precise(report.machine.processes);
  json.key("k").precise(at.saturation);
  json.key("k1").precise(at.compressed_saturation);
  json.key("k2").precise(at.pipelined_saturation);
  json.key("p0").precise(at.sequential_benefit);
  json.key("p1").precise(at.pipelined_benefit);
  add_times(json, "printed", printed_times(*report.compression, report.machine.processes));
  add_times(json, "corrected", corrected_times(*report.compression, report.machine.processes));
  json.end_object();
}

void add_simulated(Json& json, const PlanReport& report) {
  json.key("simulation").begin_object();
  json.key("seed").value(report.seed);
  for (const SimulatedConfiguration& each : report.simulated) {
    json.key(each.name).begin_object();
    json.key("efficiency").precise(each.result.efficiency());
    json.key("events").value(each.result.events);
    json.key("failures").begin_array();
    for (const uint64_t count : each.result.failures) json.value(count);
    json.end_array();
    json.end_object();
  }
  json.end_object();
}

}  // namespace

std::string show_span(double seconds) {
  if (!std::isfinite(seconds)) return "never";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const uint64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const uint64_t hours = (minutes + 30) / 60;
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string plan_as_text(const PlanReport& report) {
  std::string text =
      fmt::format("{}: {:.0f} nodes, {:.0f} GPUs; model {}\n\n", printable(report.machine.name),
                  report.machine.nodes, report.machine.gpus(), plan::name_of(report.model));
  text += levels_table(report) + "\n" + configurations_table(report) + "\n" +
          recommendation(report) + what_if_table(report);
  if (report.published) text += published_table(report);
  if (report.compression) text += compression_table(report);
  if (!report.simulated.empty()) text += simulation_table(report);
  return text;
}

std::string plan_as_json(const PlanReport& report) {
  Json json;
  json.begin_object();
  json.key("machine").value(report.machine.name);
  json.key("model").value(plan::name_of(report.model));
  json.key("inputs").begin_object();
  for (const plan::Input& input : plan::inputs()) {
    json.key(input.key).precise(report.machine.*input.member);
  }
  json.end_object();
  for (const plan::Configuration& each : report.configurations) {
    json.key(each.name);
    add_configuration(json, each);
  }
  json.key("what_if").begin_array();
  for (const plan::WhatIf& each : report.what_if) {
    json.begin_object();
    json.key("change").value(each.key + "=" + each.value);
    json.key("efficiency").precise(each.efficiency);
    json.end_object();
  }
  json.end_array();
  if (report.published) add_published(json, report.model);
  if (report.compression) add_compression(json, report);
  if (!report.simulated.empty()) add_simulated(json, report);
  return json.end_object().text() + "\n";
}

}  // namespace gpusnap
