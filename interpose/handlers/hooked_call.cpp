#include "interpose/handlers/hooked_call.h"

#include <cstring>

#include "interpose/services/fatal.h"
#include "interpose/snapshot/snapshots.h"

namespace gpusnap {

void HookedCall::record_answer(CUresult result, const void* answer, size_t bytes) {
  const HostBlock block = plain_block(answer, bytes);
  recorder().append(static_cast<uint16_t>(hook_), key, result, 0, &block, {});
}

void HookedCall::record_visible(CUresult result, bool all_done, const HostBlock* answer,
                                uint8_t flags) {
  if (result != CUDA_SUCCESS) {
    record(result);
    return;
  }
  if (answer != nullptr) host_updates().note_answered(*answer);
  const auto& deliveries = host_updates().collect(all_done, &flags);
  recorder().append(static_cast<uint16_t>(hook_), key, result, flags, answer, deliveries);
}

void HookedCall::tell_writes() {
  if (writes_told_) return;
  writes_told_ = true;
  if (!writes.said()) writes.add_everything();
  model().memory.lead(writes);
  // A call that takes effect at once, or at an unknown time, cannot wait on a stream.
  const bool at_once = writes_ == Writes::kFreed || writes_ == Writes::kEverything;
  tell_snapshot(writes, stream_, at_once && !stream_given_ ? Hold::kHost : Hold::kStream,
                writes_ == Writes::kFreed);
}

void HookedCall::tell_snapshot(const WriteSet& set, CUstream stream, Hold hold, bool freed) {
  const Unlocked unlocked(environment_->lock());
  const RelaxedCapture relaxed(driver());
  environment_->snapshots().before_write(set, stream, hold, freed);
}

// Before anything runs that the checkpoint is without.
void HookedCall::reload() {
  const bool launches = writes_ == Writes::kKernel || writes_ == Writes::kGraph;
  if (launches && !captured_) environment_->reload();
}

void HookedCall::before_free(const WriteSet& set) {
  if (!environment_->snapshot_pending() || replaying() || captured_) return;
  tell_snapshot(set, stream_, Hold::kStream, true);
}

CUresult HookedCall::match_next_entry() {
  entry_ = &environment_->replay().match_next_entry(hook_, key);
  if ((entry_->head.flags & kHasAnswer) == 0) environment_->replay().deliver(*entry_);
  return static_cast<CUresult>(entry_->head.result);
}

void HookedCall::take_answer(void* to, size_t bytes) {
  take_answer(plain_block(to, bytes));
}

void HookedCall::take_answer(const HostBlock& to) {
  if (entry_->answer.size() != to.bytes()) {
    fatal(kExitDamaged, "the replay journal is damaged: an answer to " +
                            std::string(name_of(hook_)) + " has the wrong size");
  }
  const std::byte* from = entry_->answer.data();
  to.for_each_row([&](auto row) {
    std::memcpy(row.data(), from, row.size());
    from += row.size();
  });
  host_updates().note_answered(to);
  environment_->replay().deliver(*entry_);
}

void HookedCall::must_succeed(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  fatal(kExitImpossible, std::string(name_of(hook_)) + " succeeded when it was recorded and says " +
                             error_name(driver(), result) + " now");
}

}  // namespace gpusnap
