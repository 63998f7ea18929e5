// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/completion.h"

#include <algorithm>
#include <string_view>

namespace gpusnap {
namespace {

template <class Items, class Text>
std::string joined(const Items& items, std::string_view between, const Text& text_of) {
  std::string all;
  for (const auto& each : items) {
    if (!all.empty()) all += between;
    all += text_of(each);
  }
  return all;
}

std::string words(const std::vector<std::string>& items) {
  return joined(items, " ", [](const std::string& each) { return each; });
}

// `text` with a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string all;
  for (const char each : text) {
    if (special.find(each) != std::string_view::npos) all += '\\';
    all += each;
  }
  return all;
}

// In single quotes, as every POSIX shell reads them.
std::string shell_quoted(std::string_view text) {
  std::string all = "'";
  for (const char each : text) all += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return all + "'";
}

std::string bash_cases(const CommandDescription& command) {
  std::string cases;
  for (const OptionDescription& option : command.options) {
    if (option.metavar.empty()) continue;
    cases += "      " + command.name + "/" + option.name + ") ";
    cases += option.choices.empty() ? "return" : "words=" + shell_quoted(words(option.choices));
    cases += " ;;\n";
  }
  const auto name_of = [](const OptionDescription& option) { return option.name; };
  std::string names = joined(command.options, " ", name_of);
  if (command.starts_program) names += " --";
  for (const OptionDescription& each : command.positionals) {
    if (!each.choices.empty()) names += " " + words(each.choices);
  }
  return cases + "      " + command.name + "/*) words=" + shell_quoted(names) + " ;;\n";
}

std::string zsh_argument(const OptionDescription& option) {
  std::string text = option.name + "[" + escaped(option.help, "[]\\") + "]";
  if (!option.metavar.empty()) {
    text += ":" + escaped(option.metavar, ":") + ":";
    text += option.choices.empty() ? "_files" : "(" + words(option.choices) + ")";
  }
  return "        " + shell_quoted(text) + " \\\n";
}

std::string fish_option(const CommandDescription& command, const OptionDescription& option) {
  const bool is_long = option.name.starts_with("--");
  std::string line = "complete -c gpusnap -n '__fish_seen_subcommand_from " + command.name + "' ";
  line += is_long ? "-l " + option.name.substr(2) : "-s " + option.name.substr(1);
  if (!option.choices.empty()) {
    line += " -x -a " + shell_quoted(words(option.choices));
  } else if (!option.metavar.empty()) {
    line += " -r";
  }
  // fish reads \' within single quotes.
  return line + " -d '" + escaped(option.help, "'\\") + "'\n";
}

}  // namespace

// Without a word of its own the shell completes names of files.
std::string bash_completion(const std::vector<CommandDescription>& commands) {
  const auto name_of = [](const CommandDescription& command) { return command.name; };
  return R"(# Completion of gpusnap for bash, as 'gpusnap completion bash' writes it.
_gpusnap() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words i
  COMPREPLY=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then return; fi
  done
  if ((COMP_CWORD == 1)); then
    words=')" +
         joined(commands, " ", name_of) + R"( --help --version'
  else
    case ${COMP_WORDS[1]}/$previous in
)" + joined(commands, "", bash_cases) +
         R"(      *) return ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _gpusnap gpusnap
)";
}

std::string zsh_completion(const std::vector<CommandDescription>& commands) {
  const auto summary_of = [](const CommandDescription& command) {
    return "      " + shell_quoted(command.name + ":" + escaped(command.summary, ":")) + "\n";
  };
  const auto case_of = [](const CommandDescription& command) {
    const auto end = command.starts_program ? "        '*::program:_normal' ;;\n"
                                            : "        '*:name:_files' ;;\n";
    return "    " + command.name + ")\n      _arguments \\\n" +
           joined(command.options, "", zsh_argument) + end;
  };
  return "#compdef gpusnap\n"
         "# Completion of gpusnap for zsh, as 'gpusnap completion zsh' writes it.\n"
         "_gpusnap() {\n"
         "  local -a commands\n"
         "  if (( CURRENT == 2 )); then\n"
         "    commands=(\n" +
         joined(commands, "", summary_of) +
         "    )\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         joined(commands, "", case_of) +
         "  esac\n"
         "}\n"
         "compdef _gpusnap gpusnap\n";
}

std::string fish_completion(const std::vector<CommandDescription>& commands) {
  std::string text = "# Completion of gpusnap for fish, as 'gpusnap completion fish' writes it.\n";
  for (const CommandDescription& command : commands) {
    text += "complete -c gpusnap -f -n __fish_use_subcommand -a " + command.name + " -d '" +
            escaped(command.summary, "'\\") + "'\n";
  }
  for (const CommandDescription& command : commands) {
    for (const OptionDescription& option : command.options) text += fish_option(command, option);
  }
  return text;
}

}  // namespace gpusnap
