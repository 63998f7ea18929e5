#include <string>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"

namespace gpusnap {

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

}  // namespace gpusnap
