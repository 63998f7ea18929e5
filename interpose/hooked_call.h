// One hooked call on its way through the session. Handlers say what the call is; a HookedCall
// records it, or replays it:
//
//   HookedCall hooked(call);
//   if (hooked.passthrough()) return call.real(...);
//   hooked.key.add(bytes);                  // what a replay must repeat
//   if (hooked.asks_writes()) hooked.writes.add(to, bytes);  // what a snapshot must have first
//   return hooked.record_or_repeat([&] { return call.real(...); });
#pragma once

#include <concepts>
#include <string>
#include <type_traits>

#include "interpose/cuda_abi.h"
#include "interpose/hook.h"
#include "interpose/hooks_generated_ids.h"
#include "interpose/session.h"

namespace gpusnap {

class HookedCall {
 public:
  template <class F>
  explicit HookedCall(const Call<F>& call)
      : session_(Session::enter(call.hook.id)),
        hook_(call.hook.id),
        writes_(call.hook.writes),
        per_thread_stream_(call.hook.per_thread_stream),
        stream_(per_thread_stream_ ? CU_STREAM_PER_THREAD : nullptr) {}
  ~HookedCall() {
    if (session_ != nullptr) session_->leave();
  }
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  // The call only passes through.
  bool passthrough() const { return session_ == nullptr; }
  bool replaying() const { return session_->replaying(); }
  Session& session() { return *session_; }
  DeviceModel& model() { return session_->model(); }

  CallKey key;
  // Numbers count as they are; handles and host pointers may differ from run to run.
  template <class T>
  void check(T value) {
    if constexpr (std::same_as<T, CUstream>) {
      (void)stream(value);
    } else if constexpr (std::is_enum_v<T> || std::integral<T>) {
      key.add(static_cast<uint64_t>(value));
    }
  }

  // Takes the stream from the arguments of a call that is not compared.
  template <class T>
  void note_stream(T value) {
    if constexpr (std::same_as<T, CUstream>) (void)stream(value);
  }

  // The memory that the call may write. Used only if the table says that it writes and
  // asks_writes(). A set to which nothing was added means everything.
  WriteSet writes;
  bool asks_writes() const {
    return session_->asks_writes() && writes_ != Writes::kNothing && !replaying() && !captured_;
  }
  // Before the call is made, and before what the session knows of the memory changes: the snapshot
  // on its way gets what it needs of it. Once for a call; call_driver() does it where nobody did.
  void before_write() {
    if (session_->snapshot_pending() && writes_ != Writes::kNothing && !replaying() && !captured_)
        [[unlikely]] {
      tell_writes();
    }
  }

  // Part of what the call may write is memory that goes away with it, when its stream comes there.
  void before_free(const WriteSet& set);

  // The device may write to memory that the host sees as soon as the call is made,
  enum class DeviceWrites : uint8_t {
    kNone,
    kQueued,          // in its turn on the stream
    kInGraph,         // likewise, by the nodes of a graph
    kInGraphTelling,  // by those of a graph with events, which tell about its nodes
    kBeforeReturn,    // and has done so when the call returns
  };
  void device_may_write(DeviceWrites when = DeviceWrites::kQueued) { device_writes_ = when; }

  // Whether the call's stream, told by stream(), is captured: then nothing runs, and the call is
  // made again in a replay, which captures as well. Nothing of ours may enter that stream.
  bool captured() {
    if (session_->model().contexts.is_capturing()) [[unlikely]]
      captured_ = session_->model().contexts.is_captured(stream_);
    return captured_;
  }

  // Calls the driver for the program. The session's lock is not held meanwhile.
  template <class Real>
  auto unlocked(Real&& real) {
    session_->release();
    const auto result = [&] {
      const Session::ProgramsCall made;
      return real();
    }();
    session_->acquire();
    return result;
  }

  // The real call, while recording.
  template <class Real>
  CUresult call_driver(Real&& real) {
    const CallsInDriver::Scope in_driver(session_->calls_in_driver());
    if (session_->reload_pending()) [[unlikely]]
      reload();
    before_write();
    if (device_writes_ == DeviceWrites::kNone) return unlocked(real);
    if (device_writes_ == DeviceWrites::kBeforeReturn) {
      const CUresult result = unlocked(real);
      if (result == CUDA_SUCCESS) session_->device_has_written(writes);
      return result;
    }
    HostWrite* const write = !captured_ && session_->model().host_memory.has_range_of(writes)
                                 ? session_->begin_host_write(stream_)
                                 : nullptr;
    const CUresult result = unlocked([&] {
      const CUresult given = real();
      if (write != nullptr) [[unlikely]]
        write->mark(session_->driver(), given, stream_);
      return given;
    });
    if (write != nullptr) {
      write->tells = device_writes_ == DeviceWrites::kInGraphTelling;
      write->in_graph = write->tells || device_writes_ == DeviceWrites::kInGraph;
    }
    if (result == CUDA_SUCCESS) session_->device_may_write(writes, write);
    session_->end_host_write(write);
    return result;
  }

  // The same for a call that gets or gives back memory of the driver's.
  template <class Real>
  CUresult call_driver_in_order(MemoryOrder::Kind kind, Real&& real) {
    const uint64_t number = session_->memory_order().begin(kind);
    const CUresult result = call_driver(real);
    session_->memory_order().end(number);
    return result;
  }

  // The real call, in a replay: it must succeed as it did.
  template <class Real>
  void repeat(Real&& real) {
    must_succeed(unlocked(real));
  }

  // For calls that a replay makes as well: contexts, streams, events, modules. A call that failed
  // when it was recorded fails again, without being made.
  template <class Real>
  CUresult record_or_repeat(Real&& real) {
    if (replaying()) {
      const Session::Claim claim = session_->claim_turn(hook_, key);
      if (claim == Session::Claim::kTurn) return repeat_as_recorded(real);
      if (claim == Session::Claim::kAhead) return unlocked(real);
    }
    if (session_->mode() == Session::Mode::kOff) return unlocked(real);
    const CUresult result = call_driver(real);
    record(result);
    return result;
  }
  // The same for calls by which the driver gets or gives back memory.
  template <class Real>
  CUresult record_or_repeat_in_order(Real&& real) {
    if (replaying()) {
      const Session::Claim claim = session_->claim_turn(hook_, key);
      if (claim == Session::Claim::kTurn) return repeat_as_recorded(real);
      if (claim == Session::Claim::kAhead) return unlocked(real);
    }
    if (session_->mode() == Session::Mode::kOff) return unlocked(real);
    const CUresult result = call_driver_in_order(MemoryOrder::Kind::kMayWait, real);
    record(result);
    return result;
  }

  // For calls whose effect is on device memory alone, which is loaded at the cut.
  template <class Real>
  CUresult record_or_skip(Real&& real) {
    if (captured()) return record_or_repeat(real);
    if (replaying()) return match_next_entry();
    const CUresult result = call_driver(real);
    record(result);
    return result;
  }

  // For calls after which the host may look at what the device did.
  template <class Real>
  CUresult record_sync(bool whole_context, Real&& real) {
    if (replaying()) {
      const CUresult recorded = match_next_entry();
      // Memory that a pool releases at this moment may be needed at its address.
      if (recorded == CUDA_SUCCESS && session_->pools_used()) (void)unlocked(real);
      return recorded;
    }
    const uint64_t writes_before = session_->device_writes();
    const bool is_watched = writes_ == Writes::kNothing && session_->begin_watch();
    const CUresult result = call_driver(real);
    if (is_watched) [[unlikely]]
      session_->end_watch();
    session_->before_synchronised();
    // Work that another thread began meanwhile may be on its way.
    const bool all_done = whole_context && session_->model().contexts.is_single() &&
                          writes_before == session_->device_writes();
    record_visible(result, all_done, nullptr);
    session_->after_synchronised();
    return result;
  }

  // For calls that cannot be repeated: what failed has done nothing, since programs try calls to
  // see whether the device has them; what succeeds ends the taking of checkpoints.
  template <class Real>
  CUresult record_or_refuse(const std::string& what, Real&& real) {
    if (replaying()) return match_next_entry();
    const CUresult result = call_driver(real);
    if (result == CUDA_SUCCESS) {
      session_->refuse(what);
    } else {
      record(result);
    }
    return result;
  }

  // For polls: a busy device is told as often as it was.
  template <class Real>
  CUresult record_poll(Real&& real) {
    if (replaying()) {
      return session_->match_busy(hook_) ? CUDA_ERROR_NOT_READY : match_next_entry();
    }
    const CUresult result = call_driver(real);
    if (result == CUDA_ERROR_NOT_READY) {
      session_->recorder().append_poll(static_cast<uint16_t>(hook_));
    } else {
      record_visible(result, false, nullptr);
    }
    return result;
  }

  // The stream that the call means, for calls of our own. It is the one on which the call writes.
  CUstream stream(CUstream given) {
    stream_given_ = true;
    if (given == nullptr && per_thread_stream_) return stream_ = CU_STREAM_PER_THREAD;
    return stream_ = given;
  }

  // Recording. Each call is journaled exactly once, whatever comes of it: in a replay it waits for
  // its turn.
  void record(CUresult result) {
    session_->recorder().append(static_cast<uint16_t>(hook_), key, result);
  }
  void record_answer(CUresult result, const void* answer, size_t bytes);
  // With all that the host can see by now. `answer` may be null.
  void record_visible(CUresult result, bool all_done, const HostBlock* answer, uint8_t flags = 0);

  // Replay. Compares the call, gives the host what it learnt by then, and returns what came of it.
  CUresult match_next_entry();
  const Entry& entry() const { return *entry_; }
  // Copies the answer out; ends the process where it has another size.
  void take_answer(void* to, size_t bytes);
  void take_answer(const HostBlock& to);
  HookId hook() const { return hook_; }

 private:
  template <class Real>
  CUresult repeat_as_recorded(Real&& real) {
    const CUresult recorded = match_next_entry();
    if (recorded == CUDA_SUCCESS) repeat(real);
    return recorded;
  }
  void tell_writes();
  void reload();
  void must_succeed(CUresult result);

  Session* session_;
  HookId hook_;
  Writes writes_;
  bool per_thread_stream_;
  bool stream_given_ = false;
  bool writes_told_ = false;
  DeviceWrites device_writes_ = DeviceWrites::kNone;
  bool captured_ = false;
  CUstream stream_;  // where none was given: the default one
  const Entry* entry_ = nullptr;
};

}  // namespace gpusnap
