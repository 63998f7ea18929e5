// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/restore_reader.h"

#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/backend/near_copies.h"
#include "tiers/clock.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"

namespace gpusnap {

RestoreReader::RestoreReader(FileSystem& files, Store& store, Request request,
                             std::unique_ptr<ReadBuffers> buffers)
    : files_(files), store_(store), request_(std::move(request)), buffers_(std::move(buffers)) {}

RestoreReader::~RestoreReader() {
  end_ahead();
}

Status RestoreReader::find() {
  if (reader_ != nullptr) return {};
  const CheckpointInfo& checkpoint = request_.checkpoint;
  Result<Contents> contents = store_.resolve(checkpoint, request_.rank);
  if (!contents.ok()) return contents.status();
  return no_throw("prepare to read a checkpoint", [&]() -> Status {
    contents_ = std::move(contents.value());
    near_ = find_copies(files_, request_.ssd, store_.folder(), checkpoint.job, contents_->chain);
    const JobPlace job{store_.job_folder(checkpoint.job), sanitise_job(checkpoint.job)};
    ReadUnits units = units_of(job, contents_->chain, contents_->pieces, buffers_->bytes(), &near_);
    PartReaderOptions options;
    options.spawn = request_.spawn;
    reader_ =
        std::make_unique<UnitReader>(files_, job, options, *buffers_, std::move(units), &near_);
    return {};
  });
}

void RestoreReader::begin() {
  if (!find().ok()) return;
  MakeAheadFiles make;
  if (!request_.ssd.empty()) make = [this] { return make_files(); };
  Result<Join> thread = start_thread(request_.spawn, "read-ahead", [this, make] {
    ahead_status_ = no_throw("read ahead", [&] {
      reader_->read_ahead(make);
      return Status();
    });
  });
  if (thread.ok()) ahead_ = std::move(thread.value());
}

void RestoreReader::stop() {
  if (reader_ != nullptr) reader_->stop_ahead();
}

void RestoreReader::end_ahead() {
  stop();
  if (ahead_) std::exchange(ahead_, {})();
  // Memory ran out somewhere: nobody can tell which units are where.
  if (!std::exchange(ahead_status_, {}).ok()) reader_.reset();
}

Result<const Contents*> RestoreReader::open() {
  const int64_t began = monotonic_clock().now_ns();
  end_ahead();
  Status found = find();
  waited_ns_ += monotonic_clock().now_ns() - began;
  if (!found.ok()) return found;
  return &*contents_;
}

Status RestoreReader::read_all(const TakePieces& take) {
  Clock& clock = monotonic_clock();
  int64_t taking = 0;
  const int64_t began = clock.now_ns();
  Status read = no_throw("read a checkpoint", [&] {
    return reader_->run(
        [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
          const int64_t now = clock.now_ns();
          Status taken = take(pieces, bytes);
          taking += clock.now_ns() - now;
          return taken;
        },
        {});
  });
  waited_ns_ += clock.now_ns() - began - taking;
  return read;
}

std::unique_ptr<AheadFiles> RestoreReader::make_files() const {
  auto made = std::make_unique<AheadFiles>();
  for (const SsdFolder& folder : request_.ssd) {
    const uint64_t room = unused_on(files_, folder) / request_.shares;
    if (room < buffers_->bytes()) continue;
    auto file = make_file(folder);
    if (file.ok()) made->add(std::move(file.value()), room);
  }
  return made;
}

// A backend that finds a name which a SIGKILL has kept from going removes it: it lies in the folder
// of what looks like a backend, and no log speaks of it.
Result<std::unique_ptr<BulkFile>> RestoreReader::make_file(const SsdFolder& folder) const {
  constexpr int kFolders = 3;  // of a store, a job, an epoch
  const CheckpointInfo& checkpoint = request_.checkpoint;
  const std::string own = user_folder(folder.path) + "/restore-" + request_.run;
  const std::string below = own + "/" + store_key(store_.folder()) + "/" +
                            sanitise_job(checkpoint.job) + "/" + epoch_folder(checkpoint.epoch);
  const std::string path = below + "/" + chunk_name({request_.rank, request_.run, 0});
  auto lock = in_folder_of(files_, own + "/lock", [&] { return files_.lock(own + "/lock"); });
  if (!lock.ok()) return lock.status();
  auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, kRoomAhead); });
  const Status removed = file.ok() ? files_.remove(path) : Status();
  remove_empty_folders(files_, below, kFolders);
  (void)files_.remove(own + "/lock");
  lock.value().reset();
  remove_empty_folders(files_, own, 2);
  if (!removed.ok()) return removed;
  return file;
}

}  // namespace gpusnap
