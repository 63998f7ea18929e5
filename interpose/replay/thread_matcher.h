// SPDX-License-Identifier: Apache-2.0
//
// Which thread of a replay does what which thread of the recording did. Pure logic, without clock,
// lock or driver.
//
// Threads of a pool take whatever task comes: which of them has a task is decided anew in each run.
// A thread is in the *place* of the recorded thread whose calls it makes, at first that of its own
// path. Two threads that come with each other's calls exchange their places.
//
// A task may begin with calls that carry nothing by which tasks differ (an event is made). Such
// calls are *loose*: when a thread's next call tells that it is about another task than its place
// had, the loose calls that it has just made count as those of the task that it is about, and the
// thread that does the other task makes them in its turn.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/entry.h"

namespace gpusnap {

class ThreadMatcher {
 public:
  // A call with which a thread has come although its entry said another one.
  struct Mismatch {
    uint64_t refused = 0;  // of the entry that it is not: its number and one; 0: not compared
    uint16_t hook = 0;
    std::vector<uint64_t> words{};
    std::string name{};
    uint64_t data = 0;
    bool launches = false;
    // Whether its content says which task it is of: a launch has the same words in all tasks, so
    // that it is its arguments that do.
    bool tells_apart() const {
      return launches ? data != 0 : !words.empty() || !name.empty() || data != 0;
    }
    CallKey key() const;
  };

  // `allow_data`: calls are not compared by the data that they give to the device.
  void allow_data(bool allow) { allow_data_ = allow; }

  const std::string& place_of(const std::string& path) const;
  const std::string& path_at(const std::string& place) const;
  // By the path of the one, the path of the other. As Recorder::name_threads() wants it.
  const std::map<std::string, std::string>& places() const { return places_; }
  void exchange(const std::string& path, const std::string& other);
  // The main thread has no other's place.
  static bool may_exchange(std::string_view place) { return place != kMainThread; }
  static bool are_siblings(std::string_view one, std::string_view other);

  void note_mismatch(const std::string& path, Mismatch call) {
    mismatches_[path] = std::move(call);
  }
  const Mismatch* mismatch_of(const std::string& path) const;
  void forget_mismatch(const std::string& path) { mismatches_.erase(path); }
  // Whether the call that `path` has come with was found not to be the one of that number.
  bool refuses(const std::string& path, uint64_t number) const;
  // Whether the entry is that call; and by what the call says of the task that it is of.
  bool is_same(const Entry& entry, const Mismatch& call) const;
  bool is_told_by(const Entry& entry, const Mismatch& call) const;

  // ---- loose calls, by place
  static bool is_loose(const Entry& entry);
  // The thread in that place has made the call of the recording.
  void note_made(uint64_t number, const std::string& place, const Entry& made);
  // Calls of a place that are to be made again, before its next one of the journal.
  bool has_reopened(const std::string& place) const;
  bool any_reopened() const;
  const std::deque<SeenEntry>& reopened(const std::string& place) { return reopened_[place]; }
  const std::map<std::string, std::deque<SeenEntry>>& all_reopened() const { return reopened_; }

  // How two places exchange their threads: the last `mine` loose calls of the first place are of
  // the other place's task, and the last `others` ones of the other place of the first one's.
  struct Trade {
    size_t mine = 0, others = 0;
  };
  // The calls that a place has to come, in order; at least kMostLoose + 1 calls if there are so
  // many.
  using Coming = std::vector<SeenEntry>;
  static constexpr size_t kMostLoose = 16;
  // The call after the trade that the first place's thread would make; null: there is none.
  const SeenEntry* call_after(const Trade& trade, const std::string& other,
                              const Coming& others) const;
  bool is_possible(const Trade& trade, const std::string& place, const Coming& mine,
                   const std::string& other, const Coming& others) const;
  // Calls that a trade makes count as made, and calls that are to be made again.
  Coming carry_out(const Trade& trade, const std::string& place, const Coming& mine,
                   const std::string& other, const Coming& others);

 private:
  const std::vector<SeenEntry>& loose_of(const std::string& place) const;

  bool allow_data_ = false;
  std::map<std::string, std::string> places_;
  std::map<std::string, Mismatch> mismatches_;
  std::map<std::string, std::vector<SeenEntry>> loose_;
  std::map<std::string, std::deque<SeenEntry>> reopened_;
};

}  // namespace gpusnap
