#include "tools/cli/store_access.h"

#include <cstdlib>

#include "interpose/services/log.h"

namespace gpusnap {

Result<std::unique_ptr<Store>> open_store(const std::string& option) {
  const char* const variable = std::getenv("GPUSNAP_PFS");
  std::string folder = option;
  if (folder.empty()) folder = variable != nullptr && *variable != '\0' ? variable : "./gpusnap";
  return Store::open(posix_file_system(), folder, false);
}

int fail(const Status& status) {
  log(LogLevel::kError, status.message());
  switch (status.code()) {
    case Code::kNotFound:
    case Code::kPermission:
      return kExitNoCheckpoint;
    case Code::kDamaged:
    case Code::kNewer:
      return kExitDamaged;
    case Code::kInvalid:
      return kExitUsage;
    default:
      return kExitInternal;
  }
}

}  // namespace gpusnap
