// Takes checkpoints and loads them: the cut, and the way of the data from device memory through
// staging slots to the store and back.
//
// For now the whole way to the slots is inside the cut: the device is drained, every zone of every
// range is copied, then the program goes on while the rest (checksums, files, commit) happens on
// the writer's thread. The parts are the ones that a copy-on-write snapshot needs: zone tables say
// what is pending, slots carry it, the writer takes them in any order.
//
// The session's thread only.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "interpose/session.h"

namespace gpusnap {

class Checkpointer {
 public:
  explicit Checkpointer(Session& session) : session_(session) {}

  // Takes a checkpoint now. A failure is logged and reported, and changes nothing for the program.
  // `cut_flags`: kAtCallEnd or nothing.
  void take(uint8_t cut_flags);
  // Waits until the last one is committed or has failed.
  void finish();
  // Waits, bounded, until the device has run empty.
  Status drain();
  // Puts the saved device memory back; every range is there, at its recorded address.
  Status load(const CheckpointInfo& checkpoint, const Manifest& manifest);
  void forget_context(CUcontext context) { streams_.erase(context); }

 private:
  struct Flight;  // a slot between the device and the writer

  Status attempt(uint8_t cut_flags, std::string& id);
  Status save_memory(CheckpointWriter& writer, Manifest& manifest);
  Status save_range(CheckpointWriter& writer, uint32_t index, const MemoryRange& range,
                    Flight& flight);
  Status hand_over(CheckpointWriter& writer, Flight& flight);
  std::chrono::nanoseconds longest_wait() const;
  Manifest describe_cut(uint64_t epoch);
  Status check_addresses(const CheckpointInfo& checkpoint, const Contents& contents,
                         std::vector<uint64_t>& addresses);
  Status check_moved(const CheckpointInfo& checkpoint, const Contents& contents,
                     const std::vector<uint64_t>& addresses);
  Status load_pieces(std::span<const PlacedExtent> pieces, uint64_t address,
                     std::span<const std::byte> bytes);
  // Our own stream in the current context; null where none can be had.
  CUstream stream();
  Status driver_status(const char* what, CUresult result) const;

  Session& session_;
  std::map<CUcontext, CUstream> streams_;
  std::unique_ptr<CheckpointWriter> writer_;  // of the last checkpoint
  std::string last_error_;
  int given_up_ = 0;  // checkpoints in a row for want of a slot
};

}  // namespace gpusnap
