// Writes the replay journal: one entry for each hooked call, appended to this run's part.
//
// Any thread, one at a time. Entries of all threads are in one stream, in the order in which they
// were appended; where the thread changes, an entry says so. A plain entry (a launch, a memset) is
// written in place, in a block that exists already: no allocation, no lock, no system call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/journal/entry.h"
#include "tiers/journal.h"

namespace gpusnap {

class Recorder {
 public:
  // Begins a new part in the sink, after the parts in `before`, which are those of the
  // checkpoint that was restored, if any; `calls` and `launches` are what they hold.
  static Result<std::unique_ptr<Recorder>> create(std::unique_ptr<JournalSink> sink,
                                                  const std::string& part_name,
                                                  JournalWriter::Options options,
                                                  std::vector<JournalPart> before, uint64_t calls,
                                                  uint64_t launches);

  // The threads that are in the journal under another path than their own, each with that path.
  // Before the first entry.
  void name_threads(std::map<std::string, std::string> paths) { paths_ = std::move(paths); }

  // Any number of deliveries; `answer` is null where the call gave nothing back. One piece of bytes
  // where there is neither, and no name, as with launches.
  // Not to be inlined where the other one has nothing left to do but to call it.
  [[gnu::noinline]] void append(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                                const HostBlock* answer, std::span<const Delivery> deliveries);
  // The same without answer and deliveries.
  void append(uint16_t hook, const CallKey& key, int32_t result);
  // The same in the place of the thread at that path.
  void append_for(const std::string& path, uint16_t hook, const CallKey& key, int32_t result,
                  const HostBlock* answer);
  // A poll that found the device busy. A thread's run of the same is one entry, its only word the
  // count. It stands where the run began; another thread's call ends it, so that a replay may let
  // a thread poll on without order and still answers each poll as it was answered.
  void append_poll(uint16_t hook);
  // kCallbackEntry or kCallbackEndEntry, by any thread.
  void append_callback(uint16_t kind, uint64_t number, int32_t status, uint8_t flags,
                       std::span<const Delivery> deliveries);
  // The outcome of an MPI call (mpi/outcomes.h), of no thread, or of `count` such calls in a row. A
  // run of the same call that each time found nothing yet, told by a single zero, is one entry.
  // `name` lives for ever.
  void append_outcome(std::string_view name, uint64_t number, std::span<const int32_t> values,
                      uint64_t count = 1);
  void count_launch() { ++launches_; }
  void count_launches(uint64_t count) { launches_ += count; }

  uint64_t calls() const { return calls_before_ + writer_->entries(); }
  uint64_t launches() const { return launches_; }
  uint64_t stream_bytes() const { return writer_->stream_bytes(); }
  uint64_t stored_bytes() const { return writer_->stored_bytes(); }

  // All parts up to now. Appended entries are not settled yet: writer().settle().
  std::vector<JournalPart> seal();
  JournalWriter& writer() { return *writer_; }

 private:
  // A thread of the program by its number in this part, and by the part: never 0.
  using Thread = uint64_t;
  static uint64_t number_of(Thread thread) { return thread & UINT32_MAX; }
  Recorder(std::unique_ptr<JournalWriter> writer, std::vector<JournalPart> before, uint64_t calls,
           uint64_t launches);
  struct Run {
    Thread thread = 0;
    uint16_t hook = 0;
    uint64_t polls = 0;
  };
  static constexpr size_t kMostRuns = 32;
  struct NotYet {
    std::string_view name;
    uint64_t first = 0;  // number of the call
    uint64_t count = 0;  // 0: there is no run
  };

  void append_bytes(const void* bytes, size_t size, uint32_t entries = 0);
  void append_whole(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                    const HostBlock* answer, std::span<const Delivery> deliveries);
  void append_call(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                   const HostBlock* answer, std::span<const Delivery> deliveries);
  // False: there is no room in this block.
  bool append_in_place(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags);
  // The calling one; introduces it with its first entry.
  Thread caller();
  Thread introduce(std::string path);
  void switch_to(Thread thread);
  void end_polls() {
    if (run_count_ != 0) [[unlikely]]
      write_polls();
  }
  void write_polls();
  void end_not_yet();
  void write_outcome(std::string_view name, const CallKey& words, std::span<const int32_t> values);

  std::unique_ptr<JournalWriter> writer_;
  std::vector<JournalPart> before_;
  const uint64_t calls_before_;  // in these
  uint64_t launches_ = 0;
  const uint64_t part_;                       // which recorder of this process this is, from 1
  std::map<std::string, std::string> paths_;  // where the journal's is another one
  uint64_t threads_ = 0;                      // introduced so far
  Thread thread_ = part_ << 32 | UINT32_MAX;  // of the last entry
  Run runs_[kMostRuns];                       // not written yet, in the order in which they began
  size_t run_count_ = 0;
  NotYet not_yet_;  // not written yet
  PartNumbers numbers_;
};

}  // namespace gpusnap
