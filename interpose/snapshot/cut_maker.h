// SPDX-License-Identifier: Apache-2.0
//
// Makes the cuts that are due, between calls of the program: closes admission, takes the
// checkpoint, opens admission again. A cut that is a stop ends the program once the checkpoint is
// durable, of all ranks.
//
// By the program's threads, which hold the session's lock; it is given back while they wait.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "interpose/model/device_model.h"
#include "interpose/process/run.h"
#include "interpose/record/admission.h"
#include "interpose/record/calls_in_driver.h"
#include "interpose/replay/reload.h"
#include "interpose/services/triggers.h"
#include "interpose/snapshot/cut_gate.h"

namespace gpusnap {

class Checkpointer;
class Recorder;
class Retirement;
struct CutPlace;

class CutMaker {
 public:
  // They outlive it. The pointers are set when the session has started.
  struct Neighbours {
    CallLock& lock;
    Admission& admission;
    CallsInDriver& calls;
    DeviceModel& model;
    const Run& run;
    Retirement& retirement;
    const std::atomic<const char*>& doubt;
    const std::unique_ptr<Recorder>& recorder;
    const std::unique_ptr<Reload>& reload;  // null: nothing is reloaded
    const std::unique_ptr<Triggers>& triggers;
    const std::unique_ptr<Checkpointer>& checkpointer;
  };
  explicit CutMaker(const Neighbours& neighbours) : with_(neighbours) {}
  CutMaker(const CutMaker&) = delete;
  CutMaker& operator=(const CutMaker&) = delete;

  CutGate& gate() { return gate_; }
  const CutGate& gate() const { return gate_; }
  CutFacts facts() const;

  // A cut is due, and the calling thread has entered with its call: makes it if it may be made.
  void cut_before_call();
  // A call has synchronised and is about to be journaled. If a cut is due it will be made right
  // after that, so the other threads are held from now on.
  void before_synchronised();
  // It has been journaled. Ends the recording if the journal has become too long.
  void after_synchronised();

  // Holds the calls of all other threads and waits until those that are inside one have left it.
  // False, with nobody held: another thread is at it, one did not leave in time, a stream is
  // captured, or nothing is recorded any more.
  bool close();
  void open() { with_.admission.open(); }
  // Nobody else is inside: takes the checkpoint, with which the program ends where that is due.
  // False: no cut has come into the journal.
  bool take(CutPlace place);
  // Ends the process, which goes on from this checkpoint later.
  [[noreturn]] void end_stopped(const std::string& id) const;

 private:
  bool waits_for_word();
  void say_not_left();
  void stop_if_saved(const CutPlace& place, CutReason reason);

  const Neighbours with_;
  CutGate gate_;
  bool cut_at_end_ = false;     // closed, for a cut at the end of the call that is being made
  bool said_not_left_ = false;  // that somebody did not leave in time; until next time all do
};

}  // namespace gpusnap
