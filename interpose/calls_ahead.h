// Looks ahead in the replay journal, with a reader of its own: which call a thread made next,
// before the others have come so far. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "interpose/replayer.h"

namespace gpusnap {

class CallsAhead {
 public:
  explicit CallsAhead(std::unique_ptr<Replayer> replayer) : replayer_(std::move(replayer)) {}

  // Whether the first call of that thread from number `from` on, counted over all threads, is this
  // one. False where it made none, where that is too far ahead and where the journal cannot be read
  // so far, which the reader of the replay will say. `from` never goes back.
  bool next_is(std::string_view thread, uint64_t from, uint16_t hook, const CallKey& key);

 private:
  struct Seen {
    uint64_t number = 0;
    std::string thread;
    uint16_t hook = 0;
    uint64_t digest = 0;  // of words and name
  };
  bool read_one();

  std::unique_ptr<Replayer> replayer_;
  bool ended_ = false;
  Entry entry_;
  std::deque<Seen> seen_;
};

}  // namespace gpusnap
