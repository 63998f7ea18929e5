// SPDX-License-Identifier: Apache-2.0
// Scripts by which shells complete the tool's commands, options and known values.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/tool_description.h"

namespace gpusnap {

std::string bash_completion(const std::vector<CommandDescription>& commands);
std::string zsh_completion(const std::vector<CommandDescription>& commands);
std::string fish_completion(const std::vector<CommandDescription>& commands);

}  // namespace gpusnap
