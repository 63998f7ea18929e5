// Looks ahead in the replay journal, with a reader of its own: which call a thread made next, and
// whether there was a cut, before the replay has come so far. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
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

// But for what concerns a thread alone.
class CallsAhead {
 public:
  explicit CallsAhead(std::unique_ptr<Replayer> replayer) : replayer_(std::move(replayer)) {}

  // Whether the first call of that thread from number `from` on, counted over all threads, is this
  // one. False where it made none, where that is too far ahead and where the journal cannot be read
  // so far, which the reader of the replay will say. `from` never goes back. The key has been
  // looked at; `arguments`: what same_data() asks.
  bool next_is(std::string_view thread, uint64_t from, uint16_t hook, const CallKey& key,
               bool arguments = false);
  // Whether a cut was made at the end of the call before number `from`, whatever is in between,
  // which can only be host functions that were running. Again `from` never goes back.
  bool cut_at_end_comes(uint64_t from);

 private:
  struct Seen {
    uint64_t number = 0;
    std::string thread;
    uint16_t hook = 0;
    uint64_t digest = 0;  // of words and name
    uint64_t data = 0;
  };
  bool read_one();
  void forget_before(uint64_t from);

  std::unique_ptr<Replayer> replayer_;
  bool ended_ = false;
  Entry entry_;
  std::deque<Seen> seen_;
  std::deque<uint64_t> cuts_at_end_;  // the numbers of the calls behind them
};

}  // namespace gpusnap
