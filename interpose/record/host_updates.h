// SPDX-License-Identifier: Apache-2.0
//
// News for the host from the device: copies that arrive later, and memory that host and device
// both see. While recording, handlers say here what their calls may bring; in a replay the entry of
// each call gives the host what it brought then. deliveries.h decides which entry that is.
//
// The session's lock guards all of it; where more words for marks have to be made it is given back
// meanwhile.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "interpose/journal/replayer.h"
#include "interpose/model/device_model.h"
#include "interpose/model/progress_words.h"
#include "interpose/record/admission.h"
#include "interpose/record/calls_in_driver.h"
#include "interpose/record/deliveries.h"
#include "interpose/services/ranks.h"

namespace gpusnap {

inline constexpr const char* kManagedElsewhere =
    "the program's __managed__ variables lie elsewhere than when it was saved, and cannot be moved";

class HostUpdates {
 public:
  // They outlive it.
  struct Neighbours {
    DeviceModel& model;
    CallLock& lock;
    const Admission& admission;
    const CallsInDriver& calls;
    const Ranks& ranks;
    std::atomic<const char*>& doubt;                 // ends the recording at the next call
    std::function<void(const std::string&)> refuse;  // ends it now; gives the lock back meanwhile
  };
  explicit HostUpdates(Neighbours neighbours) : with_(std::move(neighbours)) {}
  HostUpdates(const HostUpdates&) = delete;
  HostUpdates& operator=(const HostUpdates&) = delete;

  // ---- memory that host and device both see, recording
  // A call is about to be made by which the device may change such memory: what to tell afterwards,
  // or null if there is no such memory, or nothing to mark the end of it with.
  HostWrite* begin_write(CUstream stream);
  // It has been made. Without `write`, nothing tells when the device will have done it.
  void may_write(const WriteSet& set, HostWrite* write) {
    ++device_writes_;
    if (with_.model.host_memory.empty()) return;
    deliveries_.add_write(set, write);
    refuse_guess(set);
  }
  void end_write(HostWrite* write) { deliveries_.end_write(write); }
  // It has been made, and the device has done it.
  void has_written(const WriteSet& set) {
    ++device_writes_;
    if (with_.model.host_memory.empty()) return;
    deliveries_.add_arrived(set);
    refuse_guess(set);
  }
  // The calling thread is about to wait for the device, and has done so: meanwhile the device may
  // write where a guess does not say. False: nobody could tell its writes from those of host code.
  bool begin_watch();
  void end_watch();
  // How many such calls there were.
  uint64_t device_writes() const { return device_writes_; }

  // ---- copies that arrive later
  // A mark for the end of what is about to be queued on a stream of the current context; without a
  // word there is none to be had.
  ProgressMark take_mark();
  // The mark was not queued.
  void give_back_unused(const ProgressMark& mark) { words_.give_back_unused(mark); }
  // A copy back whose bytes will be there later: the mark has been queued after it, or after the
  // launch of the graph that it is part of.
  void defer(const HostBlock& block, const ProgressMark& mark, bool in_graph,
             ProgramCopies::Ticket ticket) {
    deliveries_.add_copy(block, mark, in_graph, std::move(ticket));
  }
  // Replay: the same copy.
  void remember_deferred(const HostBlock& block) { deliveries_.expect_copy(block); }
  // Nobody will look at copies into this memory any more.
  void forget_pending(uint64_t address, uint64_t size) { deliveries_.forget_copies(address, size); }

  // ---- at the end of a call
  // The host got these bytes as the answer of a call: no news for captures. Recording and replay.
  void note_answered(const HostBlock& block);
  // Bytes that the host can see at this point of the recording and that are not journaled.
  // `all_done`: the device has run empty.
  const std::vector<Delivery>& collect(bool all_done, uint8_t* flags);
  // Replay: gives the host what the entry brought beside its answer.
  void deliver(const Entry& entry, Replayer& replayer);
  // A host function has begun by the journal, and not ended.
  bool function_runs() const { return deliveries_.function_runs(); }

  // ---- contexts and streams
  // Words for marks in streams of the context.
  void add_words(CUcontext context);
  void forget_stream(CUstream stream) { deliveries_.forget_stream(stream); }
  void forget_context(CUcontext context) { deliveries_.forget_context(context); }

  Deliveries& deliveries() { return deliveries_; }

 private:
  void refuse_guess(const WriteSet& set);
  void deliver_to_memory(const DeliveryHead& head, Replayer& replayer, Status& status);

  const Neighbours with_;
  ProgressWords words_;
  Deliveries deliveries_{with_.model.host_memory, words_};
  uint64_t device_writes_ = 0;
  uint64_t thread_count_ = 0;  // that have a number
};

}  // namespace gpusnap
