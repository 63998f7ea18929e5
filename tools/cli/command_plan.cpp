// SPDX-License-Identifier: Apache-2.0
//
// gpusnap plan: what checkpoints cost at scale, and how often to take them.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "interpose/services/log.h"
#include "tiers/plan/machine_file.h"
#include "tiers/plan/published.h"
#include "tools/cli/commands.h"
#include "tools/cli/plan_figures.h"
#include "tools/cli/plan_job.h"
#include "tools/cli/plan_report.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

constexpr double kSecondsInYear = 365.25 * 24 * 3600;

// A built-in machine, else a machine file.
Result<plan::Machine> find_machine(const std::string& name) {
  Result<plan::Machine> known = plan::published_machine(name);
  std::error_code ignored;
  if (known.ok() || !std::filesystem::exists(name, ignored)) {
    if (known.ok()) return known;
    return Status(Code::kInvalid, known.status().message() + "; nor is there such a file");
  }
  std::ifstream file(name, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Status(Code::kInvalid, "cannot read " + name + ": it is empty or no readable file");
  }
  Result<plan::Machine> machine = plan::parse_machine(text.str());
  if (!machine.ok()) return Status(Code::kInvalid, name + ": " + machine.status().message());
  if (machine->name.empty()) machine->name = std::filesystem::path(name).stem().string();
  return machine;
}

Status use_job(const PlanOptions& options, plan::Machine& machine) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return store.status();
  const auto checkpoints = store.value()->list(options.job);
  if (!checkpoints.ok()) return checkpoints.status();
  const Result<plan::JobCosts> costs = costs_of_job(checkpoints.value(), options.job);
  if (!costs.ok()) return costs.status();
  machine = plan::with_job(machine, costs.value());
  machine.name = options.job + " on " + machine.name;
  return {};
}

Status change(const std::vector<std::string>& changes, plan::Machine& machine) {
  for (const std::string& text : changes) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return {Code::kInvalid, "--set: '" + text + "' is not KEY=VALUE"};
    }
    Status set = set_input(machine, text.substr(0, equals), text.substr(equals + 1));
    if (!set.ok()) return set;
  }
  return {};
}

Status simulate_all(const PlanOptions& options, PlanReport& report) {
  report.seed = options.seed;
  for (const plan::Configuration& each : report.configurations) {
    Result<plan::Simulation> simulation = plan::simulation_of(each, report.model, report.machine);
    if (!simulation.ok()) continue;  // nothing to simulate: no costs, or no failures
    simulation->work_s = options.years * kSecondsInYear;
    simulation->seed = options.seed;
    simulation->shape = options.shape;
    simulation->protected_copies = options.protected_copies;
    const Result<plan::SimulationResult> result = plan::simulate(simulation.value());
    if (!result.ok()) return result.status();
    report.simulated.push_back({each.name, result.value()});
  }
  return {};
}

Status write_figures(const std::string& folder, plan::Model model) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::kIo, "cannot make " + folder + ": " + error.message()};
  for (const PlanFigure& figure : plan_figures(model)) {
    const std::string path = (std::filesystem::path(folder) / figure.file).string();
    const std::string text = charts_as_svg(figure.charts);
    std::FILE* const file = std::fopen(path.c_str(), "we");
    const bool wrote =
        file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = file != nullptr && std::fclose(file) == 0;
    if (!wrote || !closed) {
      return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno)};
    }
  }
  return {};
}

void print_inputs() {
  std::vector<std::vector<std::string>> rows = {{"INPUT", "MEANING"}};
  for (const plan::Input& input : plan::inputs()) rows.push_back({input.key, input.help});
  fmt::print("{}", table(rows, "ll"));
}

Result<PlanReport> report_of(const PlanOptions& options) {
  PlanReport report;
  const Result<plan::Model> model = plan::parse_model(options.model);
  if (!model.ok()) return model.status();
  report.model = model.value();
  const Result<plan::Machine> machine = find_machine(options.machine);
  if (!machine.ok()) return machine.status();
  report.machine = machine.value();
  report.published =
      options.machine == "snapshot-ics19" && options.changes.empty() && options.job.empty();
  if (!options.job.empty()) {
    const Status used = use_job(options, report.machine);
    if (!used.ok()) return used;
  }
  const Status changed = change(options.changes, report.machine);
  if (!changed.ok()) return changed;
  auto configurations = plan::compare(report.machine, report.model);
  if (!configurations.ok()) return configurations.status();
  report.configurations = std::move(configurations.value());
  report.what_if = plan::what_if(report.machine, report.model);
  const auto compression = plan::compression_costs(report.machine);
  if (compression.ok()) report.compression = compression.value();
  if (!compression.ok() && compression.status().code() != Code::kNotFound) {
    return compression.status();
  }
  return report;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  if (options.inputs) {
    print_inputs();
    return kExitOk;
  }
  Result<PlanReport> report = report_of(options);
  if (!report.ok()) return fail(report.status());
  if (options.simulate) {
    const Status simulated = simulate_all(options, report.value());
    if (!simulated.ok()) return fail(simulated);
  }
  if (!options.svg.empty()) {
    const Status wrote = write_figures(options.svg, report->model);
    if (!wrote.ok()) return fail(wrote);
  }
  fmt::print("{}", options.json ? plan_as_json(report.value()) : plan_as_text(report.value()));
  return kExitOk;
}

}  // namespace gpusnap
