// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"

namespace gpusnap {
namespace {

struct RankOptions {
  std::vector<std::string> settings;  // "NAME=value"
  bool sim = false;
  std::vector<std::string> program;  // with its arguments
};

int rank_command(const RankOptions& options) {
  Environment environment;
  for (const std::string& setting : options.settings) {
    const size_t equals = setting.find('=');
    environment.set(setting.substr(0, equals), setting.substr(equals + 1));
  }
  // Errors in them were reported before the launcher began.
  set_level_of_lines(parse_settings(environment.pointers().data()).settings.log);
  const Result<std::string> path = find_program(options.program[0], ".");
  if (!path.ok()) return cannot_run(path.status());
  const std::string library = library_to_preload();
  if (library.empty()) return kExitInternal;
  const std::string simcuda = options.sim ? folder_of_simcuda() : std::string();
  if (options.sim && simcuda.empty()) return kExitInternal;
  return become(path.value(), options.program, environment, simcuda, library);
}

void declare_rank(CLI::App& command, RankOptions& options) {
  command.add_option("-s", options.settings, "a variable for the program; may be given again")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all()
      ->check([](const std::string& text) {
        const size_t equals = text.find('=');
        const bool named = equals != std::string::npos && equals > 0;
        return named ? std::string() : "'" + text + "' is not NAME=VALUE";
      });
  command.add_flag("--sim", options.sim, "use simcuda, the software GPU");
  end_help(command,
           "Becomes the program, with the library in it and address randomisation off.\n\n"
           "Example:\n"
           "  mpirun -n 4 gpusnap rank -s GPUSNAP_EVERY=30s -- ./solver big.cfg\n\n");
}

}  // namespace

const Command kRankCommand{
    "rank", "used by run and restore around each rank of a launcher",
    [](CLI::App& command) { return starting_action_of(command, declare_rank, rank_command); },
    true};

}  // namespace gpusnap
