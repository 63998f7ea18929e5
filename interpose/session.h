// One process that uses CUDA, from its first successful cuInit to its end: what is known of its
// device memory, its journal, and whether it records or replays.
//
// All of it belongs to one thread, the one that called cuInit: a hooked call from another thread
// ends recording, since its place among the others could not be repeated (the restore of programs
// with several CUDA threads is not done yet, and is refused by name).
//
// A session is one of
//   recording  every hooked call goes to the driver and into the journal; checkpoints are taken;
//   replaying  calls up to the cut are checked against the journal, and skipped or made again;
//   off        everything passes through. Nothing leads back from there.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "interpose/driver.h"
#include "interpose/entry.h"
#include "interpose/hook.h"
#include "interpose/host_memory.h"
#include "interpose/modules.h"
#include "interpose/placement.h"
#include "interpose/recorder.h"
#include "interpose/replayer.h"
#include "interpose/services/call_site.h"
#include "interpose/services/program.h"
#include "interpose/services/settings.h"
#include "interpose/services/triggers.h"
#include "interpose/slot_memory.h"
#include "interpose/workers.h"
#include "tiers/store.h"
#include "tracker/memory_map.h"
#include "tracker/write_set.h"

namespace gpusnap {

// Exit codes of a replay that cannot go on; the tool documents them.
inline constexpr int kExitDamaged = 65, kExitNoCheckpoint = 66, kExitOtherProgram = 69,
                     kExitDiverged = 71, kExitImpossible = 72, kExitStore = 73, kExitSetting = 78;

// What waits for the copies that a call needs first: the stream on which it writes, or, for what no
// stream orders (frees, unloads), the host.
enum class Hold : uint8_t { kStream, kHost };

class Session {
 public:
  enum class Mode { kOff, kRecord, kReplay };

  // Called once, at the first successful cuInit, on the calling thread: that thread owns the
  // session. False: everything passes through for the rest of the process.
  static bool start();
  // Called when the process ends normally: waits for the checkpoint on its way.
  static void finish();
  static void abandon_after_fork();
  // Any thread: the program has got something that we cannot follow.
  static void lose_sight(const char* name);
  // The session, if it is not off and the calling thread owns it. A foreign thread turns it off.
  static Session* enter(HookId hook);

  Mode mode() const { return mode_; }
  bool replaying() const { return mode_ == Mode::kReplay; }
  const Driver& driver() const { return *driver_; }
  MemoryMap& memory() { return memory_; }
  HostMemory& host_memory() { return host_memory_; }
  Modules& modules() { return modules_; }
  Placement& placement() { return placement_; }
  Recorder& recorder() { return *recorder_; }

  // Before each hooked call: takes the checkpoint that is due; in a replay goes live at the cut.
  void before_call(HookId hook);
  // After a call that synchronised.
  void after_synchronisation();
  // The program did what cannot be restored: no more checkpoints of this process. Says so once.
  void refuse(const std::string& what);

  // A snapshot has zones that it still has to save: calls must say what they are about to write.
  bool snapshot_pending() const { return snapshot_pending_; }
  // The calling thread is about to make a call that may write `set`, on `stream` of its current
  // context (null: the legacy default stream). Never called in a replay.
  void before_write(const WriteSet& set, CUstream stream, Hold how) {
    if (!snapshot_pending_) return;
    (void)set, (void)stream, (void)how;
  }

  // Bookkeeping of what a drain has to wait for. Handles are the driver's.
  void note_context();
  void add_stream(CUstream stream);
  void remove_stream(CUstream stream);
  void forget_context(CUcontext context);
  CUcontext current_context() const;
  // Who asked for memory, and the how-manieth time from there.
  Identity identify();
  void note_primary_context(CUdevice device, CUcontext context);
  CUcontext primary_context(CUdevice device) const;
  std::vector<CUcontext> contexts() const;
  bool has_one_context() const { return streams_.size() == 1; }
  void use_per_thread_stream() { per_thread_stream_used_ = true; }

  // The address, where it is one that a replay must repeat; 0 for any other.
  // A module's variable may lie elsewhere in a replay: it counts by its name.
  uint64_t known(uint64_t address) const;
  // For addresses that the map does not know.
  bool is_device_address(uint64_t address) const;
  // Pinned memory that stands in for the driver's own at a recorded address: its size, else 0.
  void note_placed_pinned(uint64_t address, uint64_t size) { placed_pinned_[address] = size; }
  void forget_placed_pinned(uint64_t address) { placed_pinned_.erase(address); }
  uint64_t placed_pinned(uint64_t address) const;

  // The device may have changed host-visible memory from now on, until a capture says otherwise.
  void device_may_write() { device_may_write_ = true; }
  // A copy back whose bytes will be there later: remembers `block`, and a mark behind the copy on
  // its stream. False when no mark could be set; the copy must then be taken as it returns.
  bool defer(const HostBlock& block, CUstream stream);
  // Nobody will look at copies into this memory any more.
  void forget_pending(uint64_t address, uint64_t size);
  // The host got these bytes as the answer of a call: no news for captures. Recording and replay.
  void note_answered(const HostBlock& block);
  // What the host can see at this point of the recording and has not been journaled.
  // `all_done`: the device has run empty.
  const std::vector<Delivery>& collect(bool all_done, uint8_t* flags);
  void forget_collected();

  // Replay. Reads the next call and compares it; ends the process where they differ.
  const Entry& expect(HookId hook, const CallKey& key);
  // The same for a poll: whether the device was busy. False: expect() gives what came of it.
  bool expect_busy(HookId hook);
  void remember_deferred(const HostBlock& block);
  // Gives the host what entry brought beside its answer.
  void deliver(const Entry& entry);

  [[noreturn]] void diverged(const std::string& expected, const std::string& got);
  [[noreturn]] static void impossible(int exit_code, const std::string& why);
  std::string describe(uint16_t hook, const uint64_t* words, size_t count, std::string_view name);

 private:
  friend class Checkpointer;
  struct PendingCopy {
    uint64_t ordinal = 0;
    HostBlock block;
    CUcontext context = nullptr;
    CUevent done = nullptr;
  };

  explicit Session(const Driver& driver);
  bool configure();
  Status open_store();
  std::string restore_id() const;
  void begin_replay();
  Status begin_recording(std::vector<JournalPart> before, uint64_t calls, uint64_t launches);
  void warn_if_randomised() const;
  void checkpoint_if_wanted(uint8_t cut_flags);
  void read_next();
  void read_entry();
  void go_live();
  CUevent take_event(CUcontext context);

  const Driver* driver_;
  std::atomic<Mode> mode_{Mode::kOff};
  // What ends the recording at the owner's next call, told from another thread; a string that lives
  // for ever, or null.
  std::atomic<const char*> foreign_{nullptr};
  Settings settings_;
  std::string job_;
  std::string run_;  // random, names this process's files
  ProgramIdentity program_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileLock> job_lock_;
  Workers workers_{2};  // the journal's writer and the checkpoint's
  CallSites call_sites_;
  std::map<uint64_t, uint32_t> call_site_uses_;
  std::unique_ptr<Triggers> triggers_;
  PinnedSlots slot_memory_;
  std::unique_ptr<StagingPool> pool_;
  std::unique_ptr<class Checkpointer> checkpointer_;

  MemoryMap memory_;
  HostMemory host_memory_;
  Modules modules_;
  Placement placement_;
  std::map<uint64_t, uint64_t> placed_pinned_;
  std::map<CUdevice, CUcontext> primary_contexts_;
  std::map<CUcontext, std::set<CUstream>> streams_;
  bool per_thread_stream_used_ = false;
  bool snapshot_pending_ = false;

  std::unique_ptr<Recorder> recorder_;
  bool device_may_write_ = false;
  std::vector<PendingCopy> pending_;
  size_t collected_ = 0;  // leading pending_ that the last collect() returned
  std::vector<Delivery> deliveries_;
  uint64_t deferred_count_ = 0;
  std::map<CUcontext, std::vector<CUevent>> events_;

  std::unique_ptr<Replayer> replayer_;
  CheckpointInfo restored_;
  Entry entry_;
  bool entry_read_ = false;     // entry_ is the next one, neither compared nor delivered yet
  bool cut_delivered_ = false;  // the last cut's entry has been delivered at the end of its call
  uint64_t polls_left_ = 0;     // of the run of polls in entry_
  std::map<uint64_t, HostBlock> deferred_blocks_;
};

}  // namespace gpusnap
