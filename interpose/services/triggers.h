// The events that make a checkpoint due: time, the n-th synchronisation, a signal, or `gpusnap
// checkpoint PID` through the control socket. Says when; the cut is the engine's. Through the same
// socket `gpusnap status` is told how the process gets on.
//
// The engine asks pending() at every hooked call and on_synchronisation() at every synchronising
// one. When it then makes a cut: take(), the cut, report() when the checkpoint is committed or has
// failed. One cut at a time: the report for a cut comes before the next take().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/services/caught_signals.h"
#include "interpose/services/control.h"
#include "interpose/services/settings.h"
#include "tiers/plan/interval_choice.h"

namespace gpusnap {

enum class CutReason : uint8_t {
  kNone,
  kTimer,
  kSynchronisations,
  kBarriers,
  kSignal,
  kRequest,
  // After these the program ends.
  kRequestedStop,
  kSignalledStop
};
constexpr bool is_stop(CutReason reason) {
  return reason >= CutReason::kRequestedStop;
}
// "none", "timer", "synchronisations", "barriers", "signal", "request", "stop request", "stop
// signal"
const char* name_of(CutReason reason);

// By a request or a signal, and not by itself: such a checkpoint goes to the store.
constexpr bool is_asked_for(CutReason reason) {
  return reason >= CutReason::kSignal;
}

// One at a time in a process: the signals' handler has to find it.
class Triggers {
 public:
  // Starts the background thread and the control socket and installs the signals' handler, which
  // goes on to the program's own handler, unless the signal stops the program. A part that cannot
  // be had is said in a line and left out. `spawn` makes a thread and returns its joiner:
  // spawn_thread().
  Triggers(const Schedule& every,
           const std::function<std::function<void()>(std::function<void()>)>& spawn);
  ~Triggers();  // stop()
  Triggers(const Triggers&) = delete;
  Triggers& operator=(const Triggers&) = delete;

  // This process is one of several that make their cuts together: from now on what is due is
  // wanted() and never pending(). `overdue` is called now and then, by the background thread, while
  // the timer's cut is not made.
  void coordinate(std::function<void()> overdue);
  bool wanted() const noexcept { return wanted_.load(std::memory_order_relaxed) != 0; }
  // Likewise, and somebody has asked for it: is_asked_for().
  bool is_asked_for() const noexcept;
  // And the program is to end with it.
  bool stop_wanted() const noexcept {
    return (wanted_.load(std::memory_order_relaxed) & kStopBits) != 0;
  }
  // A checkpoint is due at the MPI collective that begins.
  void on_barriers() noexcept { make_due(CutReason::kBarriers); }

  // A cut is due. Any thread; one relaxed load.
  bool pending() const noexcept { return due_.load(std::memory_order_relaxed) != 0; }
  // Counts one. True if a cut is due now, for this or any other reason. Any thread.
  bool on_synchronisation() noexcept;
  // The cut is being made now: nothing is pending any more, the interval begins again, and those
  // who asked until now wait for its report. The reason is the most deliberate one; kNone where
  // another thread was first.
  CutReason take() noexcept;
  // The program has been brought back to a checkpoint that had held it for `stall_ns`: the interval
  // begins now. With Schedule::automatic the choice goes on with `earlier`, that of the checkpoint,
  // and with this stall: how long the checkpoint was on its way is not known, and taken for the
  // mean. Before the first cut.
  void restored(const plan::ChosenInterval& earlier, uint64_t stall_ns, plan::Destination of);
  // The interval that Schedule::automatic goes by now, and what it was chosen from. Any thread.
  plan::ChosenInterval chosen() const;
  // How long the job has run by now, in all runs up to this one's checkpoints. Any thread.
  double run_s() const;
  // Answers those who wait for the cut. With Schedule::automatic, a checkpoint that is complete
  // also sets the interval, by its stall and by how long it was on its way. Any thread.
  void report(const CutOutcome& outcome, plan::Destination to = plan::Destination::kStore);
  // No checkpoint can stay in memory. With Schedule::automatic that is chosen for. Any thread.
  void stores_all();
  // Every n-th checkpoint goes to the store, as was chosen last. Any thread.
  uint64_t store_every() const;
  // No more cuts will be made: clients that wait for one, or come to ask, are told why. A client
  // that waits for the outcome of the last one still gets its report. Any thread.
  void end_cuts(const std::string& why);
  // The status of the process, but for why there are no more cuts and what the next one waits for.
  // `source` is called by the background thread, under no lock of ours.
  void set_status_source(std::function<ProcessStatus()> source);
  // The reply on memory that another process asks for: called by the background thread, under no
  // lock of ours. `descriptors` are sent along, and closed.
  using MemorySource =
      std::function<MemoryReply(const MemoryRequest&, std::vector<int>& descriptors)>;
  void set_memory_source(MemorySource source);
  // Lends this process's device buffers to others. Both are called by the background
  // thread, under no lock of ours. `lend`: as a MemorySource, of the loan of that number. `end`:
  // its borrower has returned it, or no thread of the borrower is there any more; a connection that
  // ends tells neither, since what the process has asked of its device may still be on its way.
  struct LoanSource {
    std::function<LoanReply(const LoanRequest&, uint64_t number, std::vector<int>& descriptors)>
        lend;
    std::function<void(uint64_t number)> end;
  };
  void set_loan_source(LoanSource source);
  // Where a stop needs no checkpoint, since the program is on its way back to one: the checkpoint's
  // name, else nothing. Called by the background thread, under no lock of ours.
  using StopSource = std::function<std::string()>;
  // `end` ends the process: called after those who asked were told of that checkpoint.
  void set_stop_source(StopSource source, std::function<void(const std::string& id)> end);
  // Whether others can ask.
  bool listens() const { return join_ != nullptr && listener_ >= 0; }

  // Ends the thread, answers those who still wait, gives the signal back. Once; any thread but a
  // forked child's.
  void stop();
  // In a forked child, first thing: closes what the child must not hold, and is inert from then on.
  // Safe where only async-signal-safe calls are.
  void abandon_after_fork() noexcept;

 private:
  struct Client {
    int socket = -1;
    std::chrono::steady_clock::time_point since;  // connected
    enum class State : uint8_t {
      kAsking,
      kWaiting,
      kInCut,
      kLent,
      kAnswered
    } state = State::kAsking;
    bool stops = false;  // it asks for the program's end, too
    std::string reply;
    std::vector<int> descriptors;  // that go with it
    uint64_t loan = 0;
    int borrower = -1;  // its process; kLent
  };

  static constexpr uint32_t bit_of(CutReason reason) { return 1U << static_cast<unsigned>(reason); }
  static constexpr uint32_t kStopBits = 1U << static_cast<unsigned>(CutReason::kRequestedStop) |
                                        1U << static_cast<unsigned>(CutReason::kSignalledStop);

  static void caught(void* whose, bool stops) noexcept;

  void listen();
  void run();
  std::chrono::nanoseconds make_due_by_time(std::chrono::steady_clock::time_point now);
  int poll_timeout_ms(std::chrono::steady_clock::time_point now);
  void accept_client();
  void serve(Client& client);
  static void answer(Client& client, std::string reply);
  static void send_reply(Client& client);
  size_t borrowers();
  void lend(Client& client, const LoanRequest& request);
  void serve_borrower(Client& client, std::string_view message);
  void end_loan(Client& client);
  static void refuse(Client& client, const std::string& why);
  void take_request(Client& client, bool stops);
  void withdraw_stop();
  void stop_early();
  void say_not_stopped(const std::string& why) const;
  void complete(ProcessStatus& status) const;
  void answer_and_drop();
  void choose_interval(double stall_s, std::optional<double> latency_s, plan::Destination of);
  void adopt_choice();  // with the choice's lock held
  void wake() noexcept;
  void make_due(CutReason reason) noexcept {
    auto& due = coordinated_.load(std::memory_order_acquire) ? wanted_ : due_;
    due.fetch_or(bit_of(reason), std::memory_order_release);
  }

  std::atomic<int64_t> interval_ns_;            // 0: not by time
  mutable std::mutex choice_mutex_;             // over the next three
  std::optional<plan::IntervalChoice> choice_;  // with Schedule::automatic
  double ran_before_s_ = 0;                     // earlier runs of the job, up to the checkpoint
  int64_t began_ns_ = 0;                        // this run, or its part behind the checkpoint
  std::atomic<uint64_t> every_synchronisations_;
  std::atomic<uint64_t> synchronisations_{0};
  std::atomic<uint32_t> due_{0};  // bits by CutReason
  std::atomic<bool> coordinated_{false};
  std::atomic<uint32_t> wanted_{0};      // in the place of due_, where it is coordinated
  std::function<void()> overdue_;        // set before coordinated_
  std::atomic<int64_t> last_cut_ns_{0};  // steady clock
  std::atomic<bool> stopping_{false};
  bool abandoned_ = false;
  CaughtSignals signals_{&caught, this};
  std::atomic<bool> stop_signalled_{false};  // and the background thread has not looked at it yet
  int listener_ = -1;
  int wakeup_ = -1;
  mutable std::mutex mutex_;  // over what follows, but for what is the thread's own
  plan::ChosenInterval chosen_;
  std::string why_no_more_;  // of end_cuts()
  std::function<ProcessStatus()> status_source_;
  MemorySource memory_source_;
  LoanSource loan_source_;
  StopSource stop_source_;
  std::function<void(const std::string& id)> end_;
  uint64_t last_loan_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::function<void()> join_;
};

}  // namespace gpusnap
