// SPDX-License-Identifier: Apache-2.0
//
// Functions of the host that run in streams and graphs. While recording they run on the driver's
// threads; the journal has where each began, with what it could see of memory that the device
// writes too, and where it ended. In a replay a function is begun when its entry comes up, by a
// thread of ours in a stream of ours, and what came after its end waits for it. The driver permits
// no calls to a function, and some functions ask it for just that (libgomp's do).
//
// The session's lock guards all of it; run() takes the lock itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "interpose/cuda/cuda_types.h"
#include "interpose/hook/driver.h"
#include "interpose/journal/recorder.h"
#include "interpose/model/graph_callback.h"
#include "interpose/process/workers.h"
#include "interpose/record/call_lock.h"
#include "interpose/record/calls_in_driver.h"
#include "interpose/record/deliveries.h"

namespace gpusnap {

// A function of the program that runs in a stream.
struct HostFunction {
  CUhostFn plain = nullptr;             // or
  CUstreamCallback callback = nullptr;  // which is told
  CUstream stream = nullptr;            // this, and whether all went well
  void* user = nullptr;
  CUcontext context = nullptr;  // in a replay: that it was launched in
  void run(CUresult status) const;
};

class HostCallbacks;

// One of them while recording; the driver's thread deletes it when it has run.
struct HostCallback {
  HostCallbacks* callbacks = nullptr;
  HostFunction function;
  uint64_t number = 0;     // in the order of their launches
  bool journaled = false;  // the call that launched it
};
// The driver is given one of these in its place: a CUhostFn, or a CUstreamCallback, with a
// HostCallback.
void run_host_callback(void* callback);
void run_stream_callback(CUstream stream, CUresult status, void* callback);

class HostCallbacks {
 public:
  // They outlive it.
  struct Neighbours {
    const Driver& driver;
    CallLock& lock;
    const CallsInDriver& calls;
    Deliveries& deliveries;
    std::atomic<const char*>& doubt;  // ends the recording at the next call
    Workers& workers;                 // one of them runs the functions of a replay
  };
  // `ended`: a function of a replay has ended. Called with the lock held.
  HostCallbacks(const Neighbours& neighbours, std::function<void()> ended);
  HostCallbacks(const HostCallbacks&) = delete;
  HostCallbacks& operator=(const HostCallbacks&) = delete;

  // ---- recording
  // From now on, until there is another one. Null: nothing is recorded.
  void record_to(Recorder* recorder) { recorder_ = recorder; }
  // The launch of a function has been journaled; that of a graph with functions.
  void launched(HostCallback& callback);
  void launched(const std::vector<GraphCallback*>& callbacks);
  // On the driver's thread, without the lock.
  void run(HostCallback& callback, CUresult status);
  void run(GraphCallback& callback);

  // ---- replay
  // The same launch: the function is run when its entry comes up.
  void remember(HostFunction function);
  // Launched, and not known to be over.
  bool contains(uint64_t number) const { return launched_.contains(number); }
  // The entry of its beginning has come up.
  void begin(uint64_t number, CUresult status);
  // It has ended, or was never launched.
  bool has_ended(uint64_t number) const;
  // The entry of its end has come up.
  void take_ended(uint64_t number);
  // Notified whenever one has ended.
  std::condition_variable& changed() { return changed_; }
  // Grows whenever one is launched, begins, ends or is known to be over.
  uint64_t moves() const { return moves_; }
  // The system's numbers of the threads that have run such functions.
  const std::set<int>& threads() const { return threads_; }

 private:
  struct Launched {
    HostFunction function;
    CUresult status = CUDA_SUCCESS;  // that it is told, from its beginning on
    bool done = false;
  };

  bool recording() const { return recorder_ != nullptr; }
  void wait();
  void journal_begin(uint64_t number, CUresult status, Deliveries::Moment moment);
  void journal_end(uint64_t number);
  void run_ready();
  void run_in_stream(const Launched& launched);
  void run_here(const Launched& launched);

  const Neighbours with_;
  const std::function<void()> ended_;
  Recorder* recorder_ = nullptr;
  uint64_t count_ = 0;  // launched so far
  uint64_t moves_ = 0;
  std::condition_variable changed_;
  std::map<uint64_t, Launched> launched_;  // by number
  std::vector<uint64_t> ready_;            // begun by the journal, not by a worker yet
  std::set<int> threads_;
};

}  // namespace gpusnap
