#include "interpose/handlers/hooked_call.h"

#include <cstring>

#include "interpose/services/fatal.h"
#include "interpose/snapshot/snapshots.h"

namespace gpusnap {

void HookedCall::record_answer(CUresult result, const void* answer, size_t bytes) {
  const HostBlock block = plain_block(answer, bytes);
  session_->recorder().append(static_cast<uint16_t>(hook_), key, result, 0, &block, {});
}

void HookedCall::record_visible(CUresult result, bool all_done, const HostBlock* answer,
                                uint8_t flags) {
  if (result != CUDA_SUCCESS) {
    record(result);
    return;
  }
  if (answer != nullptr) session_->note_answered(*answer);
  const auto& deliveries = session_->collect(all_done, &flags);
  session_->recorder().append(static_cast<uint16_t>(hook_), key, result, flags, answer, deliveries);
}

void HookedCall::tell_writes() {
  if (writes_told_) return;
  writes_told_ = true;
  if (!writes.said()) writes.add_everything();
  session_->model().memory.lead(writes);
  // A call that takes effect at once, or at an unknown time, cannot wait on a stream.
  const bool at_once = writes_ == Writes::kFreed || writes_ == Writes::kEverything;
  session_->release();
  {
    const RelaxedCapture relaxed(session_->driver());
    session_->before_write(writes, stream_, at_once && !stream_given_ ? Hold::kHost : Hold::kStream,
                           writes_ == Writes::kFreed);
  }
  session_->acquire();
}

// Before anything runs that the checkpoint is without.
void HookedCall::reload() {
  const bool launches = writes_ == Writes::kKernel || writes_ == Writes::kGraph;
  if (launches && !captured_) session_->reload();
}

void HookedCall::before_free(const WriteSet& set) {
  if (!session_->snapshot_pending() || replaying() || captured_) return;
  session_->release();
  {
    const RelaxedCapture relaxed(session_->driver());
    session_->before_write(set, stream_, Hold::kStream, true);
  }
  session_->acquire();
}

CUresult HookedCall::match_next_entry() {
  entry_ = &session_->match_next_entry(hook_, key);
  if ((entry_->head.flags & kHasAnswer) == 0) session_->deliver(*entry_);
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
  session_->note_answered(to);
  session_->deliver(*entry_);
}

void HookedCall::must_succeed(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  fatal(kExitImpossible, std::string(name_of(hook_)) + " succeeded when it was recorded and says " +
                             error_name(session_->driver(), result) + " now");
}

}  // namespace gpusnap
