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
#include "interpose/snapshot/snapshots.h"

namespace gpusnap {

struct CheckpointText;

class Checkpointer {
 public:
  explicit Checkpointer(Session& session);

  // Takes a checkpoint now: makes the cut, and the rest happens while the program goes on. A
  // failure is logged and reported, and changes nothing for the program. `cut_flags`: kAtCallEnd or
  // nothing.
  void take(uint8_t cut_flags);
  // The last one is still on its way: one at a time. Not any more once it has been told of.
  bool busy() const;
  // Waits until the last one is committed or has failed.
  void finish();
  // The process ends: waits as GPUSNAP_WAIT says.
  void end();
  // Waits, bounded, until the device has run empty.
  Status drain();
  // Puts the saved device memory back; every range is there, at its recorded address.
  Status load(const CheckpointInfo& checkpoint, const Manifest& manifest);
  // A context is seen for the first time, and is current; it has ended.
  void add_context(CUcontext context);
  // As Snapshots has it.
  [[nodiscard]] std::unique_ptr<DeviceLane> forget_context(CUcontext context);
  Snapshots& snapshots() { return snapshots_; }

 private:
  struct Place {         // of a complete checkpoint
    uint64_t epoch = 0;  // 0: there is none
    uint32_t chain = 0;
  };
  struct Saved {
    Place place;
    uint64_t bytes = 0;
    uint64_t stall_ns = 0;
    CallCounts meanwhile;
  };

  Status attempt(uint8_t cut_flags, std::string& id);
  Status start_snapshot(const std::string& id, uint64_t epoch, int64_t started);
  bool wants_full(Place& last, bool& hold);
  CheckpointText describe_stream(uint64_t epoch) const;
  Manifest describe_cut(uint64_t epoch);
  void describe_ranges(Manifest& manifest);
  // Any thread.
  void succeeded(const std::string& id, const Saved& saved);
  void failed(const std::string& id, const Status& status);
  void give_up(const std::string& id, const Status& status);
  Status check_addresses(const CheckpointInfo& checkpoint, const Contents& contents,
                         std::vector<uint64_t>& addresses);
  Status check_moved(const CheckpointInfo& checkpoint, const Contents& contents,
                     const std::vector<uint64_t>& addresses);
  Status load_pieces(std::span<const ReadPiece> pieces, uint64_t address,
                     std::span<const std::byte> bytes);
  Status adopt(const Manifest& manifest, const std::vector<uint64_t>& addresses);
  // Our own stream in the current context; null where none can be had.
  CUstream stream();

  Session& session_;
  Snapshots snapshots_;
  std::map<CUcontext, CUstream> streams_;
  uint64_t tried_ = 0;                        // the last epoch, whatever came of it
  std::unique_ptr<CheckpointWriter> writer_;  // of the last checkpoint
  std::atomic<bool> under_way_{false};
  std::mutex mutex_;  // of what follows
  Place last_;
  std::string last_error_;
  bool torn_said_ = false;
  int given_up_ = 0;  // checkpoints in a row, for want of buffers or torn
};

}  // namespace gpusnap
