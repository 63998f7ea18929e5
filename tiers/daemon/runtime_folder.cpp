// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/runtime_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace gpusnap {

std::string runtime_folder() {
  const char* const own = std::getenv("XDG_RUNTIME_DIR");
  if (own != nullptr && *own == '/') return std::string(own) + "/gpusnap";
  return "/tmp/gpusnap-" + std::to_string(::geteuid());
}

std::string backend_log() {
  return runtime_folder() + "/gpusnapd.log";
}

Status make_runtime_folder() {
  const std::string folder = runtime_folder();
  if (::mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) {
    return {Code::kIo, "cannot make " + folder + ": " + std::strerror(errno)};
  }
  struct stat about {};
  if (::lstat(folder.c_str(), &about) < 0) {
    return {Code::kIo, "cannot look at " + folder + ": " + std::strerror(errno)};
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return {Code::kPermission, folder + " is not this user's own: remove it"};
  }
  return {};
}

}  // namespace gpusnap
