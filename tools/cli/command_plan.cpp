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
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/plan_figures.h"
#include "tools/cli/plan_job.h"
#include "tools/cli/plan_report.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct PlanOptions {
  std::string machine = "snapshot-ics19";  // a built-in one, or a file
  std::string model = "markov";
  std::vector<std::string> changes;  // "KEY=VALUE"
  std::string job;                   // whose costs replace those of a job that fills the machine
  std::string store;                 // of the job; empty: as the environment says
  bool inputs = false;               // list what can be changed, and nothing else
  bool simulate = false;
  uint64_t seed = 1;
  double years = 10;              // of useful time, for the simulation
  double shape = 1;               // of the Weibull distribution of its failures
  bool protected_copies = false;  // plan::Simulation
  bool json = false;
  std::string svg;  // folder for figures; empty: none
};

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

void declare_plan(CLI::App& command, PlanOptions& options) {
  command.add_option("--machine", options.machine,
                     "snapshot-ics19 (default), snapshot-ics19:EXAFLOPS:GPUS_PER_CPU, tianhe-1, "
                     "or a machine file");
  command.add_option("--model", options.model,
                     "first-order, daly, markov (default) or markov-failures");
  command
      .add_option("--set", options.changes,
                  "change an input: ssd.write=4.3, or ssd.write=2x for twice; may be given again")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command.add_option("--job", options.job, "plan for this job of the store, by what it has cost");
  add_store(command, options.store);
  command.add_flag("--inputs", options.inputs, "list the inputs of a machine, and nothing else");
  CLI::Option* const simulate =
      command.add_flag("--simulate", options.simulate, "simulate each configuration, too");
  command.add_option("--seed", options.seed, "of the simulation (default 1)")->needs(simulate);
  command.add_option("--years", options.years, "of useful time that it simulates (default 10)")
      ->needs(simulate)
      ->check(CLI::Range(1e-6, 1e4));
  command
      .add_option("--shape", options.shape,
                  "of the Weibull distribution of failures; below 1: young parts fail more often "
                  "(default 1)")
      ->needs(simulate)
      ->check(CLI::Range(0.3, 10.0));
  command
      .add_flag("--protected", options.protected_copies,
                "copies and restarts go on through failures of lower levels")
      ->needs(simulate);
  command.add_flag("--json", options.json,
                   "an object with machine, model, inputs, what_if, and for each of baseline, "
                   "level1_free, level1_and_2_free and own: efficiency, intervals_s (by level; "
                   "null: never), overhead (shares of the total time, by cause) and levels");
  command.add_option("--svg", options.svg, "write the papers' figures into this folder")
      ->type_name("FOLDER");
  end_help(command,
           "own is the machine as its inputs say; baseline holds the job for each whole "
           "checkpoint.\n\n"
           "Examples:\n"
           "  gpusnap plan --set failures.gpu=0.1\n"
           "  gpusnap plan --machine rack.toml --job wave --simulate\n\n");
}

}  // namespace

const Command kPlanCommand{
    "plan", "how often to checkpoint to memory, SSD and PFS, and what that costs at scale",
    [](CLI::App& command) { return action_of(command, declare_plan, plan_command); }};

}  // namespace gpusnap
