#include "tools/cli/store_access.h"

#include <unistd.h>

#include <algorithm>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"

namespace gpusnap {

Result<std::unique_ptr<Store>> open_store(const std::string& option, bool create) {
  const std::string folder = option.empty() ? parse_settings(environ).settings.pfs : option;
  return Store::open(posix_file_system(), folder, create);
}

IdlePrune idle_prune(uint32_t keep, std::chrono::nanoseconds left_after) {
  constexpr uint64_t kMost = 1000;
  IdlePrune prune;
  prune.keep = keep != 0
                   ? keep
                   : static_cast<uint32_t>(std::min(parse_settings(environ).settings.keep, kMost));
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

Status no_checkpoints(const Store& store, const std::string& job) {
  return {Code::kNotFound,
          "no checkpoints" + (job.empty() ? "" : " of " + job) + " in " + store.folder()};
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
