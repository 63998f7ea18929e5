// SPDX-License-Identifier: Apache-2.0
// gpusnap: the command line. Finds the command and runs it; commands.h has them all.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>

#include "interpose/services/log.h"
#include "interpose/services/nearest_name.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// null: there is none of that name.
const Command* find_command(const std::string& name) {
  const auto commands = all_commands();
  const auto found =
      std::ranges::find_if(commands, [&name](const Command* each) { return name == each->name; });
  return found == commands.end() ? nullptr : *found;
}

// CLI11 knows nothing of the program behind "--".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    const Command* const command = find_command(app->get_name());
    if (command != nullptr && command->starts_program) {
      usage.erase(usage.find_last_not_of('\n') + 1);
      usage += " -- PROGRAM [ARGUMENTS]\n";
    }
    return usage;
  }
  // The value that a flag has by itself is no part of its name.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
};

int usage_error(const std::string& line, const std::string& command) {
  log(LogLevel::kError, line, "; see 'gpusnap ", command, command.empty() ? "" : " ", "--help'");
  return kExitUsage;
}

// Which command is meant by one that does not exist, or which there are.
std::string suggestion(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command* const command : all_commands()) names.emplace_back(command->name);
  const std::string_view near = nearest_name(name, names);
  if (!near.empty()) return "did you mean " + std::string(near) + "?";
  std::string all = "commands are ";
  for (const std::string_view each : names) {
    if (each != names.front()) all += each == names.back() ? " and " : ", ";
    all += each;
  }
  return all;
}

// Reports an error of CLI11 in one line.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const auto extras = app.remaining();
    const std::string name = extras.empty() ? "" : extras.front();
    const std::string what = name.empty()            ? "no command"
                             : name.starts_with('-') ? "unknown option " + name
                                                     : name + " is no command";
    return usage_error(what + "; " + suggestion(name), "");
  }
  const std::string command = chosen.front()->get_name();
  if (find_command(command)->starts_program) {
    const auto extras = chosen.front()->remaining();
    if (!extras.empty() && !extras.front().starts_with('-')) {
      return usage_error("unexpected '" + extras.front() + "': the program goes after --", command);
    }
  }
  std::string line = error.what();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return usage_error(line, command);
}

int run(int argc, char** argv) {
  // All arguments after the first "--" are the program's, whatever they look like.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const bool has_dashes = dashes != arguments.end();
  std::vector<std::string> program(has_dashes ? dashes + 1 : dashes, arguments.end());
  arguments.erase(dashes, arguments.end());

  CLI::App app("Checkpoint and restart for unmodified CUDA programs.", "gpusnap");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "gpusnap " GPUSNAP_VERSION);
  app.require_subcommand(1);
  app.footer("'gpusnap COMMAND --help' says more.");
  std::vector<Action> actions;
  for (const Command* const command : all_commands()) {
    actions.push_back(command->declare(*app.add_subcommand(command->name, command->summary)));
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  const std::string name = app.get_subcommands().front()->get_name();
  const auto commands = all_commands();
  const auto chosen =
      static_cast<size_t>(std::ranges::find(commands, find_command(name)) - commands.begin());
  if (commands[chosen]->starts_program && program.empty()) {
    return usage_error("no program: it goes after --, as in 'gpusnap " + name + " -- ./solver'",
                       name);
  }
  if (!commands[chosen]->starts_program && has_dashes) {
    return usage_error("'--' has no meaning here", name);
  }
  return actions[chosen](Invocation{app, std::move(program)});
}

}  // namespace
}  // namespace gpusnap

int main(int argc, char** argv) {
  try {
    return gpusnap::run(argc, argv);
  } catch (const std::exception& error) {
    gpusnap::log(gpusnap::LogLevel::kError, "internal failure: ", error.what());
    return gpusnap::kExitInternal;
  }
}
