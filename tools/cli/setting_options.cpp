// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/setting_options.h"

#include <algorithm>
#include <string>

#include "interpose/services/settings.h"

namespace gpusnap {
namespace {

struct SettingRow {
  const char* option;
  std::string_view variable;
  std::string_view command;  // the only one that has it; empty: `run` and `restore`
  const char* group;
  std::string_view metavar;  // empty: a flag
  const char* help;
};
constexpr SettingRow kRows[] = {
#include "interpose/services/setting_options.inc"
};

CLI::Option* add_row(CLI::App& command, const SettingRow& row, LaunchOptions& options) {
  const auto set = [&options, &row](const std::string& value) {
    options.settings.emplace_back(row.variable, value);
  };
  CLI::Option* const option =
      row.metavar.empty() ? command.add_flag_callback(
                                row.option, [set] { set("1"); }, row.help)
                          : command.add_option_function<std::string>(row.option, set, row.help)
                                ->type_name(std::string(row.metavar));
  return option->group(row.group);
}

}  // namespace

void add_launch_options(CLI::App& command, LaunchOptions& options) {
  for (const SettingRow& row : kRows) {
    if (row.command.empty()) add_row(command, row, options);
  }
  command.add_flag("--sim", options.sim, "use simcuda, the software GPU");
}

void add_setting_option(CLI::App& command, std::string_view variable, LaunchOptions& options) {
  const SettingRow& row = *std::ranges::find(kRows, variable, &SettingRow::variable);
  add_row(command, row, options)->check([&row](const std::string& text) {
    const std::string entry = std::string(row.variable) + "=" + text;
    const char* const environment[] = {entry.c_str(), nullptr};
    const auto errors = parse_settings(environment).errors;
    return errors.empty() ? std::string() : errors[0];
  });
}

}  // namespace gpusnap
