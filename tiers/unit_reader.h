// SPDX-License-Identifier: Apache-2.0
//
// Reads, checks and hands out units, several at a time. Reading may begin before the caller can
// take units (read_ahead()): then the first ones wait in buffers, checked, and the next ones on a
// local device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tiers/ahead_files.h"
#include "tiers/ahead_plan.h"
#include "tiers/file_system.h"
#include "tiers/local_chunks.h"
#include "tiers/manifest_file.h"
#include "tiers/mutex.h"
#include "tiers/page_memory.h"
#include "tiers/part_reader.h"
#include "tiers/read_unit.h"
#include "tiers/spawn.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// Makes the files for units that memory does not hold. Null: there are none.
using MakeAheadFiles = std::function<std::unique_ptr<AheadFiles>()>;

// Used by one thread at a time, except for stop_ahead().
class UnitReader {
 public:
  // All arguments, and everything that `units` point to, outlive it. `near` counts the bytes that
  // are read; null: they are not counted.
  UnitReader(FileSystem& files, const JobPlace& job, const PartReaderOptions& options,
             ReadBuffers& buffers, ReadUnits units, LocalChunks* near);
  UnitReader(const UnitReader&) = delete;
  UnitReader& operator=(const UnitReader&) = delete;
  // Waits for reads in flight.
  ~UnitReader();

  // Reads as much as the buffers and the files take, until stop_ahead(). Does not fail: run() reads
  // units again that could not be read or are wrong.
  void read_ahead(const MakeAheadFiles& make_files);
  void stop_ahead();

  // Hands out each unit once: first those in memory, then those on a local device, then the others
  // in their order. Returns the first failure, after which no unit is handed out, unless the
  // options say so.
  Status run(const TakePieces& take, const std::function<void(uint64_t)>& advance);

 private:
  // The place from which a unit was read.
  enum class Source : uint8_t { kStore, kCopy, kAhead };
  // A buffer that several small units share; given back with the last of them.
  struct Shared {
    std::byte* buffer = nullptr;
    size_t used = 0;  // bytes
  };
  // A unit that is being read or has been.
  struct Part {
    const ReadUnit* unit = nullptr;
    size_t number = 0;
    std::byte* buffer = nullptr;     // of buffers_, or
    std::shared_ptr<Shared> shared;  // a part of one, or
    PageMemory own;                  // memory of its own, if it is larger than a buffer
    PageMemory stored;               // the stored bytes of a compressed block
    uint64_t stored_room = 0;        // bytes of `stored`
    std::span<std::byte> raw;
    std::span<std::byte> plain;
    Source source = Source::kStore;
    bool is_ahead = false;                  // begun before it was needed
    Status status;                          // of reading and checking it
    std::optional<AheadFiles::Place> goal;  // read ahead: the place that it is moved to
    std::optional<Status> moved;            // the outcome of moving it
  };
  // A file that copies are read from.
  struct CopyFile {
    size_t reading = 0;  // units
    bool is_wrong = false;
    std::unique_ptr<BulkFile> file;
  };

  void fail(size_t number, Status status);
  bool ends() const { return !failure_.ok() && (take_failed_ || !options_.reads_all_it_can); }
  bool begin_next();
  void begin(std::unique_ptr<Part> part);
  void read(Part* part);
  void arrive(Part* part);
  Result<std::unique_ptr<Part>> prepare(size_t number, bool wait);
  Status open_source(Part& part);
  bool open_copy_of(size_t number);
  Status open_segment_of(const ReadUnit& unit);
  Result<std::byte*> room_for(Part& part, uint64_t bytes, bool wait);
  std::unique_ptr<Part> spare_part();
  void start_thread_if_needed();
  void work();
  void check_one(UnitChecker& checker) REQUIRES(mutex_);
  std::unique_ptr<Part> take_checked() REQUIRES(mutex_);
  std::unique_ptr<Part> wait_checked();
  std::unique_ptr<Part> wait_checked_briefly();

  bool begin_ahead();
  AheadPlan::Unit describe(const ReadUnit& unit) const;
  void keep_ahead(std::unique_ptr<Part> part);
  void move(std::unique_ptr<Part> part);
  void hold(std::unique_ptr<Part> part);
  void share_buffer(Part& part);
  void give_back_held();
  void leave(size_t number) { left_.insert(number); }
  void order_rest();

  std::unique_ptr<Part> next_part();
  void use(Part& part, const TakePieces& take, const std::function<void(uint64_t)>& advance);
  bool is_from_elsewhere(const Part& part) const { return part.source != Source::kStore; }
  void allowed(const Part& part);
  size_t gather(const ReadUnit& unit, size_t next);
  void give_back(Part& part);
  void close_idle(const Part& part);
  void end(std::unique_ptr<Part> part);

  FileSystem& files_;
  const JobPlace job_;
  const PartReaderOptions options_;
  ReadBuffers& buffers_;
  LocalChunks* const near_;
  std::vector<ReadSegment> segments_;
  const std::vector<ReadUnit> units_;

  // Used by the caller's thread alone.
  std::deque<size_t> to_read_;  // units, the next one first
  size_t under_way_ = 0;
  size_t used_ = 0;  // units
  Status failure_;   // of the unit failed_at_
  size_t failed_at_ = 0;
  bool take_failed_ = false;
  std::vector<bool>
      from_store_;  // by unit: to be read from the store although it is elsewhere, too
  std::map<const NearChunk*, CopyFile> copies_;
  std::vector<std::unique_ptr<Part>> spare_;
  std::vector<ReadPiece> gathered_;
  UnitChecker own_checker_;
  std::vector<Join> threads_;
  // Units that were read ahead.
  std::optional<AheadPlan> plan_;
  MakeAheadFiles make_files_;
  std::unique_ptr<AheadFiles> ahead_files_;
  std::map<size_t, std::unique_ptr<Part>> held_;  // in memory, by unit
  std::shared_ptr<Shared> filling_;               // takes more small units
  std::map<size_t, AheadFiles::Place> moved_;     // on a local device, by unit
  std::set<size_t> left_;                         // units that were skipped

  Mutex mutex_;
  ConditionVariable arrived_changed_;
  ConditionVariable checked_changed_;
  std::vector<std::unique_ptr<Part>> arrived_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Part>> checked_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;  // reading ahead
};

}  // namespace gpusnap
