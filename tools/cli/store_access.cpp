#include "tools/cli/store_access.h"

#include <algorithm>
#include <cstdlib>

#include "interpose/services/log.h"

namespace gpusnap {

Result<std::unique_ptr<Store>> open_store(const std::string& option, bool create) {
  const char* const variable = std::getenv("GPUSNAP_PFS");
  std::string folder = option;
  if (folder.empty()) folder = variable != nullptr && *variable != '\0' ? variable : "./gpusnap";
  return Store::open(posix_file_system(), folder, create);
}

IdlePrune idle_prune(uint32_t keep, std::chrono::nanoseconds left_after) {
  IdlePrune prune;
  prune.keep = keep;
  if (keep == 0) {
    const char* const variable = std::getenv("GPUSNAP_KEEP");
    const long set = variable != nullptr ? std::strtol(variable, nullptr, 10) : 0;
    prune.keep = set > 0 ? static_cast<uint32_t>(std::min(set, 1000L)) : 2;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  prune.left_since_unix_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - left_after).count();
  return prune;
}

Result<CheckpointInfo> find_complete(Store& store, const std::string& id) {
  Result<CheckpointInfo> found = store.find(id);
  if (!found.ok() || found->state == CheckpointState::kComplete) return found;
  const bool is_damaged = found->state == CheckpointState::kDamaged;
  return Status(is_damaged ? Code::kDamaged : Code::kNotFound,
                "checkpoint " + found->id + " is " + name_of(found->state) + ": " + found->reason);
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
