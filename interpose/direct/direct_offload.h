// SPDX-License-Identifier: Apache-2.0
// The direct way of one context's zones, for one snapshot: a device buffer of ours, into which a
// run of zones is copied, and the file that is being filled from it. When the run is in the buffer
// its zones are saved, as are those in the offloader's own buffer, so no call waits for them until
// they are on an SSD. Files are opened, written and closed by the thread of LibraryCalls; collect()
// looks whether it is done. The buffer is in use until then. A call that does not return within
// kLongestCall ends direct writes for good, and its run is left as one that could not be written.
//
// The rest of a run stays in the buffer, for the offloader to move to staging memory:
// the last zone of a range if it is shorter than others, and all of a run that could not be
// written. The part that the file has by then is still handed over.
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
  using Clock = std::chrono::steady_clock;
  // An SSD takes milliseconds for a run.
  static constexpr auto kLongestCall = std::chrono::seconds(10);

  struct Buffer {
    uint64_t address = 0;  // on the device
    uint64_t bytes = 0;    // a multiple of `zone_bytes`
    uint64_t zone_bytes = 0;
    uint64_t slot_bytes = 0;  // of staging memory
    CUcontext context = nullptr;
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
  // It is there: has it written to the file, but for what has been taken over.
  void write();
  // The thread has a call to make for this, or makes it.
  bool is_calling() const { return opened_ != nullptr || written_ != nullptr; }
  // Bytes that the call has written, when it has ended or is not waited for any more; nothing
  // before. `fingerprint_of(piece)`: of that zone, at the cut.
  using FingerprintOf = std::function<uint64_t(uint32_t range, uint64_t offset)>;
  std::optional<uint64_t> collect(Clock::time_point now, const FingerprintOf& fingerprint_of);
  // Pieces that have to go another way, `place` in the buffer: for the caller, who says when they
  // have gone.
  const std::vector<TransferPiece>& left() const { return left_; }
  void left_has_gone() { left_.clear(); }
  uint64_t address() const { return buffer_.address; }
  // Hands over the file with what it has. Not while the thread has a call.
  void close_file();
  // The snapshot has failed: nothing of it is needed, but for a run that is still on its way into
  // the buffer, or from there to the file. drop_run(): it is in the buffer.
  void give_up();
  void drop_run() { run_ = nullptr; }
  // Nothing is in the buffer, and in no file that has still to be handed over.
  bool idle() const {
    return run_ == nullptr && !is_calling() && left_.empty() && !(file_ && file_->used > 0);
  }

 private:
  struct OpenFile {
    DirectSink::File given;
    std::shared_ptr<CuFile::File> file;  // null: it is being opened
    uint64_t used = 0;                   // bytes behind the header
    uint64_t most = 0;
    DirectChunk chunk;
  };
  // The thread fills these in; the caller reads them when the call has ended.
  struct Opened {
    Status status;
    std::shared_ptr<CuFile::File> file;
  };
  struct Written {
    size_t pieces = 0;  // the leading ones
    Status status;
  };
  enum class Fate : uint8_t { kEnded, kWithdrawn, kAbandoned };

  bool ask_for_file();
  void open(const DirectSink::File& given);
  void call(std::function<void()> body);
  // Nothing as long as the call is waited for.
  std::optional<Fate> fate(Clock::time_point now);
  void collect_opened(Fate fate);
  uint64_t collect_written(Fate fate, const FingerprintOf& fingerprint_of);
  void add_written(const TransferPiece& piece, uint64_t written,
                   const FingerprintOf& fingerprint_of);
  uint64_t whole_zones(const TransferPiece& piece) const;
  void end_file(OpenFile file);
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
  LibraryCalls::CallPtr call_;  // null: there is none, or too many are waiting
  Clock::time_point called_{};
  std::shared_ptr<Opened> opened_;     // null: the call is none that opens a file
  std::shared_ptr<Written> written_;   // null: nor one that writes
  std::vector<TransferPiece> pieces_;  // that are being written
  std::vector<TransferPiece> left_;
};

}  // namespace gpusnap
