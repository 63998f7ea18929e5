// SPDX-License-Identifier: Apache-2.0
//
// A model of a program with threads, of its recording, and of its replay under the scheduler: host
// code that takes locks, waits and takes tasks, and a driver that gives memory by first fit. The
// code that runs the model chooses for the system and time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interpose/replay/replay_scheduler.h"
#include "tests/support/chooser.h"

namespace gpusnap::replay_model {

struct Op {
  enum Kind : uint8_t {
    kCall,
    kLock,
    kUnlock,
    kSet,    // a flag of the host
    kAwait,  // until it is set
    kOnce,   // the call is made by the first thread that comes; the others wait for it
    kTasks,  // takes tasks from the program's queue until there are no more
  };
  Kind kind = kCall;
  unsigned which = 0;  // lock, flag; of tasks: so many at most, or all
  HookId hook{};
  uint64_t word = 0;      // alloc: bytes; free: of the thread's last memory; else: what is compared
  uint64_t data = 0;      // that is given to the device
  bool delivers = false;  // the host is told more than the result
  bool at_memory = false;  // the data is about the memory that was got last, too
};
using Code = std::vector<Op>;

inline Op call(HookId hook, uint64_t word = 0, uint64_t data = 0) {
  return {.kind = Op::kCall, .hook = hook, .word = word, .data = data};
}
inline Op alloc(uint64_t bytes) {
  return call(HookId::cuMemAlloc_v2, bytes);
}
inline Op give_back() {
  return call(HookId::cuMemFree_v2);
}
inline Op launch(uint64_t data) {
  return call(HookId::cuLaunchKernel, 7, data << 16 | 1);
}
inline Op launch_on_memory(uint64_t data) {
  Op op = launch(data);
  op.at_memory = true;
  return op;
}
inline Op query() {
  return call(HookId::cuStreamQuery);
}
inline Op sync() {
  return call(HookId::cuStreamSynchronize);
}
inline Op event() {
  return call(HookId::cuEventCreate);
}
inline Op mark() {
  return call(HookId::cuEventRecord);
}
inline Op stream() {
  return call(HookId::cuStreamCreate, 1);
}
inline Op function(unsigned flag) {
  Op op = call(HookId::cuLaunchHostFunc);
  op.which = flag;
  return op;
}
inline Op lock(unsigned which = 0) {
  return {.kind = Op::kLock, .which = which};
}
inline Op unlock(unsigned which = 0) {
  return {.kind = Op::kUnlock, .which = which};
}
inline Op set(unsigned which) {
  return {.kind = Op::kSet, .which = which};
}
inline Op await(unsigned which) {
  return {.kind = Op::kAwait, .which = which};
}
inline Op once(unsigned which) {
  return {.kind = Op::kOnce, .which = which, .hook = HookId::cuModuleGetFunction, .word = which};
}
inline Op tasks() {
  return {.kind = Op::kTasks};
}
inline Op one_task() {
  return {.kind = Op::kTasks, .which = 1};
}

struct Program {
  std::vector<std::pair<std::string, Code>> threads{};  // path, code
  std::vector<Code> tasks{};                            // in the queue from the beginning
};

using test::Chooser;

// One entry of the journal, and which operation it was of.
struct Recorded {
  SeenEntry seen;
  std::string of;
};
using Journal = std::vector<Recorded>;

// The driver's memory: by first fit.
class Driver {
 public:
  uint64_t get(uint64_t bytes);
  bool give(uint64_t address) { return blocks_.erase(address) != 0; }
  const std::map<uint64_t, uint64_t>& blocks() const { return blocks_; }

 private:
  std::map<uint64_t, uint64_t> blocks_;  // address, bytes
};

// The host's side of a run, which recording and replay have in common.
class Host {
 public:
  explicit Host(const Program& program);
  size_t count() const { return threads_.size(); }
  const std::string& path(size_t thread) const { return threads_[thread].path; }
  // Goes through host code up to the thread's next call. False: it has ended, or waits for another.
  bool come_to_call(size_t thread);
  bool is_at_call(size_t thread) const { return threads_[thread].at_call; }
  bool has_ended(size_t thread) const;
  bool all_ended() const;
  const Op& op(size_t thread) const;
  // The name of the thread's operation, the same in each run.
  std::string name_of_op(size_t thread) const;
  CallKey key_of(size_t thread) const;
  uint64_t memory(size_t thread) const { return threads_[thread].memory; }
  // The call has been made; what an allocation got.
  void made(size_t thread, uint64_t address);
  void set_flag(unsigned which) { flags_.insert(which); }
  bool can_move(size_t thread) const;
  uint64_t digest() const;

 private:
  struct Thread {
    std::string path;
    const Code* code = nullptr;
    size_t next = 0;
    int task = -1;  // of the queue, in which it is
    size_t next_in_task = 0;
    bool at_call = false;
    bool took = false;  // a task
    uint64_t memory = 0;
  };
  const Op* current(const Thread& thread) const;
  void advance(Thread& thread);

  const Program& program_;
  std::vector<Thread> threads_;
  std::map<unsigned, size_t> locks_;  // held by
  std::set<unsigned> flags_;
  std::map<unsigned, int> once_;  // 1: being made, 2: made
  size_t tasks_taken_ = 0;
};

// Records one run of the program.
Journal record(const Program& program, Chooser& choices);
// Whether a cut may stand before the journal's entry of that index; the index after the last: at
// the end.
Journal cut_before(const Journal& journal, size_t index);

enum class Outcome : uint8_t { kLive, kDiverged, kGivenUp, kWrong, kPruned };
const char* text(Outcome outcome);

struct Replay {
  Outcome outcome = Outcome::kGivenUp;
  std::string why{};
};
// Replays it. `seen`: states after which nothing new comes.
Replay replay(const Program& program, const Journal& journal, Chooser& choices,
              std::set<uint64_t>* seen = nullptr);

}  // namespace gpusnap::replay_model
