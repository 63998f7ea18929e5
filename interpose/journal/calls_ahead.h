// Looks ahead in the replay journal, with a reader of its own: which calls a thread made next, and
// what is between them, before the replay has come so far. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "interpose/journal/replayer.h"
#include "interpose/threads/thread_name.h"

namespace gpusnap {

// Which context is current concerns the thread alone, so that a thread other than the main one may
// say so before its turn, and comes to what tells it apart. Not where the context is a new one,
// since they are numbered in the order in which they come up: then the entry has no data.
bool concerns_thread_alone(const Entry& entry, std::string_view thread);

// An entry of the journal, but for its deliveries.
struct SeenEntry {
  uint64_t number = 0;  // calls before it
  std::string thread;
  Entry entry;
  bool is_whole = true;  // false: its answer is too long to be kept

  bool is_call() const { return entry.head.hook < kOutcomeEntry; }
};

// Whether the entry is that call. The key has been looked at; `arguments`: what same_data() asks.
bool is_call(const SeenEntry& seen, uint16_t hook, const CallKey& key, bool arguments = false);

// But for what concerns a thread alone, and for outcomes of MPI calls.
class CallsAhead {
 public:
  // Gives the next entry of the journal; false: there is none, or it cannot be read.
  using Source = std::function<bool(SeenEntry&)>;
  explicit CallsAhead(Source source) : source_(std::move(source)) {}
  explicit CallsAhead(std::unique_ptr<Replayer> replayer);

  // The replay has come to the call of that number.
  void forget_before(uint64_t number);
  // The entry that so many are before, from the first one that is not forgotten. Null: there are no
  // more, or it is too far ahead.
  const SeenEntry* at(size_t index);

  // All of it has been seen.
  bool has_ended() const { return ended_; }

  // Whether a cut was made at the end of the call before number `from`, whatever is in between,
  // which can only be host functions that were running. `from` never goes back.
  bool cut_at_end_comes(uint64_t from);

 private:
  bool read_one();

  Source source_;
  bool ended_ = false;
  std::deque<SeenEntry> seen_;
};

}  // namespace gpusnap
