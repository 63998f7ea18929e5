#include "interpose/journal/calls_ahead.h"

#include <functional>
#include <span>

#include "interpose/cuda/hooks_generated_ids.h"

namespace gpusnap {

namespace {
// The most calls that are kept: some tens of megabytes.
constexpr size_t kMostSeen = 1 << 19;

uint64_t digest_of(std::span<const uint64_t> words, std::string_view name) {
  uint64_t digest = std::hash<std::string_view>{}(name);
  for (const uint64_t word : words) digest = digest * 31 + std::hash<uint64_t>{}(word);
  return digest;
}
}  // namespace

bool concerns_thread_alone(const Entry& entry, std::string_view thread) {
  return entry.head.hook == static_cast<uint16_t>(HookId::cuCtxSetCurrent) &&
         entry.head.result == 0 && entry.head.deliveries == 0 && entry.data != 0 &&
         thread != kMainThread;
}

bool CallsAhead::read_one() {
  while (!ended_) {
    const Result<bool> any = replayer_->next_if_any(entry_);
    ended_ = !any.ok() || !any.value() || !replayer_->skip_deliveries(entry_).ok();
    if (!ended_ && entry_.head.hook == kCutEntry && (entry_.head.flags & kAtCallEnd) != 0) {
      cuts_at_end_.push_back(replayer_->calls_read());
    }
    if (ended_ || entry_.head.hook >= kOutcomeEntry) continue;
    if (concerns_thread_alone(entry_, replayer_->thread())) continue;
    seen_.push_back({replayer_->calls_read() - 1, replayer_->thread(), entry_.head.hook,
                     digest_of(entry_.words, entry_.name), entry_.data});
    return true;
  }
  return false;
}

void CallsAhead::forget_before(uint64_t from) {
  while (!seen_.empty() && seen_.front().number < from) seen_.pop_front();
  while (!cuts_at_end_.empty() && cuts_at_end_.front() < from) cuts_at_end_.pop_front();
}

bool CallsAhead::cut_at_end_comes(uint64_t from) {
  do {
    forget_before(from);
  } while (seen_.empty() && read_one());
  return !cuts_at_end_.empty() && cuts_at_end_.front() == from;
}

bool CallsAhead::next_is(std::string_view thread, uint64_t from, uint16_t hook, const CallKey& key,
                         bool arguments) {
  forget_before(from);
  for (size_t i = 0; i < seen_.size() || read_one();) {
    if (seen_[i].number < from) {
      seen_.pop_front();  // i is 0: the numbers rise
      continue;
    }
    if (seen_[i].thread == thread) {
      return seen_[i].hook == hook &&
             seen_[i].digest == digest_of({key.words, key.count}, key.name) &&
             same_data(seen_[i].data, key.data, arguments);
    }
    if (++i == kMostSeen) break;
  }
  return false;
}

}  // namespace gpusnap
