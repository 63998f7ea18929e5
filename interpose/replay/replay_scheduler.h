// SPDX-License-Identifier: Apache-2.0
//
// Decides in a replay which thread makes which call when. A pure state machine: it is told what the
// journal's next entry is, which threads have come with which calls, and what has ended; it answers
// who goes on. It knows no clock, lock or driver, and blocks nobody.
//
// The journal's next entry is the *head*. The thread in the head's place has the *turn*; one thread
// at a time has it. Beside that:
//   - A thread whose own next call may be made before the earlier calls of others (hooks.table,
//     order) goes early: it need not wait for a thread that may be waiting for it in host code.
//   - A thread that has made its calls of before the cut, and that the others wait for, makes calls
//     of after the cut that get memory or ask.
//   - Any thread may make the calls that are made for all others (hooks.table, threads).
//   - Threads that come with each other's calls exchange their places (thread_matcher.h).
//
// Whether others may still come, which time decides elsewhere, is an event here: Motion.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/hook/hook.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/entry.h"
#include "interpose/replay/thread_matcher.h"

namespace gpusnap {

class ReplayScheduler {
 public:
  // It is asked at the moment of a decision.
  class World {
   public:
    virtual ~World() = default;
    // Null: the journal cannot be looked at ahead.
    virtual CallsAhead* ahead() = 0;
    // No call may be made before earlier ones of other threads: they would disturb each other.
    virtual bool keeps_order() const = 0;
    // Whether device memory is in use there; and all of it is of one context.
    virtual bool is_occupied(uint64_t address, uint64_t size) const = 0;
    virtual bool has_one_context() const = 0;
    // Whether the host function has run to its end.
    virtual bool has_ended(uint64_t function) const = 0;
  };

  // Whether the threads that have not come may still come by themselves.
  enum class Motion : uint8_t {
    kMoves,
    kStill,  // none: each that matters waits for another one
    kDead,   // and this has been so for long
  };

  enum class Act : uint8_t {
    kWait,
    kRead,           // read the journal's next entry, tell it by read(), and ask again
    kBeginFunction,  // the head is a host function that begins: begin it, passed(), ask again
    kEndFunction,    // likewise, that has ended
    kDeliverCut,     // the head is a cut: deliver it, cut_delivered(), ask again
    kGoLive,
    kTurn,   // the thread makes the call: turn() says of which entry
    kAhead,  // the thread makes it ahead of its entry, and has the turn
    kAlone,  // it concerns the thread alone, and needs no turn
    kDiverged,
  };
  enum class Divergence : uint8_t {
    kNone,
    kCutAtCollective,  // the cut was made at a collective, and the thread comes with another call
    kNotACut,          // the reverse
    kLoadedTwice,      // two threads load the same code in another order
    kEndedEarly,       // the program ends, and the thread had another call
  };
  struct Step {
    Act act = Act::kWait;
    Divergence why = Divergence::kNone;
  };

  struct Turn {
    bool taken = false;
    std::string path{};  // empty: of the thread that goes live
    const Entry* entry = nullptr;
    std::optional<SeenEntry> early{};  // the entry, if it is not the head
    bool looks = false;                // only to find out what its call is
    bool insists = false;              // a difference is a divergence
    bool was_made = false;             // by another thread, for the sake of the driver's order
    bool after_cut = false;            // the call has no entry: it is one of after the cut
    bool gets_after_cut = false;       // and gets memory

    // Nobody's. In place, since there is one for each call.
    void clear() {
      taken = looks = insists = was_made = after_cut = gets_after_cut = false;
      path.clear();
      entry = nullptr;
      early.reset();
    }
  };

  // A call that was made ahead of its entry, or before the cut although it is one of after it.
  struct Ahead {
    std::string path{};  // of the thread that made it
    bool after_cut = false;
    uint16_t hook = 0;
    std::vector<uint64_t> words{};
    std::string name{};
    int32_t result = 0;
    std::vector<std::byte> answer{};
  };

  enum class Compared : uint8_t { kSame, kMismatch, kOtherCall, kOtherData };

  explicit ReplayScheduler(World& world) : world_(world) {}
  ReplayScheduler(const ReplayScheduler&) = delete;
  ReplayScheduler& operator=(const ReplayScheduler&) = delete;

  // ---- events
  // The journal's next entry; `entry` stays as it is until the next one is read. `calls`: so many
  // have been read; `at_cut`: that is all of them. The answer: it is the head; it has been made
  // already and is passed over, what it delivers delivered; or a call was made ahead of it that
  // came after it.
  enum class Reading : uint8_t { kHead, kPassedOver, kDiverged };
  Reading read(const Entry& entry, const std::string& thread, uint64_t calls, bool at_cut);
  void passed();
  // `last`: the one that is restored.
  void cut_delivered(bool last);
  // A thread waits for an answer with that call, and does so no longer.
  void waits(const std::string& path, uint16_t hook) { waiting_.emplace(path, hook); }
  void waits_no_longer(const std::string& path);
  // The thread with the turn has come to compare its call, or to find the device busy again.
  Compared compare(HookId hook, const CallKey& key);
  void made();
  void end_turn();
  // The turn is that of an early call. Calls of others that get and give back memory, in order,
  // that the driver must get before it; one of them has been made; they cannot be made, so the
  // thread waits.
  std::vector<SeenEntry> memory_calls_before();
  void made_for_other(uint64_t number) { made_for_others_.insert(number); }
  void give_up_early();
  // The turn is that of a call of after the cut, which has been made.
  void made_after_cut(HookId hook, const CallKey& key, int32_t result,
                      std::span<const std::byte> answer);
  // A thread goes live: nobody has the turn meanwhile.
  void go_live();
  // Data that is given to the device is not compared.
  void allow_data();

  // ---- questions
  // The thread at `path` has come with a call whose content is found out when it is made.
  Step ask(const std::string& path, HookId hook, Motion motion);
  // The same of a call whose content is known, which any thread may make; `alone`: it concerns the
  // thread alone.
  Step claim(const std::string& path, HookId hook, const CallKey& key, bool alone, Motion motion);
  // The thread ends the program; it is in a collective at which a cut was made; it is in a
  // collective, and must be live.
  Step ask_end(const std::string& path);
  Step ask_collective(const std::string& path);
  Step ask_live(const std::string& path);
  // Host functions that have come up are passed without a thread, or in the call of one.
  Step pass_functions(const std::string& in_call);

  const Turn& turn() const { return turn_; }
  // The entry of the turn.
  const Entry& entry() const { return *turn_.entry; }
  const Entry* head() const { return head_; }
  const std::string& head_place() const { return head_place_; }
  uint64_t calls_read() const { return calls_read_; }
  bool is_cut_delivered() const { return cut_delivered_; }
  bool is_at_collective() const;
  bool all_made() const;
  uint64_t turns() const { return turns_; }
  // The waiting thread that may go on; null: any of them may.
  const std::string* awaited_waiter() const;
  // Whether a question was answered in a way that others should hear of: all should ask again.
  bool take_news() { return std::exchange(news_, false); }
  // The thread whose turn it is, or is to come.
  const std::string& awaited_path() const;
  const ThreadMatcher& matcher() const { return matcher_; }
  ThreadMatcher& matcher() { return matcher_; }
  // The calls that were made ahead of their entries and have not come up: those of after the cut.
  const std::deque<Ahead>& ahead() const { return ahead_; }

 private:
  Step look(const std::string& path, bool in_collective);
  bool is_mine(const std::string& path) const;
  bool is_head_call() const { return head_ != nullptr && head_->head.hook < kOutcomeEntry; }
  bool is_head_cut() const { return head_ != nullptr && head_->head.hook == kCutEntry; }
  uint64_t head_number() const { return calls_read_ - 1; }
  // The number of the first call that the journal's reader has not passed.
  uint64_t head_position() const { return is_head_call() ? head_number() : calls_read_; }
  void begin_turn(const std::string& path);
  void begin_early(const std::string& path, const SeenEntry& entry);
  void begin_look(const std::string& path);

  bool takes_own(const std::string& path, HookId hook, Motion motion);
  bool takes_reopened(const std::string& path, HookId hook);
  bool takes_head_of_sibling(const std::string& path, HookId hook, bool still);
  bool is_cut_of_sibling(const std::string& place) const;
  bool takes_cut_of_sibling(const std::string& path);
  bool may_go_live_for_other() const;
  bool own_call_comes(uint16_t hook, const CallKey& key, const std::string& place, bool arguments);

  size_t look_from_head(CallsAhead& ahead) const;
  bool is_to_come(const SeenEntry& seen) const;
  bool more_comes(const std::string& place);
  bool goes_early(const std::string& path, HookId hook);
  bool may_go_early(CallsAhead& ahead, size_t first, size_t index) const;
  bool may_make_memory(const Entry& call) const;
  bool goes_after_cut(const std::string& path, HookId hook);
  bool may_go_after_cut(CallsAhead& ahead, bool gets) const;
  bool may_pass(const Entry& call, const SeenEntry& earlier) const;

  std::map<std::string, ThreadMatcher::Coming> all_coming();
  bool is_call_of(const std::string& path, HookId hook, const SeenEntry& seen) const;
  bool is_served(const std::string& place, const SeenEntry& next) const;
  bool trades(const std::string& path, HookId hook);
  bool trades_with(const std::string& path, HookId hook, const ThreadMatcher::Coming& mine,
                   const std::map<std::string, ThreadMatcher::Coming>& all,
                   const ThreadMatcher::Trade& trade);

  bool is_head(HookId hook, const CallKey& key) const;
  Step take_for_all(const std::string& path, HookId hook, const CallKey& key, Motion motion);
  Step stand_in(const std::string& path, HookId hook, const CallKey& key);
  bool loads_twice(HookId hook, const CallKey& key);

  World& world_;
  ThreadMatcher matcher_;
  bool allow_data_ = false;

  const Entry* head_ = nullptr;
  std::string head_place_;
  uint64_t calls_read_ = 0;
  bool at_cut_ = false;
  bool cut_delivered_ = false;
  bool refused_ = false;  // the thread whose entry the head is has come with another call

  Turn turn_;
  uint64_t turns_ = 0;
  std::multimap<std::string, uint16_t> waiting_;
  std::set<uint64_t> made_;             // calls after the head, by number
  std::set<uint64_t> made_for_others_;  // with the driver, not by their threads
  std::set<uint64_t> launched_;         // kernels, by number
  // By path: the number of the entry that was looked at early, and is another call; of memory of
  // after the cut that could not be got, kAfterCut.
  static constexpr uint64_t kAfterCut = UINT64_MAX;
  std::map<std::string, uint64_t> looked_early_;

  bool news_ = false;

  // Which thread made calls for which other one, last; the code that was loaded so.
  std::string stands_in_, stood_in_for_;
  std::set<uint64_t> loaded_in_place_;
  std::deque<Ahead> ahead_;  // in order
  std::string went_ahead_;   // who made the last one
  uint64_t turns_when_ahead_ = UINT64_MAX;
};

}  // namespace gpusnap
