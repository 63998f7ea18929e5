// SPDX-License-Identifier: Apache-2.0
// The tool's manual page, gpusnap(1), in the language of man(7).
#pragma once

#include <string>
#include <vector>

#include "tools/cli/tool_description.h"

namespace gpusnap {

std::string manual_page(const std::vector<CommandDescription>& commands);

}  // namespace gpusnap
