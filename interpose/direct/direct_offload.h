// SPDX-License-Identifier: Apache-2.0
// The direct way of one context's zones, for one snapshot: a device buffer of ours, into which a
// run of zones is copied, and the file that is being filled from it. When the run is in the buffer
// its zones are saved, as are those in the offloader's own buffer, so no call waits for them until
// they are on an SSD. But write() blocks its thread: what else has arrived is seen afterwards.
//
// The rest of a run stays in the buffer, for the offloader to move to staging memory:
// the last zone of a range where it is shorter than others, and all of a run that could not be
// written. What the file has by then is still handed over.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "interpose/direct/direct_storage.h"
#include "tiers/direct/direct_sink.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

// One thread, with the buffer's context current.
class DirectOffload {
 public:
  struct Buffer {
    uint64_t address = 0;  // on the device
    uint64_t bytes = 0;    // a multiple of `zone_bytes`
    uint64_t zone_bytes = 0;
    uint64_t slot_bytes = 0;  // of staging memory
  };
  // All outlive it. Registers the buffer; what fails is told to `storage`.
  DirectOffload(DirectStorage& storage, DirectSink& sink, const Buffer& buffer);
  // A file that holds nothing is given back.
  ~DirectOffload();
  DirectOffload(const DirectOffload&) = delete;
  DirectOffload& operator=(const DirectOffload&) = delete;

  // Bytes of the next run, which is to go into the buffer; 0: nothing now. Asks for a file.
  uint64_t room();
  // Runs are left to room(): it takes them as soon as it can.
  bool takes_runs();
  // No more runs will come.
  void no_more_runs() { has_all_ = true; }
  // A run is on its way into the buffer, each piece to its place.
  void begin(const TransferPtr& run);
  const TransferPtr& run() const { return run_; }
  // It is there: writes to the file what has not been taken over. `fingerprint_of(piece)`: of that
  // zone, at the cut. Waits for the device. What was written in bytes.
  using FingerprintOf = std::function<uint64_t(uint32_t range, uint64_t offset)>;
  uint64_t write(const FingerprintOf& fingerprint_of);
  // Pieces that have to go another way, `place` in the buffer: for the caller, who says when they
  // have gone.
  const std::vector<TransferPiece>& left() const { return left_; }
  void left_has_gone() { left_.clear(); }
  uint64_t address() const { return buffer_.address; }
  // Hands over the file with what it has.
  void close_file();
  // The snapshot has failed: nothing of it is needed, but for a run that is still on its way into
  // the buffer. drop_run(): it is there.
  void give_up();
  void drop_run() { run_ = nullptr; }
  // Nothing is in the buffer, and in no file that has still to be handed over.
  bool idle() const { return run_ == nullptr && left_.empty() && !(file_ && file_->used > 0); }

 private:
  struct OpenFile {
    DirectSink::File given;
    std::unique_ptr<CuFile::File> file;
    uint64_t used = 0;  // bytes behind the header
    uint64_t most = 0;
    DirectChunk chunk;
  };
  using Clock = std::chrono::steady_clock;

  bool has_file();
  void open(const DirectSink::File& given);
  uint64_t write_piece(const TransferPiece& piece, const FingerprintOf& fingerprint_of);
  void give_back_file();

  DirectStorage& storage_;
  DirectSink& sink_;
  const Buffer buffer_;
  bool registered_ = false;
  bool has_all_ = false;
  bool asked_ = false;  // for a file: there is no answer yet
  Clock::time_point ask_again_{};
  Clock::time_point begun_{};
  std::optional<OpenFile> file_;
  TransferPtr run_;
  std::vector<TransferPiece> left_;
};

}  // namespace gpusnap
