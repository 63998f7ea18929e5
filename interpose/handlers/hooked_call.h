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

#include "interpose/cuda/cuda_abi.h"
#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/hook/hook.h"
#include "interpose/session/call_environment.h"
#include "tiers/unlocked.h"

namespace gpusnap {

enum class Hold : uint8_t;

// While one lives, the thread is inside the call that the program has made.
class ProgramsCall {
 public:
  [[gnu::always_inline]] ProgramsCall() { own_state.in_driver = true; }
  [[gnu::always_inline]] ~ProgramsCall() { own_state.in_driver = false; }
  ProgramsCall(const ProgramsCall&) = delete;
  ProgramsCall& operator=(const ProgramsCall&) = delete;
};

class HookedCall {
 public:
  template <class F>
  explicit HookedCall(const Call<F>& call)
      : environment_(CallEnvironment::enter(call.hook.id)),
        hook_(call.hook.id),
        writes_(call.hook.writes),
        per_thread_stream_(call.hook.per_thread_stream),
        stream_(per_thread_stream_ ? CU_STREAM_PER_THREAD : nullptr) {}
  ~HookedCall() {
    if (environment_ != nullptr) environment_->leave();
  }
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  // The call only passes through.
  bool passthrough() const { return environment_ == nullptr; }
  bool replaying() const { return environment_->replaying(); }
  bool is_off() const { return environment_->admission().mode() == Mode::kOff; }

  // The parts of the session.
  const Driver& driver() const { return environment_->driver(); }
  DeviceModel& model() { return environment_->model(); }
  Recorder& recorder() { return environment_->recorder(); }
  MemoryOrder& memory_order() { return environment_->memory_order(); }
  SurplusAllocations& surplus() { return environment_->surplus(); }
  AllocationIdentities& identities() { return environment_->identities(); }
  HostUpdates& host_updates() { return environment_->host_updates(); }
  HostCallbacks& host_callbacks() { return environment_->host_callbacks(); }
  ProgramContexts& contexts() { return environment_->contexts(); }
  DeviceRoom& room() { return environment_->room(); }
  Retirement& retirement() { return environment_->retirement(); }
  Snapshots& snapshots() { return environment_->snapshots(); }
  ArenaPinning& pinning() { return environment_->pinning(); }
  CutGate& cut_gate() { return environment_->cuts().gate(); }
  bool may_share() const { return environment_->may_share(); }
  ProgramCopies::Ticket enter_copy() { return environment_->enter_copy(); }
  ProgramWork work_to_wait_for(CUcontext context = nullptr) {
    return environment_->work_to_wait_for(context);
  }
  int memory_tries() const { return environment_->replay().memory_tries(); }
  bool was_made_before() const { return environment_->replay().was_made_before(); }
  // The program did what cannot be restored: no more checkpoints of this process. Says so once.
  // Lets go of the lock while the snapshot on its way comes to its end.
  void refuse(const std::string& what) { retirement().refuse(what); }
  // A call has synchronised and is about to be journaled; it has been.
  void before_synchronised() { environment_->cuts().before_synchronised(); }
  void after_synchronised() { environment_->cuts().after_synchronised(); }

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
    return environment_->asks_writes() && writes_ != Writes::kNothing && !replaying() && !captured_;
  }
  // Before the call is made, and before what the session knows of the memory changes: the snapshot
  // on its way gets what it needs of it. Once for a call; call_driver() does it where nobody did.
  void before_write() {
    if (environment_->snapshot_pending() && writes_ != Writes::kNothing && !replaying() &&
        !captured_) [[unlikely]] {
      tell_writes();
    }
  }

  // A snapshot still has zones to save, which gets them before the call is made.
  bool snapshot_pending() const { return environment_->snapshot_pending(); }
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
    if (model().contexts.is_capturing()) [[unlikely]]
      captured_ = model().contexts.is_captured(stream_);
    return captured_;
  }

  // Calls the driver for the program. The session's lock is not held meanwhile.
  template <class Real>
  [[gnu::always_inline]] auto unlocked(Real&& real) {
    const Unlocked unlocked(environment_->lock());
    const ProgramsCall made;
    return real();
  }

  // The real call, while recording.
  template <class Real>
  CUresult call_driver(Real&& real) {
    const CallsInDriver::Scope in_driver(environment_->calls_in_driver());
    if (environment_->reload_pending()) [[unlikely]]
      reload();
    before_write();
    if (device_writes_ == DeviceWrites::kNone) return unlocked(real);
    if (device_writes_ == DeviceWrites::kBeforeReturn) {
      const CUresult result = unlocked(real);
      if (result == CUDA_SUCCESS) host_updates().has_written(writes);
      return result;
    }
    HostWrite* const write = !captured_ && model().host_memory.has_range_of(writes)
                                 ? host_updates().begin_write(stream_)
                                 : nullptr;
    const CUresult result = unlocked([&] {
      const CUresult given = real();
      if (write != nullptr) [[unlikely]]
        write->mark(driver(), given, stream_);
      return given;
    });
    if (write != nullptr) {
      write->tells = device_writes_ == DeviceWrites::kInGraphTelling;
      write->in_graph = write->tells || device_writes_ == DeviceWrites::kInGraph;
    }
    if (result == CUDA_SUCCESS) host_updates().may_write(writes, write);
    host_updates().end_write(write);
    return result;
  }

  // The same for a call that gets or gives back memory of the driver's.
  template <class Real>
  CUresult call_driver_in_order(MemoryOrder::Kind kind, Real&& real) {
    const uint64_t number = memory_order().begin(kind);
    const CUresult result = call_driver(real);
    memory_order().end(number);
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
      const ReplayTurns::Claim claim = environment_->claim_turn(hook_, key);
      if (claim == ReplayTurns::Claim::kTurn) return repeat_as_recorded(real);
      if (claim == ReplayTurns::Claim::kAhead) return unlocked(real);
    }
    if (is_off()) return unlocked(real);
    const CUresult result = call_driver(real);
    record(result);
    return result;
  }
  // The same for calls by which the driver gets or gives back memory.
  template <class Real>
  CUresult record_or_repeat_in_order(Real&& real) {
    if (replaying()) {
      const ReplayTurns::Claim claim = environment_->claim_turn(hook_, key);
      if (claim == ReplayTurns::Claim::kTurn) return repeat_as_recorded(real);
      if (claim == ReplayTurns::Claim::kAhead) return unlocked(real);
    }
    if (is_off()) return unlocked(real);
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
      if (is_after_cut()) return make_after_cut(real);
      const CUresult recorded = match_next_entry();
      // Memory that a pool releases at this moment may be needed at its address.
      if (recorded == CUDA_SUCCESS && model().pool_reuse.is_used()) (void)unlocked(real);
      return recorded;
    }
    const uint64_t writes_before = host_updates().device_writes();
    const bool is_watched = writes_ == Writes::kNothing && host_updates().begin_watch();
    const CUresult result = call_driver(real);
    if (is_watched) [[unlikely]]
      host_updates().end_watch();
    before_synchronised();
    // Work that another thread began meanwhile may be on its way.
    const bool all_done = whole_context && model().contexts.is_single() &&
                          writes_before == host_updates().device_writes();
    record_visible(result, all_done, nullptr);
    after_synchronised();
    return result;
  }

  // Replay: a call of after the cut that is made before it. `answer`: what it gives.
  bool is_after_cut() const { return environment_->replay().is_after_cut(); }
  template <class Real>
  CUresult make_after_cut(Real&& real, std::span<const std::byte> answer = {}) {
    const CUresult result = unlocked(real);
    if (result != CUDA_SUCCESS) answer = {};
    environment_->replay().keep_after_cut(hook_, key, result, answer);
    return result;
  }

  // For calls that cannot be repeated: what failed has done nothing, since programs try calls to
  // see whether the device has them; what succeeds ends the taking of checkpoints.
  template <class Real>
  CUresult record_or_refuse(const std::string& what, Real&& real) {
    if (replaying()) return match_next_entry();
    const CUresult result = call_driver(real);
    if (result == CUDA_SUCCESS) {
      refuse(what);
    } else {
      record(result);
    }
    return result;
  }

  // For polls: a busy device is told as often as it was.
  template <class Real>
  CUresult record_poll(Real&& real) {
    if (replaying()) {
      if (is_after_cut()) return make_after_cut(real);
      return environment_->replay().match_busy(hook_) ? CUDA_ERROR_NOT_READY : match_next_entry();
    }
    const CUresult result = call_driver(real);
    if (result == CUDA_ERROR_NOT_READY) {
      recorder().append_poll(static_cast<uint16_t>(hook_));
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
  void record(CUresult result) { recorder().append(static_cast<uint16_t>(hook_), key, result); }
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
  void tell_snapshot(const WriteSet& set, CUstream stream, Hold hold, bool freed);
  void reload();
  void must_succeed(CUresult result);

  CallEnvironment* environment_;
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
