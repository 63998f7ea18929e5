// SPDX-License-Identifier: Apache-2.0
// doctor: what stands in the way of checkpoints on this machine, and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/doctor_checks.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"

namespace gpusnap {
namespace {

struct DoctorOptions {
  std::string program;  // empty: none in particular
  std::string store;
  bool sim = false;
  bool json = false;
};

int doctor_command(const DoctorOptions& options) {
  DoctorQuestion question;
  question.program = options.program;
  question.store = options.store;
  if (options.sim) {
    question.simcuda = folder_of_simcuda();
    if (question.simcuda.empty()) return kExitInternal;
  }
  const std::vector<Finding> findings = examine_machine(question);
  fmt::print("{}", options.json ? findings_as_json(findings) : findings_as_text(findings));
  const bool is_bad =
      std::ranges::find(findings, Verdict::kBad, &Finding::verdict) != findings.end();
  return is_bad ? kExitUnfit : kExitOk;
}

void declare_doctor(CLI::App& command, DoctorOptions& options) {
  command.add_option("PROGRAM", options.program, "look at this program, too");
  command.add_flag("--sim", options.sim, "with the software GPU in the place of NVIDIA's driver");
  command.add_flag("--json", options.json,
                   "an array of objects with check, verdict (ok, doubtful, bad), finding, advice");
  add_store(command, options.store);
  end_help(command,
           "Each line says whether something that a run needs is ok, doubtful (a run works, with "
           "less\nroom or speed, or a restore may be refused) or bad (a run takes no checkpoints), "
           "and what to\ndo. What can be tried is tried: a library is preloaded, the driver asked, "
           "a file written and\nremoved. Settings are those of the environment. gpusnap uses no "
           "ptrace.\n\n"
           "Examples:\n"
           "  gpusnap doctor\n"
           "  gpusnap doctor ./solver --store /scratch/$USER\n\n");
}

}  // namespace

const Command kDoctorCommand{
    "doctor", "say what stands in the way of checkpoints on this machine",
    [](CLI::App& command) { return action_of(command, declare_doctor, doctor_command); }};

}  // namespace gpusnap
