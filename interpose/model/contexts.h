// SPDX-License-Identifier: Apache-2.0
//
// The program's contexts that have begun: the number, device and streams of each, the captures that
// are open, and events of gpusnap's own in each context.
//
// Not thread-safe: the caller holds the session's lock. Handles are the driver's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

// A context of the program, and its number in the order in which the program came to know them.
struct KnownContext {
  CUcontext handle = nullptr;
  uint32_t number = 0;
};

// The work of a context that is the program's and not ours. The driver's own synchronisation of a
// context would wait for the copies of a snapshot, too.
struct ProgramWork {
  std::vector<CUstream> streams;
  CUevent legacy =
      nullptr;  // behind the legacy default stream, and so behind all that it waits for
  // Waits. False: nothing was waited for, or something went wrong.
  bool finish(const Driver& driver) const;
};

class Contexts {
 public:
  // The driver outlives it.
  explicit Contexts(const Driver& driver) : driver_(driver) {}
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  // The calling thread's context, known or not; null: it has none.
  CUcontext current() const;

  bool is_empty() const { return known_.empty(); }
  bool is_single() const { return known_.size() == 1; }
  bool is_known(CUcontext context) const { return known_.contains(context); }
  // Gives the context the next number. False, and nothing done: it is known.
  bool add(CUcontext context, CUdevice device);
  // Drops all that is known of the context. Its events have ended with it.
  void forget(CUcontext context);

  uint32_t number_of(CUcontext context) const;  // 0 for an unknown one, too
  std::optional<CUdevice> device_of(CUcontext context) const;
  CUcontext with_number(uint32_t number) const;  // null: there is none
  // The current context if it is on the device, else the one there that was added first, which is
  // the same in every run. Null: there is none.
  CUcontext on_device(CUdevice device) const;
  std::vector<KnownContext> by_number() const;
  // Tells a call that names the context from the same call with another one. 0: it is unknown.
  uint64_t key_of(CUcontext context) const;

  void set_primary(CUdevice device, CUcontext context) { primary_[device] = context; }
  CUcontext primary(CUdevice device) const;  // null: the program has not asked for it

  // Adds it to the current context, if that is known.
  void add_stream(CUstream stream);
  void remove_stream(CUstream stream);
  // Each known context has an entry.
  std::map<CUcontext, std::vector<CUstream>> streams() const;
  std::vector<CUstream> streams_of(CUcontext context) const;

  // A capture is open from begin_capture() to end_capture(), by the stream that it began in. Each
  // thread may have one in its own default stream, so one handle may count several times.
  void begin_capture(CUstream stream) { captures_.insert(stream); }
  void end_capture(CUstream stream);
  bool is_capturing() const { return !captures_.empty(); }
  // Asks the driver, for captures that the stream has joined.
  bool is_captured(CUstream stream) const;

  // An event without a time, from take_mark() to give_mark(). Null: the driver gives none.
  CUevent take_mark(CUcontext context);
  CUevent take_mark() { return take_mark(current()); }
  void give_mark(CUcontext context, CUevent mark) { marks_[context].push_back(mark); }
  void give_mark(CUevent mark) { give_mark(current(), mark); }

  // The work that a synchronisation of the context has to wait for. Empty if the context is not the
  // current one (null: it is) or is unknown, or a capture is open. Its mark goes to give_mark().
  ProgramWork work_of(CUcontext context);

 private:
  struct Context {
    uint32_t number = 0;
    CUdevice device = 0;
    std::set<CUstream> streams;
  };

  const Driver& driver_;
  uint32_t added_ = 0;  // so far
  std::map<CUcontext, Context> known_;
  std::map<CUdevice, CUcontext> primary_;
  std::multiset<CUstream> captures_;
  std::map<CUcontext, std::vector<CUevent>> marks_;  // not in use
};

}  // namespace gpusnap
