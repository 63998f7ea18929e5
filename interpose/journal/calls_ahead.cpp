#include "interpose/journal/calls_ahead.h"

#include <algorithm>
#include <span>

#include "interpose/cuda/hooks_generated_ids.h"

namespace gpusnap {

namespace {
// The most entries that are kept: some tens of megabytes.
constexpr size_t kMostSeen = 1 << 18;
constexpr size_t kMostAnswer = 256;

bool is_kept(const SeenEntry& seen) {
  return seen.entry.head.hook != kOutcomeEntry && !concerns_thread_alone(seen.entry, seen.thread);
}
}  // namespace

bool concerns_thread_alone(const Entry& entry, std::string_view thread) {
  return entry.head.hook == static_cast<uint16_t>(HookId::cuCtxSetCurrent) &&
         entry.head.result == 0 && entry.head.deliveries == 0 && entry.data != 0 &&
         thread != kMainThread;
}

CallsAhead::CallsAhead(std::unique_ptr<Replayer> replayer)
    : source_([replayer = std::shared_ptr<Replayer>(std::move(replayer))](SeenEntry& seen) {
        const Result<bool> any = replayer->next_if_any(seen.entry);
        if (!any.ok() || !any.value() || !replayer->skip_deliveries(seen.entry).ok()) return false;
        seen.number = replayer->calls_read() - (seen.is_call() ? 1 : 0);
        if (seen.entry.head.hook != kOutcomeEntry) seen.thread = replayer->thread();
        return true;
      }) {}

bool CallsAhead::read_one() {
  while (!ended_) {
    SeenEntry seen;
    ended_ = !source_(seen);
    if (ended_ || !is_kept(seen)) continue;
    if (seen.entry.answer.size() > kMostAnswer) {
      seen.entry.answer = {};
      seen.is_whole = false;
    }
    seen_.push_back(std::move(seen));
    return true;
  }
  return false;
}

void CallsAhead::forget_before(uint64_t number) {
  do {
    while (!seen_.empty() && seen_.front().number < number) seen_.pop_front();
  } while (seen_.empty() && read_one() && seen_.front().number < number);
}

const SeenEntry* CallsAhead::at(size_t index) {
  while (index >= seen_.size()) {
    if (seen_.size() >= kMostSeen || !read_one()) return nullptr;
  }
  return &seen_[index];
}

bool CallsAhead::cut_at_end_comes(uint64_t from) {
  forget_before(from);
  for (size_t i = 0; const SeenEntry* seen = at(i); ++i) {
    if (seen->number != from || seen->is_call()) break;
    if (seen->entry.head.hook == kCutEntry) return (seen->entry.head.flags & kAtCallEnd) != 0;
  }
  return false;
}

bool is_call(const SeenEntry& seen, uint16_t hook, const CallKey& key, bool arguments) {
  return seen.entry.head.hook == hook && seen.entry.name == key.name &&
         std::ranges::equal(seen.entry.words, std::span(key.words, key.count)) &&
         same_data(seen.entry.data, key.data, arguments);
}

}  // namespace gpusnap
