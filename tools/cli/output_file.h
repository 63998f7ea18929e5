// SPDX-License-Identifier: Apache-2.0
// The one file that a command writes where the user wants it.
#pragma once

#include <string>
#include <string_view>

#include "tiers/status.h"
#include "tools/cli/command.h"

namespace gpusnap {

struct OutputFile {
  std::string to;  // empty: it is named after what it shows
  bool force = false;

  // `id`: of what it shows; empty: of everything.
  std::string path_for(const std::string& id, const std::string& ending) const;
};

// -o, --to and --force.
void add_output(CLI::App& command, OutputFile& output, const std::string& default_name);

// The file has its name only when it is whole.
Status write_output_file(const std::string& path, std::string_view text, bool replaces);
// Writes the failure's line; the exit code for it.
int fail_output(const Status& status);

}  // namespace gpusnap
