// Decides with which entry of the journal a replay gets what the device has brought to memory that
// the host sees.
//
// The rule: bytes are taken at the first moment at which host code may look at them, once, and
// never later. Such moments are
//   the end of a call by which the program may have learnt that work of its is done,
//   the beginning of a host function in a stream,
//   a cut.
// Host code that runs after such a moment may change the bytes, and a replay repeats that change
// itself: bytes that were taken later would bring the change a second time, or half of it.
//
// Marks in the streams tell what has arrived (progress_words.h). If host code may rely on what
// comes before a mark, the mark has been reached when that host code begins, whichever streams and
// events order the two. If a mark has not been reached then, the host code does not touch what
// comes before it.
//
// Two kinds of writes arrive:
//   copies         the bytes of an asynchronous copy, exactly those;
//   other writes   of kernels, sets, batches and graphs: the allocations that they may write are
//                  compared with their mirrors (host_memory.h).
//
// Pure logic over the marks: no clock, no thread, no driver. The session's lock guards it.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <vector>

#include "interpose/journal/entry.h"
#include "interpose/model/host_memory.h"
#include "interpose/model/progress_words.h"
#include "interpose/record/program_copies.h"
#include "tracker/write_set.h"

namespace gpusnap {

// The writes to memory that the host sees, as far as calls on one stream may make them.
struct HostWrite {
  // A range that the device may write until the stream has come to the mark of this value.
  struct Written {
    uint32_t value = 0;
    uint64_t range = 0;     // HostMemory's number
    bool in_graph = false;  // by a node of a graph, which ends before its launch does
    bool tells = false;     // by a node of a graph that has events, which the program may wait for
    bool is_taken = false;  // had been reached when the range was looked at
  };

  CUcontext context = nullptr;
  CUstream stream = nullptr;             // null: it is gone
  uint64_t thread = 0;                   // whose default stream it is, if it is one thread's own
  ProgressWord* word = nullptr;          // null: its context is gone, and so is all that was queued
  bool is_open = true;                   // a call is being made
  bool is_marked = false;                // its end
  bool in_graph = false, tells = false;  // of that call, as in Written
  bool is_coalesced = false;             // a range may have been written by earlier calls, too
  std::vector<Written> written{};

  ProgressMark next_mark() const { return {word, word->issued + 1}; }
  // Right after the call. The session's lock is not held.
  void mark(const Driver& driver, CUresult result, CUstream on) {
    is_marked = result == CUDA_SUCCESS && write_mark(driver, next_mark(), on) == CUDA_SUCCESS;
  }
  bool has_reached(uint32_t value) const { return word == nullptr || word->has_reached(value); }
  bool is_done() const { return !is_open && has_reached(word == nullptr ? 0 : word->issued); }
};

class Deliveries {
 public:
  Deliveries(HostMemory& memory, ProgressWords& words) : memory_(memory), words_(words) {}

  // ---- copies
  // Recording: a copy to `block` has been queued, and the mark after it; or, `in_graph`, the launch
  // of the graph that the copy is part of, and the mark after that. Copies are numbered in the
  // order of these calls.
  void add_copy(const HostBlock& block, const ProgressMark& mark, bool in_graph,
                ProgramCopies::Ticket ticket);
  // Nobody will look at what is copied into this memory any more.
  void forget_copies(uint64_t address, uint64_t size);
  // Replay: the same call.
  void expect_copy(const HostBlock& block) { expected_[copy_count_++] = block; }
  // Replay: where the bytes of that copy go, whose entry has come. False: there is no such copy, or
  // one of another size.
  bool take_expected(uint64_t number, uint64_t bytes, HostBlock& block);

  // ---- other writes, recording
  // A call on this stream is about to be made. Null: there is no word to mark its end with.
  HostWrite* begin_write(CUcontext context, CUstream stream, uint64_t thread);
  // It has been made, and may write this. `write`: null if nothing marks its end.
  void add_write(const WriteSet& set, HostWrite* write);
  void end_write(HostWrite* write);
  // The device has written this when the call returned.
  void add_arrived(const WriteSet& set);

  // The program's only thread is about to wait for the device, which is all that may write to host
  // memory meanwhile. Takes note of a part of the memory of which no write tells, another one each
  // time: a kernel may write there if what its arguments point to is not all that it writes.
  void begin_watch();
  // It has waited. False: the device has written there.
  bool end_watch();

  // Another stream may get the same handle, and what is queued on this one goes on.
  void forget_stream(CUstream stream);
  // All that was queued in it is over, and copies that have not been taken are lost with it.
  void forget_context(CUcontext context);

  // ---- what is delivered, recording
  enum class Moment : uint8_t {
    kCall,           // a call of the program's ends
    kFunction,       // a host function begins
    kGraphFunction,  // a host function of a graph begins
    kIdle,           // the device has run empty
  };
  struct Taken {
    uint8_t flags = 0;            // of the entry: what was looked at
    const char* doubt = nullptr;  // why nobody can tell what the device has written; lives for ever
  };
  // Takes what has arrived by now and was not taken before. `alone`: no host code of the program
  // runs meanwhile. Journal deliveries() before anything else is called here.
  Taken collect(Moment moment, bool alone);
  const std::vector<Delivery>& deliveries() const { return deliveries_; }

  // Host functions of which the journal has the beginning and not the end.
  void function_begins() {
    ++functions_;
    ++functions_begun_;
  }
  void function_ends() { --functions_; }
  bool function_runs() const { return functions_ != 0; }

 private:
  struct Copy {
    uint64_t number = 0;
    HostBlock block;
    ProgressMark mark;
    bool in_graph = false;
    ProgramCopies::Ticket ticket;
  };
  bool is_told(uint64_t range) const;
  bool take_copies(Moment moment);
  void look_for_writes(Moment moment);
  void forget_taken();

  HostMemory& memory_;
  ProgressWords& words_;
  uint64_t copy_count_ = 0;
  unsigned functions_ = 0;
  uint64_t functions_begun_ = 0;
  std::span<const std::byte> watched_;
  uint64_t digest_ = 0;  // of what is watched
  uint64_t functions_before_ = 0;
  std::vector<Copy> copies_;
  std::list<HostWrite> writes_;    // one for each stream, however much is queued on it
  std::vector<uint64_t> arrived_;  // ranges of add_arrived()
  HostMemory::Look look_;
  std::vector<Delivery> deliveries_;
  std::map<uint64_t, HostBlock> expected_;
};

}  // namespace gpusnap
