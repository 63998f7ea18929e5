// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/plan_figures.h"

#include <fmt/format.h>

#include <cmath>

#include "tiers/plan/configurations.h"
#include "tiers/plan/published.h"

namespace gpusnap {
namespace {

using plan::Machine;
using plan::Model;

constexpr double kDensities[] = {2, 4, 8, 16, 32};
const std::vector<double> kScales = {0.45, 0.9, 1.8, 3.6, 7.2};  // exaflops
constexpr double kReferenceScale = 3.6, kReferenceDensity = 16;
constexpr const char* kEfficiency = "efficiency, %";
constexpr const char* kScaleLabel = "peak performance, EFLOP/s";

double best_percent(Model model, const std::vector<plan::Level>& levels) {
  return plan::optimise(model, levels).efficiency * 100;
}

Curve paper_points(std::vector<Curve::Point> points) {
  return {"paper (text)", std::move(points), false, false};
}

Chart efficiency_chart(std::string title, std::string x_label, std::vector<double> x_ticks,
                       double least_percent) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = std::move(x_label);
  chart.y_label = kEfficiency;
  chart.x_ticks = std::move(x_ticks);
  chart.least_y = least_percent;
  chart.most_y = 100;
  return chart;
}

// Figures 2 and 13: density and scale, with blocking checkpoints or with GPU Snapshot's.
Chart density_chart(Model model, double stall, const std::string& title) {
  Chart chart = efficiency_chart(title, kScaleLabel, kScales, 75);
  for (const double density : kDensities) {
    Curve curve{fmt::format("{:.0f} GPUs/CPU", density), {}, true, false};
    for (const double scale : kScales) {
      Machine machine = plan::snapshot_machine(scale, density);
      machine.memory_stall = stall;
      curve.points.push_back({scale, best_percent(model, levels_of(machine))});
    }
    chart.curves.push_back(std::move(curve));
  }
  return chart;
}

Chart limits_chart(Model model) {
  Chart chart =
      efficiency_chart("GPU Snapshot, figure 3: limits with 16 GPUs/CPU", kScaleLabel, kScales, 75);
  struct Limit {
    const char* name;
    bool memory, ssd;  // cost nothing
  };
  constexpr Limit kLimits[] = {{"baseline", false, false},
                               {"SSD free", false, true},
                               {"memory free", true, false},
                               {"memory and SSD free", true, true}};
  for (const Limit& limit : kLimits) {
    Curve curve{limit.name, {}, true, false};
    for (const double scale : kScales) {
      auto levels = levels_of(plan::snapshot_machine(scale, kReferenceDensity));
      for (const size_t level : {0, 1}) {
        if (level == 0 ? !limit.memory : !limit.ssd) continue;
        levels[level].stall_s = levels[level].latency_s = levels[level].restart_s = 0;
      }
      curve.points.push_back({scale, best_percent(model, levels)});
    }
    chart.curves.push_back(std::move(curve));
  }
  chart.curves.push_back(paper_points({{3.6, 84.9}, {3.6, 92.7}, {3.6, 97.2}}));
  return chart;
}

// Figure 12 has a dot for each program. The text gives ranges of the checkpoint's relative time,
// and the average efficiency over the programs; a line of the average covers the range.
Chart impact_chart(Model model) {
  const std::vector<double> ticks = {0.02, 0.05, 0.1, 0.2, 0.5, 1};
  Chart chart =
      efficiency_chart("GPU Snapshot, figure 12: 3.6 EF, 16 GPUs/CPU",
                       "stall of a checkpoint to memory, relative to a blocking one", ticks, 80);
  for (const double dirty : {1.0, 0.5, 0.25}) {
    Curve curve{fmt::format("{:.0f}% dirty", dirty * 100), {}, true, false};
    for (double stall = 0.02; stall < 1.001; stall *= 1.1) {
      Machine machine = plan::snapshot_machine(kReferenceScale, kReferenceDensity);
      machine.memory_stall = std::min(1.0, stall);
      machine.gpu_dirty = dirty;
      curve.points.push_back({machine.memory_stall, best_percent(model, levels_of(machine))});
    }
    chart.curves.push_back(std::move(curve));
  }
  const auto limit = [&](const char* name, size_t free_levels) {
    const double efficiency = best_percent(
        model,
        with_free_levels(levels_of(plan::snapshot_machine(kReferenceScale, 16)), free_levels));
    chart.curves.push_back({name, {{0.02, efficiency}, {1, efficiency}}, true, true});
  };
  limit("memory free", 1);
  limit("memory and SSD free", 2);
  chart.curves.push_back(
      {"paper: average, driver", {{1 / 20.0, 90.9}, {1 / 3.0, 90.9}}, true, true});
  chart.curves.push_back(
      {"paper: average, device", {{1 / 40.0, 94.0}, {1 / 4.0, 94.0}}, true, true});
  chart.curves.push_back(paper_points({{1, 84.9}, {0.02, 92.7}, {0.02, 97.2}}));
  return chart;
}

Chart failures_chart(Model model) {
  const std::vector<double> factors = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50};
  Chart chart = efficiency_chart("GPU Snapshot, figure 14: 3.6 EF, 16 GPUs/CPU",
                                 "GPU failures, relative to table 1", factors, 0);
  struct Organisation {
    const char* name;
    double stall, dirty;
  };
  constexpr Organisation kOrganisations[] = {{"blocking", 1, 1},
                                             {"stall 1/20", plan::kSnapshotStall, 1},
                                             {"stall 1/20, half dirty", plan::kSnapshotStall, 0.5}};
  for (const Organisation& organisation : kOrganisations) {
    Curve curve{organisation.name, {}, true, false};
    for (const double factor : factors) {
      Machine machine = plan::snapshot_machine(kReferenceScale, kReferenceDensity);
      machine.memory_stall = organisation.stall;
      machine.gpu_dirty = organisation.dirty;
      machine.gpu_failures = factor;
      curve.points.push_back({factor, best_percent(model, levels_of(machine))});
    }
    chart.curves.push_back(std::move(curve));
  }
  chart.curves.push_back({"paper: kept with GPU Snapshot", {{10, 90}, {50, 90}}, true, true});
  chart.curves.push_back(paper_points({{0.1, 90}, {1, 84.9}, {50, 54}}));
  return chart;
}

plan::CompressionCosts tianhe_costs() {
  return plan::compression_costs(plan::published_machine("tianhe-1").value()).value();
}

Chart cost_chart(const char* title, const char* x_label, double step, int steps) {
  Chart chart;
  chart.title = title;
  chart.x_label = x_label;
  chart.y_label = "seconds of a checkpoint";
  chart.curves.assign(3, {});
  for (int i = 1; i <= steps; ++i) {
    for (Curve& curve : chart.curves) curve.points.push_back({i * step, 0});
  }
  return chart;
}

// Figure 4, by the printed formulas or the corrected ones.
Chart model_chart(const char* title, bool corrected) {
  Chart chart = cost_chart(title, "processes", 100, 200);
  const plan::CompressionCosts costs = tianhe_costs();
  const char* const names[] = {"Tu: uncompressed", "Tz: compressed, then stored",
                               "TP: compressed in a pipeline"};
  for (size_t i = 0; i < 3; ++i) chart.curves[i].name = names[i];
  for (size_t i = 0; i < chart.curves[0].points.size(); ++i) {
    const double processes = chart.curves[0].points[i].x;
    const plan::CheckpointTimes times =
        corrected ? corrected_times(costs, processes) : printed_times(costs, processes);
    chart.curves[0].points[i].y = times.uncompressed_s;
    chart.curves[1].points[i].y = times.sequential_s;
    chart.curves[2].points[i].y = times.pipelined_s;
  }
  return chart;
}

// Figure 12's shape: compression by CPU cores, and by GPUs.
Chart scale_chart() {
  constexpr double kProcessesOfUnit = 256;
  constexpr double kCpuCompress_s = 20;  // assumed
  Chart chart = cost_chart("PCCR, figure 12 (shape): corrected model, assumed times",
                           "computation units of 32 nodes, 256 processes", 1, 32);
  const plan::CompressionCosts by_gpu = tianhe_costs();
  plan::CompressionCosts by_cpu = by_gpu;
  by_cpu.compress_s = kCpuCompress_s;
  const char* const names[] = {"uncompressed", "serialized", "pipelined"};
  for (size_t i = 0; i < 3; ++i) chart.curves[i].name = names[i];
  chart.curves.push_back({"GPU-accelerated", chart.curves[0].points, true, false});
  for (size_t i = 0; i < chart.curves[0].points.size(); ++i) {
    const double processes = chart.curves[0].points[i].x * kProcessesOfUnit;
    const plan::CheckpointTimes times = corrected_times(by_cpu, processes);
    chart.curves[0].points[i].y = times.uncompressed_s;
    chart.curves[1].points[i].y = times.sequential_s;
    chart.curves[2].points[i].y = times.pipelined_s;
    chart.curves[3].points[i].y = corrected_times(by_gpu, processes).pipelined_s;
  }
  return chart;
}

}  // namespace

std::vector<PlanFigure> plan_figures(Model model) {
  Chart density = density_chart(model, 1, "GPU Snapshot, figure 2: blocking checkpoints");
  density.curves.push_back(paper_points({{3.6, 84.9}}));
  return {
      {"plan-figure2.svg", {density}},
      {"plan-figure3.svg", {limits_chart(model)}},
      {"plan-figure12.svg", {impact_chart(model)}},
      {"plan-figure13.svg",
       {density_chart(model, plan::kSnapshotStall,
                      "GPU Snapshot, figure 13: stall 1/20 of a blocking checkpoint")}},
      {"plan-figure14.svg", {failures_chart(model)}},
      {"plan-pccr-figure4.svg",
       {model_chart("PCCR, figure 4: as printed", false),
        model_chart("PCCR, figure 4: corrected", true)}},
      {"plan-pccr-figure12.svg", {scale_chart()}},
  };
}

}  // namespace gpusnap
