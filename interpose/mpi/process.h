// This process as a rank of an MPI job: its place among the others, the decisions that it takes
// part in, and what arrived when. The exported functions (calls_c.cpp, calls_fortran.cpp) say what
// the program calls, in either language; what is done about it is here.
//
// Inert until MPI_Init, and where the MPI library is none that we know. One thread of the program
// makes MPI calls; the first call of another one that comes by here ends checkpoints by name.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "interpose/mpi/buffers.h"
#include "interpose/mpi/coordination.h"
#include "interpose/mpi/cut_control.h"
#include "interpose/mpi/library.h"
#include "interpose/mpi/outcomes.h"
#include "interpose/mpi/state.h"

namespace gpusnap::mpi {

// Requests, or statuses, as the program has them in an array.
struct Requests {
  void* first = nullptr;
  size_t count = 0;
  size_t bytes = 0;  // of each

  Handle at(size_t index) const;
  void* place(size_t index) const { return static_cast<char*>(first) + index * bytes; }
};

class Process {
 public:
  static Process& get();

  // MPI_Init has been called. The session outlives everything.
  void initialised_now(CutControl& control);
  void finalising();

  // Null: nothing is done about the calling thread's call.
  const Library* following() {
    if (library_ == nullptr || !own_thread()) [[unlikely]]
      return nullptr;
    return library_;
  }
  // The program did what cannot be repeated.
  void refuse(const char* what);

  // ---- the decision ----

  // `make`: the barrier itself. `communicator`: C's.
  template <class Make>
  int barrier(const char* name, Handle communicator, Make&& make) {
    if (!counts(communicator)) return make();
    count_collective();
    if (!coordination_.active() || !coordination_.carries()) return after(name, make());
    Ballot agreed;
    const int result = coordination_.barrier(communicator, &cast_ballot, agreed);
    if (result == kSuccess) decide(name, &agreed);
    return result;
  }
  // Another collective that synchronises those who take part has been made. `synchronises`: it
  // moves at least one item.
  int collective(const char* name, Handle communicator, bool synchronises, int result) {
    if (result != kSuccess || !synchronises || !counts(communicator)) return result;
    count_collective();
    return after(name, result);
  }

  // ---- what arrives when ----

  // `make(source, tag, status)`: receives or probes.
  template <class Make>
  int receive(const char* name, int source, int tag, int* status, Make&& make) {
    const Library* l = following();
    if (l == nullptr || !is_open(*l, source, tag)) return make(source, tag, status);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      return recorded->size() == 2 ? make((*recorded)[0], (*recorded)[1], status)
                                   : make(source, tag, status);
    }
    OwnStatus own(*l, status);
    const int result = make(source, tag, own.get());
    if (result == kSuccess) {
      record(name, number, {own.source(), own.tag()});
    } else {
      record(name, number, {});
    }
    return result;
  }

  // The same for one that says at once whether there is a message. `wait(source, tag, status)`
  // waits for one.
  template <class Make, class Wait>
  int poll_message(const char* name, int* flag, int* status, Make&& make, Wait&& wait) {
    const Library* l = following();
    if (l == nullptr) return make(status);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      *flag = recorded->size() == 2 ? 1 : 0;
      return *flag != 0 ? wait((*recorded)[0], (*recorded)[1], status) : kSuccess;
    }
    OwnStatus own(*l, status);
    const int result = make(own.get());
    if (result == kSuccess && *flag != 0) {
      record(name, number, {own.source(), own.tag()});
    } else {
      record(name, number, {0});
    }
    return result;
  }

  // Posts a receive. `request`: where `make(source, tag)` puts it.
  template <class Make>
  int post_receive(int source, int tag, const Requests& request, Make&& make) {
    const Library* l = following();
    if (l == nullptr || !is_open(*l, source, tag)) return make(source, tag);
    const uint64_t number = next_++;
    if (const auto match = matched(number)) return make((*match)[0], (*match)[1]);
    const int result = make(source, tag);
    if (result == kSuccess) opened(request.at(0)).posted = number;
    return result;
  }

  // ---- device memory ----

  // Sends from a buffer; `make(void*)`. `request`: where a call that returns before it has been
  // sent puts its own, or null.
  template <class Make>
  int send(const char* name, const Buffer& buffer, const Requests* request, Make&& make) {
    const Library* l = following();
    if (l == nullptr || !begins_on_device(*l, name, buffer)) return make(buffer.start);
    BounceBuffer stand = read_once(*l, name, buffer);
    const int result = make(stand.start(buffer));
    if (result == kSuccess && request != nullptr) keep(*request, std::move(stand));
    return result;
  }
  // Fills a buffer; `make(void*)`.
  template <class Make>
  int fill(const char* name, const Buffer& buffer, const Requests* request, Make&& make) {
    return fill_from(name, buffer, false, request, make);
  }
  // Both, of one buffer.
  template <class Make>
  int send_and_fill(const char* name, const Buffer& buffer, const Requests* request, Make&& make) {
    return fill_from(name, buffer, true, request, make);
  }

  // Makes a request that is started any number of times, `request`; `make(void*)`.
  template <class Make>
  int make_persistent(const char* name, const Buffer& buffer, bool receives,
                      const Requests& request, Make&& make) {
    const Library* l = following();
    if (l == nullptr) return make(buffer.start);
    Persistent persistent = persistent_of(*l, name, buffer, receives);
    const int result = make(persistent.stand.start(buffer));
    if (result == kSuccess && persistent.bytes != 0) {
      persistent_.insert_or_assign(request.at(0), std::move(persistent));
    }
    return result;
  }
  // Starts such requests, and others.
  template <class Make>
  int start(const Requests& requests, Make&& make) {
    if (following() == nullptr || persistent_.empty()) return make();
    const DeviceWriteScope underway(*this);
    for (size_t i = 0; i < requests.count; ++i) start_one(requests.at(i));
    return make();
  }

  bool is_in_place(const void* buffer) const {
    return library_ != nullptr && reinterpret_cast<uintptr_t>(buffer) == library_->in_place;
  }
  int rank_in(Handle communicator) const;
  int size_of(Handle communicator) const;
  bool is_between_groups(Handle communicator) const;
  // Neighbours, by the communicator's topology.
  struct Degrees {
    int in = 0, out = 0;
  };
  Degrees degrees_of(Handle communicator) const;

  // In calls by which device memory is not followed.
  void refuse_device(const char* name, const void* buffer) {
    if (following() != nullptr && control_->is_device_memory(buffer)) refuse_device_in(name);
  }
  // Nor can host memory that the device sees be filled later by this call.
  void refuse_seen(const char* name, const void* buffer) {
    if (following() != nullptr && control_->is_seen_by_device(buffer)) refuse_seen_in(name);
  }

  // ---- completion ----

  // Waits for one, or for all. `make(statuses)`.
  template <class Make>
  int wait_all(const Requests& requests, int* statuses, Make&& make) {
    const Library* l = following();
    if (l == nullptr || open_.empty()) return make(statuses);
    Completed completed(*this, *l, requests, statuses, requests.count);
    const int result = make(completed.statuses());
    if (result == kSuccess) {
      for (size_t i = 0; i < requests.count; ++i) completed.note(i, i);
    }
    return result;
  }

  // Waits for any one. `index`: counted from `base`. `wait_one(index from 0, status)`.
  template <class Make, class WaitOne>
  int wait_any(const char* name, const Requests& requests, int* index, int base, int* status,
               Make&& make, WaitOne&& wait_one) {
    const Library* l = following();
    if (l == nullptr) return make(status);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      const int which = first_of(*recorded);
      if (!is_index(requests, which)) return make(status);
      *index = which + base;
      return repeat_one(*l, requests, which, status, wait_one);
    }
    Completed completed(*this, *l, requests, status, 1);
    const int result = make(completed.statuses());
    const int which = *index == kUndefined ? kUndefined : *index - base;
    if (result == kSuccess && is_index(requests, which)) {
      completed.note(static_cast<size_t>(which), 0);
    }
    record(name, number, {which});
    return result;
  }

  // Waits for, or tests, some. `outcount`, and `indices` counted from `base`.
  template <class Make, class WaitOne>
  int complete_some(const char* name, const Requests& requests, int* outcount, int* indices,
                    int base, int* statuses, Make&& make, WaitOne&& wait_one) {
    const Library* l = following();
    if (l == nullptr) return make(statuses);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      if (first_of(*recorded) == kUndefined) return make(statuses);
      return repeat_some(*l, *recorded, requests, outcount, indices, base, statuses, wait_one);
    }
    Completed completed(*this, *l, requests, statuses, requests.count);
    const int result = make(completed.statuses());
    Values values{*outcount};
    for (int i = 0; result == kSuccess && i < *outcount; ++i) {
      const int which = indices[i] - base;
      values.push_back(which);
      if (is_index(requests, which)) completed.note(static_cast<size_t>(which), i);
    }
    record(name, number, values);
    return result;
  }

  // Tests one or all. `wait(statuses)` waits for what was complete when it was recorded.
  template <class Make, class Wait>
  int test_all(const char* name, const Requests& requests, int* flag, int* statuses, Make&& make,
               Wait&& wait) {
    const Library* l = following();
    if (l == nullptr) return make(statuses);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      *flag = first_of(*recorded) == 1 ? 1 : 0;
      return *flag != 0 ? wait_all(requests, statuses, wait) : kSuccess;
    }
    Completed completed(*this, *l, requests, statuses, requests.count);
    const int result = make(completed.statuses());
    const bool all = result == kSuccess && *flag != 0;
    for (size_t i = 0; all && i < requests.count; ++i) completed.note(i, i);
    record(name, number, {all ? 1 : 0});
    return result;
  }

  // Tests whether any one is complete; `flag`, `index` counted from `base`.
  template <class Make, class WaitOne>
  int test_any(const char* name, const Requests& requests, int* index, int base, int* flag,
               int* status, Make&& make, WaitOne&& wait_one) {
    const Library* l = following();
    if (l == nullptr) return make(status);
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      *flag = recorded->size() == 2 ? 1 : 0;
      *index = kUndefined;
      if (*flag == 0) return kSuccess;
      if (!is_index(requests, (*recorded)[1])) return make(status);
      *index = (*recorded)[1] + base;
      return repeat_one(*l, requests, (*recorded)[1], status, wait_one);
    }
    Completed completed(*this, *l, requests, status, 1);
    const int result = make(completed.statuses());
    if (result != kSuccess || *flag == 0) {
      record(name, number, {0});
      return result;
    }
    const int which = *index == kUndefined ? kUndefined : *index - base;
    if (is_index(requests, which)) completed.note(static_cast<size_t>(which), 0);
    record(name, number, {1, which});
    return result;
  }

  // Looks whether one is complete, which stays as it is.
  template <class Make>
  int look_at(const char* name, Handle request, int* flag, Make&& make) {
    if (following() == nullptr) return make();
    const uint64_t number = next_++;
    if (const auto recorded = this->recorded(name, number)) {
      *flag = 0;
      int result = kSuccess;
      while (first_of(*recorded) == 1 && *flag == 0 && result == kSuccess) result = make();
      if (*flag != 0) arrived(request);
      return result;
    }
    const int result = make();
    const bool complete = result == kSuccess && *flag != 0;
    if (complete) arrived(request);
    record(name, number, {complete ? 1 : 0});
    return result;
  }

  // The request is given up: whether a message had come is nobody's to know.
  void give_up(Handle request, const char* what) {
    if (following() == nullptr) return;
    if (open_.contains(request)) refuse(what);
    persistent_.erase(request);
  }

  // For receives of a form that is not followed.
  void refuse_open(int source, int tag, const char* what) {
    const Library* l = following();
    if (l != nullptr && is_open(*l, source, tag)) refuse(what);
  }

  double time(double (*now)());

 private:
  // The program's status, or one of ours where it does not want to know.
  class OwnStatus {
   public:
    OwnStatus(const Library& library, int* status)
        : library_(library),
          status_(reinterpret_cast<uintptr_t>(status) == library.status_ignore ? own_.data()
                                                                               : status) {}
    int* get() { return status_; }
    int source() const { return status_[library_.source_at]; }
    int tag() const { return status_[library_.tag_at]; }

   private:
    const Library& library_;
    std::array<int, kMostStatusInts> own_{};
    int* status_;
  };

  // A call that writes to device memory, from before that is journaled until it has: another thread
  // of a single rank makes no cut meanwhile.
  class DeviceWriteScope {
   public:
    explicit DeviceWriteScope(Process& process) : process_(process) {
      ++process_.underway_;
      process_.tell_open();
    }
    ~DeviceWriteScope() {
      --process_.underway_;
      process_.tell_open();
    }
    DeviceWriteScope(const DeviceWriteScope&) = delete;
    DeviceWriteScope& operator=(const DeviceWriteScope&) = delete;

   private:
    Process& process_;
  };

  // Requests that may be receives from anybody, before they are complete and forgotten.
  class Completed {
   public:
    Completed(Process& process, const Library& library, const Requests& requests, int* statuses,
              size_t count);
    int* statuses() { return statuses_; }
    // The request at `index` is complete, with the status at `place`.
    void note(size_t index, size_t place);

   private:
    Process& process_;
    const Library& library_;
    std::vector<Handle> requests_;  // empty where none is open
    std::vector<int> own_;
    int* statuses_;
  };

  static Ballot cast_ballot();
  static bool is_open(const Library& library, int source, int tag) {
    return source != library.proc_null && (source == library.any_source || tag == kAnyTag);
  }
  static int first_of(const Values& values) { return values.empty() ? 0 : values[0]; }
  static bool is_index(const Requests& requests, int index) {
    return index >= 0 && static_cast<size_t>(index) < requests.count;
  }

  // One that was complete when it was recorded.
  template <class WaitOne>
  int repeat_one(const Library& library, const Requests& requests, int index, int* status,
                 WaitOne& wait_one) {
    const auto at = static_cast<size_t>(index);
    const Requests one{requests.place(at), 1, requests.bytes};
    Completed completed(*this, library, one, status, 1);
    const int result = wait_one(at, completed.statuses());
    if (result == kSuccess) completed.note(0, 0);
    return result;
  }
  template <class WaitOne>
  int repeat_some(const Library& library, const Values& recorded, const Requests& requests,
                  int* outcount, int* indices, int base, int* statuses, WaitOne& wait_one) {
    const bool ignored = reinterpret_cast<uintptr_t>(statuses) == library.status_ignore;
    *outcount = 0;
    for (size_t i = 1; i < recorded.size(); ++i) {
      if (!is_index(requests, recorded[i])) continue;
      int* const status = ignored ? statuses : statuses + (i - 1) * library.status_ints;
      const int result = repeat_one(library, requests, recorded[i], status, wait_one);
      if (result != kSuccess) return result;
      indices[(*outcount)++] = recorded[i] + base;
    }
    return kSuccess;
  }

  // A collective on this communicator is one of all ranks: of a single one, too, which makes its
  // cuts by itself.
  bool counts(Handle communicator) const {
    return library_ != nullptr && (!coordination_.active() || coordination_.has_all(communicator));
  }
  // One of all ranks has been made.
  int after(const char* name, int result) {
    if (result != kSuccess || !coordination_.active()) return result;
    Ballot agreed;
    decide(name, coordination_.after_collective(&cast_ballot, agreed) ? &agreed : nullptr);
    return result;
  }
  bool own_thread() { return thread_.load(std::memory_order_relaxed) == &self_ || meet_thread(); }
  bool meet_thread();
  void count_collective();
  void decide(const char* name, const Ballot* agreed);
  bool cut(const char* name, uint64_t number, const Ballot& agreed);
  void replay_cut(const char* name, bool shared);
  void agree_on_restore(uint64_t epoch) const;
  void open_replay();
  // The program makes another call than it did (kInvalid), or the journal is damaged.
  [[noreturn]] static void cannot_repeat(uint64_t number, const Status& why);
  std::optional<Values> recorded(std::string_view name, uint64_t number);
  std::optional<Values> matched(uint64_t number);
  void record(std::string_view name, uint64_t number, std::initializer_list<int32_t> values) {
    record(name, number, std::span(values.begin(), values.size()));
  }
  void record(std::string_view name, uint64_t number, std::span<const int32_t> values,
              uint64_t count = 1);
  // The collectives since the last outcome, at which no cut was made. They come into the journal
  // with the next outcome or cut: nobody else makes a cut.
  struct Uncut {
    std::string_view name;
    uint64_t first = 0;
    uint64_t count = 0;
  };
  void journal_uncut();
  // The facts about a request that are needed until it is complete: no cut is made before.
  struct Open {
    uint64_t posted = 0;  // a receive from anybody: the call that posted it; 0: it is none
    // Several where the library has given one handle to several requests, which are complete then.
    std::vector<BounceBuffer> stands;
  };
  Open& opened(Handle request);
  void keep(const Requests& request, BounceBuffer stand) {
    opened(request.at(0)).stands.push_back(std::move(stand));
  }
  // Puts received data where the program looks for it.
  void arrived(Handle request);

  // A request that is started any number of times, with one buffer. The stand that a replay has
  // given the library in its place is used for ever: once the session is live it is filled from the
  // buffer when a send is started, and goes there when a receive is complete.
  enum class Memory : uint8_t { kHost, kSeenByDevice, kDevice };
  struct Persistent {
    const char* name = nullptr;
    std::byte* first = nullptr;
    uint64_t bytes = 0;  // 0: nothing is sent or received
    bool receives = false;
    bool dense = false;
    Memory memory = Memory::kHost;
    BounceBuffer stand;
    bool to_device = false;  // what is being received goes there from the stand
  };
  Memory memory_at(const std::byte* first, bool receives) const;
  Persistent persistent_of(const Library& library, const char* name, const Buffer& buffer,
                           bool receives);
  void start_one(Handle request);
  void start_send(Persistent& persistent);
  void start_receive(Persistent& persistent);
  void arrived(Persistent& persistent);
  // Ends the program: a restored run's message that is not where it should be is a wrong one.
  static void must(const Status& status, const char* name);
  void tell_open() const { set_open_requests(open_.size() + underway_); }

  // `sends`: what the buffer has is sent, too.
  template <class Make>
  int fill_from(const char* name, const Buffer& buffer, bool sends, const Requests* request,
                Make& make) {
    const Library* l = following();
    if (l == nullptr) return make(buffer.start);
    const bool on_device = begins_on_device(*l, name, buffer);
    const bool aside = !on_device && request != nullptr && is_to_be_kept_aside(*l, buffer);
    if (!on_device && !aside) return make(buffer.start);
    const DeviceWriteScope underway(*this);
    BounceBuffer stand;
    if (aside) stand = BounceBuffer::aside_of(span_of(*l, buffer), buffer);
    if (on_device && sends) stand = read_once(*l, name, buffer);
    if (on_device) {
      BounceBuffer filled = written(*l, name, buffer);
      if (!sends) stand = std::move(filled);
    }
    const int result = make(stand.start(buffer));
    if (result == kSuccess && request != nullptr) keep(*request, std::move(stand));
    return result;
  }

  // Where it is not known what is: refuses, and says no.
  bool begins_on_device(const Library& library, const char* name, const Buffer& buffer) {
    if (buffer.is_empty()) return false;
    const bool in_one_piece = buffer.blocks.number == 0 && !buffer.behind;
    if (in_one_piece && buffer.start != nullptr) return control_->is_device_memory(buffer.start);
    return lies_on_device(library, name, buffer);
  }
  bool lies_on_device(const Library& library, const char* name, const Buffer& buffer);
  // Whether a request will fill host memory that a replay still writes to.
  bool is_to_be_kept_aside(const Library& library, const Buffer& buffer) const;
  // The bytes of a buffer that the call only reads: into the journal, or, in a replay, out of it.
  BounceBuffer read_once(const Library& library, const char* name, const Buffer& buffer);
  // False: it was not recorded, and the session is live. Bytes that are sent, and what is written.
  bool repeat_read(const char* name, uint64_t number, std::span<std::byte> bytes);
  // The bytes of a buffer that the call writes: in a replay another place for them.
  BounceBuffer written(const Library& library, const char* name, const Buffer& buffer);
  // True: it was recorded.
  bool note_write(const char* name, const std::byte* first, uint64_t bytes);
  void refuse_device_in(const char* name);
  void refuse_seen_in(const char* name);

  const Library* library_ = nullptr;
  CutControl* control_ = nullptr;  // null: so is library_, and always was
  // The one that makes MPI calls, by where it has this variable of its own; null: none yet.
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local char self_ = 0;
  std::atomic<const void*> thread_{nullptr};
  Coordination coordination_;
  uint64_t next_ = 1;                      // number of the next call with an outcome
  std::unique_ptr<OutcomeReader> reader_;  // in a replay
  std::map<Handle, Open> open_;
  std::map<Handle, Persistent> persistent_;
  std::atomic<bool> has_bound_{false};  // one of them has its place in our memory
  size_t underway_ = 0;
  Uncut uncut_;
  double time_offset_ = 0;           // a restored run's clock goes on where it was
  std::optional<double> last_time_;  // of the recording, not continued yet
};

// The one of this process.
inline Process& process() {
  return Process::get();
}

}  // namespace gpusnap::mpi
