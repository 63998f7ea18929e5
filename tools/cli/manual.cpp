// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/manual.h"

#include <string_view>

#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// Text as roff reads it: no character has a meaning of its own.
std::string plain(std::string_view text) {
  std::string all;
  bool begins = true;
  for (const char each : text) {
    if (begins && (each == '.' || each == '\'')) all += "\\&";
    if (each == '\\') {
      all += "\\e";
    } else if (each == '-') {
      all += "\\-";
    } else {
      all += each;
    }
    begins = each == '\n';
  }
  return all;
}

// Lines as they are.
std::string verbatim(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.empty() ? "" : ".PP\n.nf\n" + plain(text) + "\n.fi\n";
}

std::string option_text(const OptionDescription& option) {
  std::string text = ".TP\n\\fB" + plain(option.name) + "\\fR";
  if (!option.metavar.empty() && option.metavar != option.name && option.name.starts_with('-')) {
    text += " \\fI" + plain(option.metavar) + "\\fR";
  }
  return text + "\n" + plain(option.help) + "\n";
}

std::string command_text(const CommandDescription& command) {
  std::string text = ".SS \"" + plain(command.name) + "\"\n";
  text += ".B gpusnap " + plain(command.name) + "\n[\\fIOPTIONS\\fR]";
  for (const OptionDescription& each : command.positionals)
    text += " \\fI" + plain(each.name) + "\\fR";
  if (command.starts_program) text += " \\-\\- \\fIPROGRAM\\fR [\\fIARGUMENTS\\fR]";
  text += "\n.PP\n" + plain(command.summary) + ".\n";
  for (const OptionDescription& each : command.positionals) text += option_text(each);
  for (const OptionDescription& each : command.options) text += option_text(each);
  return text + verbatim(command.notes);
}

}  // namespace

std::string manual_page(const std::vector<CommandDescription>& commands) {
  std::string text = ".TH GPUSNAP 1 \"\" \"gpusnap " GPUSNAP_VERSION
                     "\" \"User Commands\"\n"
                     ".SH NAME\ngpusnap \\- checkpoint and restart for unmodified CUDA programs\n"
                     ".SH SYNOPSIS\n.B gpusnap\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
                     ".SH COMMANDS\n";
  for (const CommandDescription& command : commands) text += command_text(command);
  return text + ".SH EXIT STATUS\n" + verbatim(kExitCodesHelp);
}

}  // namespace gpusnap
