// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/output_file.h"

#include <algorithm>
#include <memory>
#include <span>

#include "interpose/services/log.h"
#include "tiers/file_system.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/output_target.h"

namespace gpusnap {

std::string OutputFile::path_for(const std::string& id, const std::string& ending) const {
  if (!to.empty()) return to;
  std::string name = id.empty() ? "gpusnap" : id;
  std::ranges::replace(name, '@', '-');
  std::ranges::replace(name, '/', '_');
  return name + "-" + ending;
}

void add_output(CLI::App& command, OutputFile& output, const std::string& default_name) {
  command
      .add_option("-o,--to", output.to,
                  "the file to write (default: " + default_name + ", in the working folder)")
      ->type_name("FILE");
  command.add_flag("--force", output.force, "replace what is there");
}

Status write_output_file(const std::string& path, std::string_view text, bool replaces) {
  FileSystem& files = posix_file_system();
  OutputTarget target(files, path, OutputTarget::Kind::kFile, replaces);
  if (Status begun = target.begin(); !begun.ok()) return begun;
  {
    const Result<std::unique_ptr<WritableFile>> file = files.create(target.begin_file(path));
    if (!file.ok()) return file.status();
    Status written = file.value()->append(std::as_bytes(std::span(text)));
    if (!written.ok()) return written;
    if (Status synced = file.value()->sync(); !synced.ok()) return synced;
  }
  return target.finish();
}

int fail_output(const Status& status) {
  log(LogLevel::kError, status.message());
  return kExitStore;
}

}  // namespace gpusnap
