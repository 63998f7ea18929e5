// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/checkpoint_receiver.h"

#include <atomic>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "tiers/backend/job_thread.h"
#include "tiers/backend/part_chunks.h"
#include "tiers/backend/part_log.h"
#include "tiers/backend/part_manifest.h"
#include "tiers/backend/part_progress.h"
#include "tiers/backend/part_recovery.h"
#include "tiers/backend/part_segments.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

CheckpointPlace place_of(const CheckpointText& text) {
  const std::string job = sanitise_job(text.job);
  return {text.store + "/" + job, job, text.run, text.epoch, text.rank};
}

// The life of a part: it takes over what an earlier backend left, takes the other slots, holds them
// on local tiers, commits, and cleans up. Each of these mechanisms is a member object.
class Part final : public CheckpointReceiver {
 public:
  Part(FileSystem& files, Setting setting, Actions actions)
      : files_(files),
        setting_(std::move(setting)),
        actions_(std::move(actions)),
        place_(place_of(setting_.text)),
        folder_(place_.epoch_folder_path()),
        log_(files, progress_),
        segments_(files, segments_setting(), progress_),
        chunks_(files, chunks_setting(), {progress_, log_, segments_}),
        chunk_thread_(
            setting_.spawn, "chunks",
            {[this] { return progress_.gave_up(); }, [this](const Status& why) { fail(why); }}),
        commit_(files, place_) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() override {
    leave();
    wait();
    segments_.close();
    manifest_.release_waiting();
  }

  Status start() {
    Result<Join> thread = start_thread(setting_.spawn, "checkpoint", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  const CheckpointText& text() const override { return setting_.text; }

  bool expect(uint64_t sequence) override {
    const PartProgress::Expected expected = progress_.expect(sequence);
    if (expected == PartProgress::Expected::kTwice) {
      fail({Code::kInvalid, "a checkpoint came with one slot twice"});
    }
    return expected == PartProgress::Expected::kNew;
  }

  void add(std::vector<Slot> slots, const std::shared_ptr<PlacedFile>& chunk) override {
    std::vector<SegmentStore::Block> blocks;
    blocks.reserve(slots.size());
    for (Slot& slot : slots) {
      blocks.push_back(
          {slot.sequence, merged(slot.pieces), slot.bytes, {}, std::move(slot.release), chunk});
    }
    if (!blocks.empty()) segments_.writer_for(chunk).add(std::move(blocks));
  }

  void open_chunk(size_t folder, std::function<void(std::shared_ptr<PlacedFile>)> opened) override {
    add_chunk_job(
        [this, folder, opened = std::move(opened)] { return chunks_.make(folder, opened); });
  }

  void open_direct(size_t folder,
                   std::function<void(uint32_t number, std::string path)> opened) override {
    add_chunk_job(
        [this, folder, opened = std::move(opened)] { return chunks_.make_direct(folder, opened); });
  }

  std::string direct_path(uint32_t number) const override { return chunks_.direct_path(number); }

  void add_direct(uint64_t sequence, DirectChunk chunk, std::function<void()> stored) override {
    add_chunk_job([this, sequence, chunk = std::move(chunk), stored = std::move(stored)] {
      return chunks_.take_direct(sequence, chunk, stored);
    });
  }

  void move_chunk(uint32_t number, std::function<void()> moved) override {
    progress_.add_job(
        [this, number, moved = std::move(moved)] { return chunks_.begin_move(number, moved); });
  }

  void add_manifest(uint64_t sequence, std::span<const std::byte> bytes, Release release) override {
    manifest_.add_waiting({sequence, bytes, std::move(release)});
    // By the maker of chunks, so that a part that waits for the store keeps no slots from others.
    if (has_local()) return add_chunk_job([this] { return note_manifest(); });
    progress_.add_urgent_job([this] { return note_manifest(); });
  }

  void seal(uint64_t slots) override { progress_.seal(slots); }

  void fail(const Status& why) override {
    progress_.end(why);
    segments_.abandon();
  }
  void leave() override {
    progress_.leave({Code::kBusy, "the backend ends"});
    segments_.abandon();
  }

  void wait() override {
    if (join_) std::exchange(join_, {})();
    chunk_thread_.join();
  }

  bool waits_for_another_try() const override { return waits_; }

  Needs needs(ManifestText::Journal& journal) const override { return manifest_.needs(journal); }

 private:
  SegmentStore::Identity identity() const {
    return {place_.job_folder_name, place_.run, place_.epoch, place_.rank};
  }

  PartSegments::Setting segments_setting() {
    SegmentStore::Options options = setting_.store;
    options.segment_bytes = setting_.text.segment_bytes;
    options.log = [this](std::span<const SegmentStore::StoredBlock> blocks) {
      return log_.note_stored(blocks);
    };
    options.on_chunk_failure = [this](const PlacedFile& chunk, const Status& why) {
      progress_.add_job([this, number = chunk.number(), why] {
        chunks_.chunk_failed(number, why);
        return Status();
      });
    };
    return {folder_, identity(), std::move(options), setting_.compression, setting_.spawn};
  }

  PartChunks::Setting chunks_setting() const {
    return {place_,
            {folder_, setting_.chunk_folders},
            setting_.cache,
            setting_.store.block_bytes,
            &setting_.compression->rate,
            actions_.local_failed};
  }

  void body() {
    Status status = no_throw("take up a checkpoint", [&] { return prepare(); });
    if (status.ok() && !committed_before_) {
      actions_.ready(chunks_.found());
      status = no_throw("store a checkpoint", [&] { return take_all(); });
      if (status.ok()) status = no_throw("commit a checkpoint", [&] { return commit(); });
    }
    // Workers release their slots, also after a failure.
    if (!status.ok()) fail(status);
    chunk_thread_.end();
    progress_.wait_for_copies();
    (void)segments_.finish();
    chunks_.close();
    if (progress_.has_left() && !committed_) return;
    // A part that is whole on a local tier waits for another try.
    if ((setting_.is_leftover || may_be_held_) && is_of_device(status)) {
      waits_ = keeps_files_ = true;
    }
    (void)no_throw("remove a checkpoint's files", [&] {
      clean_up(status.ok());
      return Status();
    });
    // A crash may have brought back a part that was committed long ago: it does not tell which
    // checkpoints are to be kept now.
    if (status.ok() && !(setting_.is_leftover && committed_before_)) actions_.committed();
    actions_.ended(status);
  }

  Status prepare() {
    if (!starts_without_store()) {
      may_be_held_ = has_local();
      Status entered = enter_store();
      if (!entered.ok() || committed_before_) return entered;
      if (Status found = find(); !found.ok()) return found;
    }
    return start_segments();
  }

  // Its chunks then go to local tiers even if the store does not answer for a long time.
  bool starts_without_store() const { return setting_.is_new && has_local(); }

  // Makes its folder in the store, and finds out whether the part has been committed before.
  Status enter_store() {
    if (Status made = commit_.start(); !made.ok()) return made;
    const auto there =
        read_manifest(files_, place_.job_folder, place_.job_folder_name, place_.epoch, place_.rank);
    if (there.ok() && there->manifest.run == place_.run) {
      // An earlier backend died before it could report the commit, or make it durable.
      committed_before_ = committed_ = true;
      Status durable = files_.sync_folder(folder_);
      // The files belong to a checkpoint, whether it outlives a crash or not.
      keeps_files_ = !durable.ok();
      return durable;
    }
    if (there.status().code() != Code::kNotFound) {
      keeps_files_ = !there.ok();  // the manifest may be of this part
      if (!there.ok()) return there.status();
      return taken_by_another_run(folder_);
    }
    return {};
  }

  Status enter_store_late() {
    Status entered = enter_store();
    if (!entered.ok() || !committed_before_) return entered;
    keeps_files_ = true;
    return {Code::kInvalid, "cannot write a checkpoint: it is in " + folder_ + " already"};
  }

  // Finds what an earlier backend left.

  Status find() {
    auto found = find_part(
        files_, place_, {folder_, setting_.chunk_folders},
        [this](const std::string& path, const Status& why) { chunks_.device_failed(path, why); });
    if (!found.ok()) return found.status();
    found_part_ = std::move(found.value());
    const BlockLog& log = found_part_.log;
    if (!log.text.empty() && log.text != encode(setting_.text)) {
      return {Code::kDamaged, "the block log in " + folder_ + " is that of another checkpoint"};
    }
    if (setting_.is_leftover && !log.sealed) {
      if (!found_part_.unread.ok()) return found_part_.unread;
      return {Code::kDamaged, "the end of the block log in " + folder_ + " is no longer there"};
    }
    may_be_held_ = log.sealed || !found_part_.unread.ok();
    chunks_.take_up(found_part_);
    for (const BlockLog::ManifestSlot& slot : log.manifest) {
      manifest_.add(slot.sequence, slot.bytes);
    }
    take_up_progress();
    return {};
  }

  void take_up_progress() {
    const BlockLog& log = found_part_.log;
    std::unordered_set<uint64_t> slots;
    for (const auto& block : log.blocks) slots.insert(block.sequence);
    for (const BlockLog::ManifestSlot& slot : log.manifest) slots.insert(slot.sequence);
    std::set<uint32_t> unmoved;
    for (const auto& [number, chunk] : found_part_.chunks) unmoved.insert(number);
    progress_.take_up(std::move(slots), std::move(unmoved));
    if (setting_.is_leftover) progress_.seal(*log.sealed);
  }

  bool has_local() const { return !setting_.chunk_folders.empty(); }
  const std::string& log_folder() const {
    return has_local() ? setting_.chunk_folders.front() : folder_;
  }

  Status start_segments() {
    const std::string log = block_log_name({place_.rank, place_.run, found_part_.next_log});
    BlockLogWriter::Place place{log_folder() + "/" + log, {}, {}};
    if (has_local()) {
      place.next = folder_ + "/" + log;
      place.on_failure = [this, path = place.path](const Status& why) {
        progress_.add_job([this, path, why] {
          chunks_.device_failed(path, why);
          return Status();
        });
      };
    }
    log_.open(std::move(place), encode(setting_.text), found_part_.moved);
    return segments_.start(found_part_.next_segment);
  }

  // Runs until every slot is in a segment.
  Status take_all() {
    if (starts_without_store()) {
      if (Status entered = enter_store_late(); !entered.ok()) return entered;
    }
    if (Status opened = chunks_.open_found(); !opened.ok()) return opened;
    for (;;) {
      PartProgress::Job job;
      Status done;
      switch (progress_.wait_for_next(job)) {
        case PartProgress::Next::kEnded:
          return progress_.status();
        case PartProgress::Next::kWhole:
          return {};
        case PartProgress::Next::kLost:
          return lost();
        case PartProgress::Next::kHold:
          done = hold();
          break;
        case PartProgress::Next::kJob:
          done = job();
          break;
      }
      if (!done.ok()) return done;
    }
  }

  // A log that cannot be read may name the missing slots.
  Status lost() const {
    const std::string what = "rank " + std::to_string(place_.rank) + "'s part of " + folder_;
    const Status& unread = found_part_.unread;
    if (unread.ok()) return {Code::kDamaged, what + " was lost in part when a backend died"};
    return {unread.code(), what + " has to wait for a local tier: " + unread.message()};
  }

  // The part's thread makes chunks if there is no other thread.
  void add_chunk_job(JobThread::Job job) {
    if (!chunk_thread_.add(job)) progress_.add_job(std::move(job));
  }

  // All slots are in files: makes the part outlive the machine's memory, unless a local device
  // fails.
  Status hold() {
    if (Status parsed = manifest_.assemble(); !parsed.ok()) return parsed;
    if (Status durable = make_journal_durable(); !durable.ok()) return durable;
    if (Status settled = settle_found(); !settled.ok()) return settled;
    if (Status synced = segments_.sync(); !synced.ok()) return synced;
    if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
    if (!chunks_.sync()) return {};
    if (Status noted = log_.note_sealed(*progress_.sealed()); !noted.ok()) return noted;
    if (!log_.sync().ok() || !files_.sync_folder(log_folder()).ok()) return {};
    may_be_held_ = true;
    actions_.held();
    return {};
  }

  // Records the next waiting slot of the manifest.
  Status note_manifest() {
    const PartManifest::Slot slot = manifest_.take_waiting();
    Status noted = log_.note_manifest(slot.sequence, slot.bytes);
    if (noted.ok()) {
      manifest_.add(slot.sequence, slot.bytes);
      progress_.add_stored(1, {});
    }
    slot.release(noted.ok());
    return noted;
  }

  Status commit() {
    if (Status parsed = manifest_.assemble(); !parsed.ok()) return parsed;
    if (Status stored = segments_.finish(); !stored.ok()) return stored;
    if (Status settled = settle_found(); !settled.ok()) return settled;
    if (Status durable = make_journal_durable(); !durable.ok()) return durable;
    Manifest manifest = manifest_.manifest();
    if (setting_.is_leftover || setting_.has_durable_journal) {
      if (Status there = find_journal(manifest); !there.ok()) return there;
    }
    complete(manifest);
    const auto enough = [this] { return progress_.gave_up(); };
    if (Status turn = actions_.wait_for_turn(enough); !turn.ok()) return turn;
    if (Status ended = progress_.status(); !ended.ok()) return ended;
    Status done = commit_.finish(std::move(manifest));
    committed_ = done.ok();
    return done;
  }

  // A sealed log was written after the journal was durable.
  Status make_journal_durable() {
    ManifestText::Journal journal;
    const bool needs_one = manifest_.needs(journal) == Needs::kJournal;
    const bool is_durable = setting_.has_durable_journal || journal_durable_;
    if (!needs_one || found_part_.log.sealed || is_durable) return {};
    Status durable = actions_.make_journal_durable(journal, [this] { return progress_.gave_up(); });
    journal_durable_ = durable.ok();
    return durable;
  }

  // The journal was durable; since then the job may have been pruned.
  Status find_journal(const Manifest& manifest) const {
    for (const JournalPart& part : manifest.journal) {
      const auto file = files_.open(place_.job_folder + "/" + part.file);
      const bool is_short = file.ok() && file.value()->size() < part.file_bytes;
      if (is_short || file.status().code() == Code::kNotFound) {
        return {Code::kDamaged, "journal " + part.file + " of " + folder_ + " is no longer there"};
      }
      if (!file.ok()) return file.status();
    }
    return {};
  }

  // Makes the segments of an earlier backend hold what the log says and nothing else, durably.
  Status settle_found() {
    for (const auto& [number, parts] : found_part_.segments) {
      const std::string path = folder_ + "/" + segment_name({place_.rank, place_.run, number});
      if (Status settled = settle_segment(files_, path, parts); !settled.ok()) return settled;
    }
    return {};
  }

  // Adds what only the backend knows: the location of all bytes.
  void complete(Manifest& manifest) const {
    ManifestExtents extents(manifest, log_.moved());
    const std::vector<SegmentStore*> writers = segments_.writers();
    for (const auto& [number, parts] : found_part_.segments) {
      const std::string name = segment_name({place_.rank, place_.run, number});
      extents.add_segment(number, {name, end_of(parts)});
    }
    for (SegmentStore* const writer : writers) {
      for (const SegmentRef& segment : writer->segments()) {
        extents.add_segment(parse_segment_name(segment.file)->number, segment);
      }
    }
    extents.add_blocks(found_part_.log.blocks);
    for (const auto& [number, blocks] : log_.in_chunks()) extents.add_blocks(blocks);
    for (SegmentStore* const writer : writers) extents.add_extents(writer->extents());
  }

  void clean_up(bool is_committed) {
    if (keeps_files_) return;
    if (!is_committed && !commit_.unpublish()) return;
    const bool keeps_copies = is_committed && note_committed();
    log_.close();
    // Removes the log first: the files that it names must exist as long as it does.
    remove_own([](const std::string& name) { return parse_block_log_name(name); });
    if (keeps_copies) {
      chunks_.keep_copies();
    } else if (!chunks_.remove_all().ok() && !is_committed) {
      return;
    }
    // An earlier backend may have left this file. A commit by this backend has renamed it.
    if (!is_committed || committed_before_) {
      (void)files_.remove(folder_ + "/" + temporary_manifest_name(place_.rank, place_.run));
    }
    if (is_committed) {
      for (const std::string& path : found_part_.unnamed) (void)files_.remove(path);
      return;
    }
    remove_own([](const std::string& name) { return parse_segment_name(name); });
    commit_.remove_folder();
  }

  // Records the commit. Returns whether the log can find the files on local tiers, which then stay.
  bool note_committed() {
    if (!chunks_.can_keep_copies() || !log_.is_open() || log_.has_moved_on()) return false;
    chunks_.remove_unmoved();
    // Durable, so that a crash does not bring back a log that would be taken over once more.
    return log_.note_committed().ok() && !log_.has_moved_on();
  }

  // Removes the part's files in the store.
  template <class Parse>
  void remove_own(Parse parse) {
    const auto entries = files_.entries(folder_);
    if (!entries.ok()) return;
    for (const FolderEntry& entry : entries.value()) {
      const std::optional<SegmentName> name = parse(entry.name);
      const bool is_own = name && name->rank == place_.rank && name->run == place_.run;
      if (!entry.is_folder && is_own) (void)files_.remove(folder_ + "/" + entry.name);
    }
  }

  FileSystem& files_;
  const Setting setting_;
  const Actions actions_;
  const CheckpointPlace place_;
  const std::string folder_;

  // Each is thread-safe as its class says. A member uses only members above it.
  PartProgress progress_;
  PartLog log_;
  PartSegments segments_;
  PartChunks chunks_;
  JobThread chunk_thread_;
  PartManifest manifest_;

  // Used by the part's thread alone.
  Commit commit_;
  FoundPart found_part_;
  bool journal_durable_ = false;
  bool committed_ = false;
  bool committed_before_ = false;
  bool keeps_files_ = false;  // they may not belong to this part, or wait for another try
  // The log says that all slots are on local devices, or an earlier log has not been read.
  bool may_be_held_ = false;

  std::atomic<bool> waits_{false};
  Join join_;  // used by the thread that starts it and waits for it
};

}  // namespace

bool is_of_device(const Status& status) {
  return status.code() == Code::kIo || status.code() == Code::kNoSpace ||
         status.code() == Code::kPermission;
}

Result<std::shared_ptr<CheckpointReceiver>> CheckpointReceiver::start(FileSystem& files,
                                                                      Setting setting,
                                                                      Actions actions) {
  using Started = Result<std::shared_ptr<CheckpointReceiver>>;
  return no_throw("take a checkpoint", [&]() -> Started {
    auto part = std::make_shared<Part>(files, std::move(setting), std::move(actions));
    if (Status started = part->start(); !started.ok()) return started;
    return std::shared_ptr<CheckpointReceiver>(std::move(part));
  });
}

}  // namespace gpusnap
