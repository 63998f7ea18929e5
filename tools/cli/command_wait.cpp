#include "interpose/services/log.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/node.h"

#include <unistd.h>

namespace gpusnap {

int wait_command(const WaitOptions& options) {
  const ParsedSettings parsed = parse_settings(environ);
  for (const std::string& line : parsed.errors) log(LogLevel::kError, line);
  if (!parsed.errors.empty()) return kExitSettings;
  const Status durable = wait_until_durable(parsed.settings, options.job, options.timeout);
  if (durable.ok()) return kExitOk;
  log(LogLevel::kError, durable.message());
  return durable.code() == Code::kBusy ? kExitTooEarly : kExitInternal;
}

}  // namespace gpusnap
