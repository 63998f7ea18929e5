// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cstring>

namespace gpusnap::replay_model {

namespace {
using Act = ReplayScheduler::Act;
using Motion = ReplayScheduler::Motion;

Entry entry_of(uint16_t hook, const CallKey& key) {
  Entry entry;
  entry.head.hook = hook;
  entry.words.assign(key.words, key.words + key.count);
  entry.head.words = key.count;
  entry.name = key.name;
  entry.data = key.data;
  if (key.data != 0) entry.head.flags |= kHasData;
  return entry;
}
}  // namespace

const char* text(Outcome outcome) {
  constexpr const char* kTexts[] = {"live", "diverged", "given up", "wrong", "pruned"};
  return kTexts[static_cast<int>(outcome)];
}

// ---- recording

namespace {
class Recording {
 public:
  Recording(const Program& program, Chooser& choices) : host_(program), choices_(choices) {}

  Journal run() {
    for (;;) {
      std::vector<size_t> can;
      for (size_t i = 0; i < host_.count(); ++i) {
        if (host_.can_move(i) || (host_.is_at_call(i) && can_end(i))) can.push_back(i);
      }
      if (begun_ || !queued_.empty()) can.push_back(host_.count());
      if (can.empty()) break;
      const size_t who = can[choices_.choose(static_cast<unsigned>(can.size()))];
      if (who == host_.count()) {
        device();
      } else if (host_.is_at_call(who) || host_.come_to_call(who)) {
        if (can_end(who)) end_call(who);
      }
    }
    return std::move(journal_);
  }

 private:
  // Functions in streams come one after the other.
  void device() {
    if (!begun_) {
      add_function(kCallbackEntry);
      begun_ = true;
      return;
    }
    begun_ = false;
    host_.set_flag(queued_.front().second);
    add_function(kCallbackEndEntry);
    queued_.erase(queued_.begin());
  }
  void add_function(uint16_t kind) {
    CallKey key;
    key.add(queued_.front().first);
    add(entry_of(kind, key), journal_.empty() ? "main" : journal_.back().seen.thread, "");
  }
  bool can_end(size_t thread) const {
    return host_.op(thread).hook != HookId::cuStreamSynchronize || (!begun_ && queued_.empty());
  }
  void end_call(size_t thread) {
    const Op& op = host_.op(thread);
    Entry entry = entry_of(static_cast<uint16_t>(op.hook), host_.key_of(thread));
    entry.head.deliveries = op.delivers ? 1 : 0;
    uint64_t address = 0;
    if (op.hook == HookId::cuMemAlloc_v2) {
      address = driver_.get(op.word);
      entry.answer.resize(sizeof address);
      std::memcpy(entry.answer.data(), &address, sizeof address);
      entry.head.flags |= kHasAnswer;
    }
    if (op.hook == HookId::cuMemFree_v2) driver_.give(host_.memory(thread));
    if (op.hook == HookId::cuLaunchHostFunc) queued_.emplace_back(functions_++, op.which);
    add(std::move(entry), host_.path(thread), host_.name_of_op(thread));
    host_.made(thread, address);
  }
  void add(Entry entry, const std::string& thread, const std::string& of) {
    const bool is_call = entry.head.hook < kOutcomeEntry;
    journal_.push_back({{calls_, thread, std::move(entry)}, of});
    if (is_call) ++calls_;
  }

  Host host_;
  Chooser& choices_;
  Driver driver_;
  Journal journal_;
  uint64_t calls_ = 0, functions_ = 0;
  std::vector<std::pair<uint64_t, unsigned>> queued_;  // number, flag
  bool begun_ = false;
};
}  // namespace

Journal record(const Program& program, Chooser& choices) {
  return Recording(program, choices).run();
}

Journal cut_before(const Journal& journal, size_t index) {
  Journal cut(journal.begin(), journal.begin() + static_cast<ptrdiff_t>(index));
  Entry entry;
  entry.head.hook = kCutEntry;
  const bool at_end = index == journal.size();
  if (at_end) entry.head.flags = kAtCallEnd;
  const SeenEntry& beside = journal[at_end ? index - 1 : index].seen;
  const uint64_t number = beside.number + (at_end ? 1 : 0);
  cut.push_back({{number, beside.thread, entry}, ""});
  return cut;
}

// ---- replay

namespace {
class Replaying final : public ReplayScheduler::World {
 public:
  Replaying(const Program& program, const Journal& journal, Chooser& choices,
            std::set<uint64_t>* seen)
      : host_(program),
        journal_(journal),
        choices_(choices),
        seen_(seen),
        asleep_(host_.count()),
        ahead_([this](SeenEntry& entry) {
          if (read_ahead_ == journal_.size()) return false;
          entry = journal_[read_ahead_++].seen;
          return true;
        }) {
    for (const Recorded& each : journal) calls_ += each.seen.is_call() ? 1 : 0;
  }

  CallsAhead* ahead() override { return &ahead_; }
  bool keeps_order() const override { return false; }
  bool has_one_context() const override { return true; }
  bool is_occupied(uint64_t address, uint64_t size) const override {
    return std::ranges::any_of(known_, [&](const auto& each) {
      return each.first < address + size && address < each.first + each.second;
    });
  }
  bool has_ended(uint64_t function) const override { return ended_.contains(function); }

  Replay run() {
    constexpr int kMostSteps = 100000;
    for (int steps = 0; !done_; ++steps) {
      steps < kMostSteps ? step() : end(Outcome::kWrong, "goes on for ever");
    }
    return {outcome_, why_};
  }

 private:
  void end(Outcome outcome, const std::string& why) {
    if (done_) return;
    done_ = true;
    outcome_ = outcome;
    why_ = why;
  }

  void step() {
    std::vector<size_t> can;
    for (size_t i = 0; i < host_.count(); ++i) {
      if (host_.can_move(i) || (host_.is_at_call(i) && !asleep_[i])) can.push_back(i);
    }
    if (!running_.empty()) can.push_back(host_.count());
    if (can.empty()) return nobody_moves();
    if (seen_ != nullptr && can.size() > 1 && choices_.is_new() &&
        !seen_->insert(digest()).second) {
      return end(Outcome::kPruned, "");
    }
    const size_t who = can[choices_.choose(static_cast<unsigned>(can.size()))];
    if (who == host_.count()) {
      end_function();
    } else if (host_.is_at_call(who) || host_.come_to_call(who)) {
      come(who, Motion::kMoves);
    }
  }

  // Nobody can go on by itself: the waiting threads look.
  void nobody_moves() {
    if (live_ || host_.all_ended()) return finish();
    for (const Motion motion : {Motion::kStill, Motion::kDead}) {
      const uint64_t before = moves_;
      for (size_t i = 0; i < host_.count(); ++i) {
        if (host_.is_at_call(i)) come(i, motion);
        if (done_ || moves_ != before) return;
      }
    }
    end(Outcome::kGivenUp, awaited());
  }
  std::string awaited() {
    return scheduler_.head() == nullptr ? "nothing" : scheduler_.awaited_path();
  }

  void finish() {
    if (!live_) {
      // The program ended at its place in the cut, or before.
      while (!scheduler_.is_cut_delivered() && carry_out(scheduler_.ask_end("main"))) {
      }
      if (!scheduler_.is_cut_delivered() && !scheduler_.all_made()) {
        return end(Outcome::kDiverged, "the end");
      }
    }
    if (!host_.all_ended()) return end(Outcome::kWrong, "live, and nobody goes on");
    for (const Recorded& each : journal_) {
      if (each.seen.is_call() && !matched_.contains(each.seen.number)) {
        return end(Outcome::kWrong, "never made: " + each.of);
      }
    }
    end(wrong_.empty() ? Outcome::kLive : Outcome::kWrong, wrong_);
  }

  // A thread asks with the call that it has come with.
  void come(size_t thread, Motion motion) {
    const std::string& path = host_.path(thread);
    if (live_) return make_live(thread);
    const Op& op = host_.op(thread);
    if (!asleep_[thread] && motion == Motion::kMoves) scheduler_.waits_no_longer(path);
    while (!done_) {
      const auto step = op.kind == Op::kOnce
                            ? scheduler_.claim(path, op.hook, host_.key_of(thread), false, motion)
                            : scheduler_.ask(path, op.hook, motion);
      if (step.act == Act::kTurn || step.act == Act::kAhead) {
        awake(thread);
        return take_turn(thread, step.act == Act::kAhead);
      }
      if (step.act == Act::kGoLive) {
        awake(thread);
        go_live();
        return make_live(thread);
      }
      if (step.act == Act::kDiverged) return end(Outcome::kDiverged, "a step");
      if (!carry_out(step)) break;
      ++moves_;
    }
    if (scheduler_.take_news()) wake();
    if (!asleep_[thread]) scheduler_.waits(path, static_cast<uint16_t>(op.hook));
    asleep_[thread] = true;
  }
  void awake(size_t thread) {
    ++moves_;
    if (asleep_[thread]) scheduler_.waits_no_longer(host_.path(thread));
    asleep_[thread] = false;
  }
  // A thread that sleeps goes on waiting, for the scheduler, until it asks.
  void wake() {
    (void)scheduler_.take_news();
    const std::string* const awaited = live_ ? nullptr : scheduler_.awaited_waiter();
    const std::string path = awaited == nullptr ? "" : *awaited;  // which waits no longer
    for (size_t i = 0; i < host_.count(); ++i) {
      if (!asleep_[i] || (!path.empty() && host_.path(i) != path)) continue;
      asleep_[i] = false;
      scheduler_.waits_no_longer(host_.path(i));
    }
  }

  bool carry_out(const ReplayScheduler::Step& step) {
    const Entry* const head = scheduler_.head();
    switch (step.act) {
      case Act::kRead:
        return read();
      case Act::kBeginFunction:
        running_.push_back(head->words[0]);
        scheduler_.passed();
        return true;
      case Act::kEndFunction:
        scheduler_.passed();
        return true;
      case Act::kDeliverCut:
        scheduler_.cut_delivered(true);
        return true;
      default:
        return false;
    }
  }
  bool read() {
    while (scheduler_.head() == nullptr) {
      if (read_ == journal_.size()) {
        end(Outcome::kWrong, "reads behind the cut");
        return false;
      }
      const SeenEntry& entry = journal_[read_++].seen;
      const uint64_t calls = entry.number + (entry.is_call() ? 1 : 0);
      if (scheduler_.read(entry.entry, entry.thread, calls, calls == calls_) ==
          ReplayScheduler::Reading::kDiverged) {
        end(Outcome::kDiverged, "made ahead");
        return false;
      }
    }
    return true;
  }

  void take_turn(size_t thread, bool is_ahead) {
    const Op& op = host_.op(thread);
    if (is_ahead) {
      for (const Recorded& each : journal_) {
        if (each.of == host_.name_of_op(thread)) match(thread, each.seen.number);
      }
      host_.made(thread, 0);
      return end_turn();
    }
    if (!make_memory_before()) {
      scheduler_.give_up_early();
      return wake();
    }
    const ReplayScheduler::Turn& turn = scheduler_.turn();
    if (turn.after_cut) return make_after_cut(thread);
    const uint64_t number = turn.early ? turn.early->number : scheduler_.calls_read() - 1;
    const auto compared = scheduler_.compare(op.hook, host_.key_of(thread));
    if (compared == ReplayScheduler::Compared::kMismatch) return end_turn();
    if (compared != ReplayScheduler::Compared::kSame) {
      return end(Outcome::kDiverged, host_.name_of_op(thread));
    }
    match(thread, number);
    make(thread, scheduler_.entry(), turn.was_made);
    end_turn();
  }
  // Nothing may tell it from the same call after the cut.
  void make_after_cut(size_t thread) {
    const Op& op = host_.op(thread);
    uint64_t address = 0;
    if (op.hook == HookId::cuMemAlloc_v2) {
      address = driver_.get(op.word);
      known_[address] = op.word;
    } else if (!running_.empty()) {
      wrong_ = host_.name_of_op(thread) + " does not wait for a host function";
    }
    if (is_to_come(host_.name_of_op(thread))) wrong_ = host_.name_of_op(thread) + " has an entry";
    scheduler_.made_after_cut(op.hook, host_.key_of(thread), 0, {});
    host_.made(thread, address);
    end_turn();
  }
  bool is_to_come(const std::string& name) const {
    return std::ranges::any_of(journal_, [&](const Recorded& each) {
      return each.of == name && !matched_.contains(each.seen.number);
    });
  }
  void match(size_t thread, uint64_t number) {
    for (const Recorded& each : journal_) {
      if (!each.seen.is_call() || each.seen.number != number) continue;
      // Calls that nothing tells apart may be exchanged: what came of them is the same, or is
      // compared when it is used.
      const std::string now = host_.name_of_op(thread);
      if (each.seen.entry.data != 0 && each.of != now)
        wrong_ = now + " got what came of " + each.of;
    }
    matched_.insert(number);
  }

  // The call that has the turn.
  void make(size_t thread, const Entry& entry, bool was_made) {
    const Op& op = host_.op(thread);
    uint64_t address = 0;
    if (op.hook == HookId::cuMemAlloc_v2) {
      std::memcpy(&address, entry.answer.data(), sizeof address);
      if (!was_made && driver_.get(op.word) != address) wrong_ = "memory lies elsewhere";
      known_[address] = op.word;
    }
    if (op.hook == HookId::cuMemFree_v2) {
      if (!was_made && !driver_.give(host_.memory(thread))) wrong_ = "freed twice";
      known_.erase(host_.memory(thread));
    }
    if (op.hook == HookId::cuLaunchHostFunc) flag_of_function_.push_back(op.which);
    host_.made(thread, address);
  }
  bool make_memory_before() {
    for (const SeenEntry& call : scheduler_.memory_calls_before()) {
      const Entry& entry = call.entry;
      if (entry.answer.empty()) {
        if (!driver_.give(entry.words[0])) return false;
      } else {
        uint64_t address = 0;
        std::memcpy(&address, entry.answer.data(), sizeof address);
        if (driver_.get(entry.words[0]) != address) return false;
      }
      scheduler_.made_for_other(call.number);
    }
    return true;
  }
  void end_turn() {
    ++moves_;
    pass_functions();
    scheduler_.end_turn();
    const Entry* const head = scheduler_.head();
    if (head != nullptr && head->head.hook == kCutEntry && (head->head.flags & kAtCallEnd) != 0) {
      scheduler_.cut_delivered(true);
    }
    wake();
  }
  void pass_functions() {
    while (!done_ && carry_out(scheduler_.pass_functions(""))) {
    }
  }
  void end_function() {
    const uint64_t function = running_.front();
    running_.erase(running_.begin());
    ended_.insert(function);
    host_.set_flag(flag_of_function_[function]);
    ++moves_;
    pass_functions();
    wake();
  }

  void go_live() {
    if (matched_.size() != calls_) return end(Outcome::kWrong, "live before all calls were made");
    live_ = true;
    for (const unsigned flag : flag_of_function_) host_.set_flag(flag);
    asleep_.assign(host_.count(), false);
  }
  void make_live(size_t thread) {
    const Op& op = host_.op(thread);
    uint64_t address = 0;
    if (op.hook == HookId::cuMemAlloc_v2) address = driver_.get(op.word);
    if (op.hook == HookId::cuMemFree_v2) driver_.give(host_.memory(thread));
    if (op.hook == HookId::cuLaunchHostFunc) host_.set_flag(op.which);
    host_.made(thread, address);
  }

  uint64_t digest() const {
    uint64_t number = host_.digest();
    const auto mix = [&number](uint64_t more) { number = (number ^ more) * 0x9e3779b97f4a7c15; };
    const auto mix_text = [&](const std::string& text) { mix(std::hash<std::string>{}(text)); };
    for (const uint64_t call : matched_) mix(call + 1);
    for (size_t i = 0; i < host_.count(); ++i) {
      mix(asleep_[i] ? 7 : 8);
      mix_text(scheduler_.matcher().place_of(host_.path(i)));
      const auto* const call = scheduler_.matcher().mismatch_of(host_.path(i));
      mix(call == nullptr ? 0 : call->refused + 10);
    }
    for (const auto& made : scheduler_.ahead()) mix(made.words.empty() ? 1 : made.words[0] + 2);
    for (const auto& [address, size] : driver_.blocks()) mix(address);
    for (const uint64_t function : running_) mix(function + 90);
    for (const uint64_t function : ended_) mix(function + 900);
    mix(read_ * 2 + (live_ ? 1 : 0));
    mix_text(wrong_);
    return number;
  }

  Host host_;
  const Journal& journal_;
  Chooser& choices_;
  std::set<uint64_t>* seen_;
  ReplayScheduler scheduler_{*this};
  Driver driver_;
  std::map<uint64_t, uint64_t> known_;  // memory that threads have, as the session knows it
  std::vector<bool> asleep_;            // waits, and is not woken
  std::set<uint64_t> matched_;
  std::vector<uint64_t> running_;
  std::vector<unsigned> flag_of_function_;
  std::set<uint64_t> ended_;
  size_t read_ = 0, read_ahead_ = 0;
  CallsAhead ahead_;
  uint64_t calls_ = 0, moves_ = 0;
  bool live_ = false, done_ = false;
  Outcome outcome_ = Outcome::kGivenUp;
  std::string why_, wrong_;
};
}  // namespace

Replay replay(const Program& program, const Journal& journal, Chooser& choices,
              std::set<uint64_t>* seen) {
  return Replaying(program, journal, choices, seen).run();
}

}  // namespace gpusnap::replay_model
