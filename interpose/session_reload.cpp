// Reload: a checkpoint's device memory in a program that is no replay of it, but brings its own
// host state.

#include <algorithm>

#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/text.h"

namespace gpusnap {

namespace {
// An allocation of the checkpoint that is not there; empty where all are.
std::string missing(const Manifest& manifest, const MemoryMap& memory) {
  const auto known = memory.by_identity();
  for (const SavedRange& saved : manifest.ranges) {
    if (saved.kind != static_cast<uint8_t>(MemoryKind::kDevice)) continue;
    const auto found = known.find({saved.call_site, saved.ordinal});
    if (found != known.end() && found->second->size == saved.size) continue;
    return "no allocation like number " + std::to_string(saved.ordinal + 1) +
           " of the place in the program that made the checkpoint's " +
           range_text(saved.address, saved.size) +
           (found == known.end()
                ? ""
                : ": that has " + std::to_string(found->second->size) + " bytes here");
  }
  return {};
}

// Empty, or what of the checkpoint or of this process cannot be reloaded.
std::string not_reloaded(const Manifest& manifest, const Arrays& arrays, bool shares) {
  if (shares) return "memory that ranks share is not followed there: each is loaded by itself";
  const bool has_physical = std::ranges::any_of(manifest.ranges, [](const SavedRange& saved) {
    return saved.kind == static_cast<uint8_t>(MemoryKind::kPhysical);
  });
  if (has_physical) {
    return "memory of cuMemCreate is not followed there: nobody tells where it is to be mapped";
  }
  const bool has_array = std::ranges::any_of(manifest.ranges, [](const SavedRange& saved) {
    return saved.kind == static_cast<uint8_t>(MemoryKind::kArray);
  });
  if (!has_array && !arrays.used()) return {};
  return "arrays, textures and surfaces are not followed there: device memory may hold handles of "
         "another process";
}
}  // namespace

void Session::begin_reload() {
  find_restored();
  reload_ = std::make_unique<Reload>();
  reload_->behind = run_.settings.reload_behind;
}

void Session::reload() {
  if (reload_->looked_at == model_.memory.lives()) return;
  const CheckpointInfo& checkpoint = restored_.checkpoint;
  const Manifest& manifest = restored_.manifest();
  reload_->missing = missing(manifest, model_.memory);
  if (!reload_->missing.empty()) {
    reload_->looked_at = model_.memory.lives();
    return;
  }
  if (reload_->behind != 0) {
    --reload_->behind;
    return;
  }
  const std::string why_not = not_reloaded(manifest, model_.arrays, shares_);
  if (!why_not.empty()) {
    fatal(kExitImpossible, checkpoint.id + " cannot be reloaded: " + why_not);
  }
  if (!close_admission()) {
    fatal(kExitImpossible, checkpoint.id + " cannot be reloaded: other threads are in CUDA " +
                               "calls that do not end, or capture a stream");
  }
  lock_.unlock();
  const Status status = checkpointer_->reload(checkpoint, manifest);
  if (!status.ok()) {
    fatal(status.code() == Code::kDamaged ? kExitDamaged : kExitImpossible,
          checkpoint.id + " cannot be reloaded: " + status.message());
  }
  log(LogLevel::kInfo, "reloaded ", checkpoint.id, ": ", manifest.bytes(),
      " bytes of device memory");
  lock_.lock();
  reload_.reset();
  triggers_->restored(manifest.interval, manifest.stall_ns, destination_of(manifest));
  open_admission();
}

void Session::say_nothing_reloaded() const {
  log(LogLevel::kError, "nothing of ", restored_.checkpoint.id,
      " was reloaded: ", reload_->missing.empty() ? "no kernel was launched" : reload_->missing);
}

}  // namespace gpusnap
