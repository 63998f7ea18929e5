// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/completion.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

Action declare_completion(CLI::App& command) {
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  end_help(command,
           "Examples:\n"
           "  source <(gpusnap completion bash)\n"
           "  gpusnap completion zsh > ~/.zfunc/_gpusnap\n"
           "  gpusnap completion fish > ~/.config/fish/completions/gpusnap.fish\n\n");
  return [shell](const Invocation& invocation) {
    const auto commands = describe_tool(invocation.tool);
    const std::string script = *shell == "bash"  ? bash_completion(commands)
                               : *shell == "zsh" ? zsh_completion(commands)
                                                 : fish_completion(commands);
    std::fputs(script.c_str(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitInternal;
  };
}

}  // namespace

const Command kCompletionCommand{
    "completion", "write the script by which a shell completes the tool's commands and options",
    declare_completion};

}  // namespace gpusnap
