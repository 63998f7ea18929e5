// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/manual.h"

namespace gpusnap {
namespace {

Action declare_manual(CLI::App& command) {
  end_help(command, "Example:\n  gpusnap manual | man -l -\n\n");
  return [](const Invocation& invocation) {
    std::fputs(manual_page(describe_tool(invocation.tool)).c_str(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitInternal;
  };
}

}  // namespace

const Command kManualCommand{"manual", "write the manual page of the tool, gpusnap(1)",
                             declare_manual};

}  // namespace gpusnap
