// Takes checkpoints: makes the cut, has a logical snapshot taken (snapshots.h), and sees to it that
// it is committed. A checkpoint that has been loaded (checkpoint_loader.h) is what the next builds
// on.
//
// The session's thread only, but for what says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/journal/recorder.h"
#include "interpose/model/device_model.h"
#include "interpose/process/restored_rank.h"
#include "interpose/process/run.h"
#include "interpose/record/deliveries.h"
#include "interpose/services/triggers.h"
#include "interpose/snapshot/checkpoint_loader.h"
#include "interpose/snapshot/device_drain.h"
#include "interpose/snapshot/saving_progress.h"
#include "interpose/snapshot/snapshots.h"
#include "tiers/checkpoint_levels.h"

namespace gpusnap {

struct CheckpointText;
class DirectStorage;
namespace mpi {
class CutBarriers;
}

// Where a cut is made, and as which epoch.
struct CutPlace {
  uint8_t flags = 0;   // of its entry: kAtCallEnd, kAtCollective
  uint64_t epoch = 0;  // as all ranks have agreed; 0: the next one
  // At an MPI collective: its name, which lives for ever, and its number among the outcomes.
  const char* collective = nullptr;
  uint64_t number = 0;
  mpi::CutBarriers* cut_barriers = nullptr;  // null: none
  bool in_memory = false;                    // it stays there
  uint64_t complete = 0;                     // the last epoch that is complete on all ranks
};

class Checkpointer {
 public:
  // The session's; they outlive it.
  struct Neighbours {
    DeviceModel& model;
    Run& run;
    Deliveries& deliveries;
    std::atomic<const char*>& doubt;  // ends the recording at the next call
    const RestoredRank& restored;
    const std::unique_ptr<Recorder>& recorder;  // there is one whenever a checkpoint is taken
    const std::unique_ptr<Triggers>& triggers;  // likewise
    DirectStorage* direct = nullptr;            // null: there is none
  };
  explicit Checkpointer(const Neighbours& neighbours);

  // Takes a checkpoint now: makes the cut, and the rest happens while the program goes on. A
  // failure is logged and reported, and changes nothing for the program. False: no cut has come
  // into the journal.
  bool take(const CutPlace& place);
  // The last one is still on its way: one at a time. Not any more once it has been told of.
  bool busy() const;
  // The first epoch that is free, as far as this process knows; the last that was given up, 0:
  // none. Any thread.
  uint64_t next_epoch() const { return tried_.load(std::memory_order_relaxed) + 1; }
  uint64_t failed_epoch() const { return failed_epoch_.load(std::memory_order_relaxed); }
  // The last epoch that is complete as far as this process goes. Any thread.
  uint64_t newest_complete() const;
  // Whether the next one is to go to the store, as far as this process knows. The session's lock is
  // held.
  bool wants_store();
  // Where the checkpoint goes, if the ranks have not agreed upon that.
  void choose_level(CutPlace& place, CutReason reason);
  // Epochs up to this one are taken.
  void skip_to(uint64_t epoch);
  // All ranks have agreed on this one, and this rank cannot take part in it.
  void miss(uint64_t epoch);
  // Another rank has given this epoch up: nothing more of it is written. The thread that takes
  // checkpoints.
  void given_up_elsewhere(uint64_t epoch);
  // Waits until the last one is committed or has failed.
  void finish();
  // The same, and says what came of the last attempt.
  Status outcome();
  // The process ends: waits as GPUSNAP_WAIT says.
  void end();
  // As CheckpointLoader has them.
  void read_ahead(const CheckpointInfo& checkpoint, uint32_t rank) {
    loader_.read_ahead(checkpoint, rank);
  }
  void stop_reading() { loader_.stop_reading(); }
  Status load(const CheckpointInfo& checkpoint, const Manifest& manifest);
  // The next checkpoint is a full one: this process's journal is its own.
  Status reload(const CheckpointInfo& checkpoint, const Manifest& manifest) {
    return loader_.reload(checkpoint, manifest);
  }
  // A context is seen for the first time, and is current; it has ended.
  void add_context(CUcontext context);
  // As Snapshots has it.
  [[nodiscard]] std::unique_ptr<DeviceLane> forget_context(CUcontext context);
  Snapshots& snapshots() { return snapshots_; }
  // How checkpoints get on. Any thread.
  void tell(Doing doing, ProcessStatus& status) const {
    progress_.tell(doing, snapshots_.saved_bytes(), status);
  }

 private:
  struct Saved {
    uint64_t epoch = 0;
    uint32_t chain = 0;
    bool in_memory = false;
    uint64_t bytes = 0;
    int64_t cut_unix_ns = 0;
    uint64_t stall_ns = 0;
    CallCounts meanwhile;
  };

  Status attempt(const CutPlace& place, std::string& id, bool& cut);
  Status wait_saved();
  Status start_snapshot(const std::string& id, const CutPlace& place, uint64_t epoch,
                        int64_t started);
  bool wants_full(bool in_memory, CheckpointLevels::Base& last, bool& hold);
  CheckpointText describe_stream(const CutPlace& place, uint64_t epoch) const;
  void journal_cut(const CutPlace& place);
  Manifest describe_cut(uint64_t epoch);
  void describe_ranges(Manifest& manifest);
  void note_image(Manifest& manifest, bool in_memory);
  bool stores_all(const std::string& why);
  // Any thread.
  void succeeded(const std::string& id, const Saved& saved);
  void failed(const std::string& id, uint64_t epoch, bool in_memory, const Status& status);
  void give_up(const std::string& id, const Saved& given_up, const Status& status);
  Status adopt(const Manifest& manifest, const std::vector<uint64_t>& addresses);

  const Neighbours with_;
  DeviceModel& model_;
  Run& run_;
  Snapshots snapshots_;
  DeviceDrain device_;
  CheckpointLoader loader_;
  std::atomic<uint64_t> tried_{0};  // the last epoch, whatever came of it
  std::atomic<uint64_t> failed_epoch_{0};
  std::atomic<uint64_t> elsewhere_{0};        // the last that another rank gave up
  Status attempted_;                          // what came of the last attempt up to its cut
  std::unique_ptr<CheckpointWriter> writer_;  // of the last checkpoint
  std::atomic<bool> under_way_{false};
  SavingProgress progress_;
  std::atomic<uint64_t> image_bytes_{0};  // of all device memory at the last cut
  bool said_too_small_ = false;           // wants_store()'s
  uint64_t complete_ = 0;                 // on all ranks
  mutable std::mutex mutex_;              // of what follows
  CheckpointLevels levels_;
  std::string last_error_;
  bool torn_said_ = false;
  int given_up_ = 0;  // checkpoints in a row, for want of buffers or torn
};

}  // namespace gpusnap
