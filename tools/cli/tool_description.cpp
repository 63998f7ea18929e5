// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/tool_description.h"

#include <algorithm>

#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// The words of "on|off"; none where one stands for something else, as in "auto|N".
std::vector<std::string> choices_of(const std::string& metavar) {
  std::vector<std::string> choices;
  const auto is_word = [](const std::string& text) {
    return !text.empty() && std::ranges::all_of(text, [](char each) {
      return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '-';
    });
  };
  for (size_t begin = 0; begin <= metavar.size();) {
    const size_t end = std::min(metavar.find('|', begin), metavar.size());
    choices.push_back(metavar.substr(begin, end - begin));
    if (!is_word(choices.back())) return {};
    begin = end + 1;
  }
  return choices.size() > 1 ? choices : std::vector<std::string>();
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription text;
  const bool is_flag = !option.get_positional() && option.get_items_expected_max() == 0;
  text.name = option.get_positional()       ? option.get_name(true)
              : option.get_lnames().empty() ? "-" + option.get_snames().front()
                                            : "--" + option.get_lnames().front();
  if (!is_flag) text.metavar = option.get_type_name();
  text.help = option.get_description();
  text.choices = choices_of(text.metavar);
  return text;
}

CommandDescription describe_command(const CLI::App& tool, const Command& command) {
  const CLI::App& app = *tool.get_subcommand(command.name);
  CommandDescription text;
  text.name = command.name;
  text.summary = command.summary;
  text.starts_program = command.starts_program;
  text.notes = app.get_footer();
  text.notes.erase(std::min(text.notes.find(kExitCodesHelp), text.notes.size()));
  for (const CLI::Option* const option : app.get_options()) {
    (option->get_positional() ? text.positionals : text.options)
        .push_back(describe_option(*option));
  }
  return text;
}

}  // namespace

std::vector<CommandDescription> describe_tool(const CLI::App& tool) {
  std::vector<CommandDescription> commands;
  for (const Command* const command : all_commands())
    commands.push_back(describe_command(tool, *command));
  return commands;
}

}  // namespace gpusnap
