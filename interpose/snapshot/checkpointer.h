// Takes checkpoints and loads them: makes the cut, has a logical snapshot taken (snapshots.h), sees
// to it that it is committed, and brings the memory of a checkpoint back to the device.
//
// The session's thread only, but for what says otherwise.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "interpose/session.h"
#include "interpose/snapshot/saving_progress.h"
#include "interpose/snapshot/snapshots.h"
#include "tiers/backend/restore_reader.h"

namespace gpusnap {

struct CheckpointText;

// Where a cut is made, and as which epoch.
struct CutPlace {
  uint8_t flags = 0;   // of its entry: kAtCallEnd, kAtCollective
  uint64_t epoch = 0;  // as all ranks have agreed; 0: the next one
  // At an MPI collective: its name, which lives for ever, and its number among the outcomes.
  const char* collective = nullptr;
  uint64_t number = 0;
  mpi::CutBarriers* cut_barriers = nullptr;  // null: none
};

class Checkpointer {
 public:
  explicit Checkpointer(Session& session);

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
  // Epochs up to this one are taken.
  void skip_to(uint64_t epoch);
  // All ranks have agreed on this one, and this rank cannot take part in it.
  void miss(uint64_t epoch);
  // Another rank has given this epoch up: nothing more of it is written. The thread that takes
  // checkpoints.
  void given_up_elsewhere(uint64_t epoch);
  // Waits until the last one is committed or has failed.
  void finish();
  // The process ends: waits as GPUSNAP_WAIT says.
  void end();
  // Waits, bounded, until the device has run empty.
  Status drain();
  // A replay has begun: what load() will need is read from now on.
  void read_ahead(const CheckpointInfo& checkpoint, uint32_t rank);
  // There will be no load().
  void stop_reading();
  // Puts the saved device memory back; every range is there, at its recorded address.
  Status load(const CheckpointInfo& checkpoint, const Manifest& manifest);
  // The same into a program that is no replay of the checkpoint's: allocations are those made at
  // the same places in it, wherever they lie.
  Status reload(const CheckpointInfo& checkpoint, const Manifest& manifest);
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
  struct Place {         // of a complete checkpoint
    uint64_t epoch = 0;  // 0: there is none
    uint32_t chain = 0;
  };
  struct Saved {
    Place place;
    uint64_t bytes = 0;
    int64_t cut_unix_ns = 0;
    uint64_t stall_ns = 0;
    CallCounts meanwhile;
  };

  Status attempt(const CutPlace& place, std::string& id, bool& cut);
  Status start_snapshot(const std::string& id, uint64_t epoch, int64_t started);
  bool wants_full(Place& last, bool& hold);
  CheckpointText describe_stream(uint64_t epoch) const;
  Status copy_arrays(Arrays::Direction direction);
  Manifest describe_cut(uint64_t epoch);
  void describe_ranges(Manifest& manifest);
  // Any thread.
  void succeeded(const std::string& id, const Saved& saved);
  void failed(const std::string& id, uint64_t epoch, const Status& status);
  void give_up(const std::string& id, uint64_t epoch, const Status& status);
  // Where an allocation of the checkpoint is in this process; 0: nowhere.
  using Find = std::function<uint64_t(const SavedRange& saved)>;
  uint64_t find_variable(const SavedRange& saved) const;
  Status put_back(const CheckpointInfo& checkpoint, const Manifest& manifest, const Find& find,
                  std::vector<uint64_t>& addresses);
  struct LoadedRanges {
    std::vector<uint64_t> addresses;       // in this process
    std::vector<const SavedRange*> moved;  // that had another one, and may be pointed to
  };
  Status find_addresses(std::span<const SavedRange> ranges, const Find& find, LoadedRanges& loaded);
  Status load_pieces(std::span<const ReadPiece> pieces, const LoadedRanges& loaded,
                     std::span<const std::byte> bytes);
  std::unique_ptr<RestoreReader> make_reader(const CheckpointInfo& checkpoint, uint32_t rank);
  std::unique_ptr<RestoreReader> take_reader();
  Status adopt(const Manifest& manifest, const std::vector<uint64_t>& addresses);
  // Our own stream in the current context; null where none can be had.
  CUstream stream();

  Session& session_;
  Snapshots snapshots_;
  std::map<CUcontext, CUstream> streams_;
  std::atomic<uint64_t> tried_{0};  // the last epoch, whatever came of it
  std::atomic<uint64_t> failed_epoch_{0};
  std::atomic<uint64_t> elsewhere_{0};        // the last that another rank gave up
  std::unique_ptr<CheckpointWriter> writer_;  // of the last checkpoint
  std::atomic<bool> under_way_{false};
  SavingProgress progress_;
  std::mutex mutex_;                       // of what follows
  std::unique_ptr<RestoreReader> reader_;  // of the checkpoint whose replay is on its way
  Place last_;
  std::string last_error_;
  bool torn_said_ = false;
  int given_up_ = 0;  // checkpoints in a row, for want of buffers or torn
};

}  // namespace gpusnap
