#include "tiers/backend/incoming_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "tiers/backend/chunk_copy.h"
#include "tiers/backend/folders.h"
#include "tiers/backend/found_part.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
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

class Part final : public IncomingCheckpoint {
 public:
  Part(FileSystem& files, Setting setting, Actions actions)
      : files_(files),
        setting_(std::move(setting)),
        actions_(std::move(actions)),
        place_(place_of(setting_.text)),
        folder_(place_.epoch_folder_path()),
        commit_(files, place_) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() override {
    leave();
    wait();
    segments_.reset();
    chunk_writer_.reset();
    for (ManifestSlot& slot : manifest_slots_) slot.release(false);
  }

  Status start() {
    Result<Join> thread = start_thread(setting_.spawn, "checkpoint", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  const CheckpointText& text() const override { return setting_.text; }

  bool expect(uint64_t sequence) override {
    std::unique_lock lock(mutex_);
    if (found_.count(sequence) > 0) return false;
    if (expected_.insert(sequence).second) return true;
    lock.unlock();
    fail({Code::kInvalid, "a checkpoint came with one slot twice"});
    return false;
  }

  void add(std::vector<Slot> slots, const std::shared_ptr<PlacedFile>& chunk) override {
    std::vector<SegmentStore::Block> blocks;
    blocks.reserve(slots.size());
    for (Slot& slot : slots) {
      blocks.push_back(
          {slot.sequence, merged(slot.pieces), slot.bytes, {}, std::move(slot.release), chunk});
    }
    writer_for(chunk).add(std::move(blocks));
  }

  void open_chunk(size_t folder, std::function<void(std::shared_ptr<PlacedFile>)> opened) override {
    add_chunk_job(
        [this, folder, opened = std::move(opened)] { return make_chunk(folder, opened); });
  }

  void open_direct(size_t folder,
                   std::function<void(uint32_t number, std::string path)> opened) override {
    add_chunk_job(
        [this, folder, opened = std::move(opened)] { return make_direct(folder, opened); });
  }

  std::string direct_path(uint32_t number) const override {
    const std::lock_guard lock(mutex_);
    const auto found = direct_.find(number);
    return found == direct_.end() ? "" : found->second;
  }

  void add_direct(uint64_t sequence, DirectChunk chunk, std::function<void()> stored) override {
    add_chunk_job([this, sequence, chunk = std::move(chunk), stored = std::move(stored)] {
      return take_direct(sequence, chunk, stored);
    });
  }

  void move_chunk(uint32_t number, std::function<void()> moved) override {
    add_job([this, number, moved = std::move(moved)] { return begin_move(number, moved); });
  }

  void add_manifest(uint64_t sequence, std::span<const std::byte> bytes, Release release) override {
    const std::lock_guard lock(mutex_);
    manifest_slots_.push_back({sequence, bytes, std::move(release)});
    changed_.notify_all();
  }

  void seal(uint64_t slots) override {
    const std::lock_guard lock(mutex_);
    sealed_ = slots;
    changed_.notify_all();
  }

  void fail(const Status& why) override { stop(why, false); }
  void leave() override { stop({Code::kBusy, "the backend ends"}, true); }

  void wait() override {
    if (join_) std::exchange(join_, {})();
    if (chunk_thread_) std::exchange(chunk_thread_, {})();
  }

  bool waits_for_another_try() const override { return waits_; }

  Needs needs(ManifestText::Journal& journal) const override {
    const std::lock_guard lock(mutex_);
    journal = journal_;
    return needs_;
  }

 private:
  struct Chunk {
    std::string path;
    std::shared_ptr<PlacedFile> placed;  // its own
    std::unique_ptr<BulkFile> found;     // an earlier backend's
  };
  struct ManifestSlot {
    uint64_t sequence = 0;
    std::span<const std::byte> bytes;
    Release release;
  };

  void stop(const Status& why, bool leaving) {
    std::unique_lock lock(mutex_);
    left_ = left_ || leaving;
    if (status_.ok()) status_ = why;
    changed_.notify_all();
    lock.unlock();
    for (SegmentStore* const writer : writers()) writer->abandon();
  }

  bool gave_up() const {
    const std::lock_guard lock(mutex_);
    return !status_.ok();
  }

  void body() {
    Status status = no_throw("take up a checkpoint", [&] { return prepare(); });
    if (status.ok() && !committed_before_) {
      actions_.ready(found_chunks());
      status = no_throw("store a checkpoint", [&] { return take_all(); });
      if (status.ok()) status = no_throw("commit a checkpoint", [&] { return commit(); });
    }
    // What is in a worker's hands comes back, whatever has happened.
    if (!status.ok()) stop(status, false);
    end_chunk_jobs();
    wait_for_copies();
    (void)finish_segments();
    for (const auto& [number, chunk] : chunks_) {
      end_in_cache(chunk.path);
      not_copies_.push_back(chunk.path);
    }
    chunks_.clear();
    for (const auto& [number, path] : direct_) not_copies_.push_back(path);
    {
      const std::lock_guard lock(mutex_);
      if (left_ && !committed_) return;
    }
    // What is whole on a local tier waits for another time.
    if ((setting_.is_leftover || may_be_held_) && is_of_device(status)) {
      waits_ = keeps_files_ = true;
    }
    (void)no_throw("remove a checkpoint's files", [&] {
      clean_up(status.ok());
      return Status();
    });
    // What a crash has brought back of one that was committed long ago says nothing of what is to
    // be kept by now.
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

  // Then its chunks go to local tiers although the store may not answer for a long time.
  bool starts_without_store() const { return setting_.is_new && has_local(); }

  // Makes its folder there. Finds whether it has been committed before.
  Status enter_store() {
    if (Status made = commit_.start(); !made.ok()) return made;
    const auto there =
        read_manifest(files_, place_.job_folder, place_.job_folder_name, place_.epoch, place_.rank);
    if (there.ok() && there->manifest.run == place_.run) {
      // It died before it could say so, or before this was durable.
      committed_before_ = committed_ = true;
      Status durable = files_.sync_folder(folder_);
      // They are a checkpoint's, whether that outlives a crash or not.
      keeps_files_ = !durable.ok();
      return durable;
    }
    if (there.status().code() != Code::kNotFound) {
      keeps_files_ = !there.ok();  // it may be its own
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
    auto found =
        find_part(files_, place_, {folder_, setting_.chunk_folders},
                  [this](const std::string& path, const Status& why) { local_failed(path, why); });
    if (!found.ok()) return found.status();
    found_part_ = std::move(found.value());
    const BlockLog& log = found_part_.log;
    if (!log.text.empty() && log.text != encode(setting_.text)) {
      return {Code::kDamaged, "the block log in " + folder_ + " is that of another checkpoint"};
    }
    if (setting_.is_leftover && !log.sealed) {
      return {Code::kDamaged, "the end of the block log in " + folder_ + " is no longer there"};
    }
    may_be_held_ = log.sealed.has_value();
    next_chunk_ = found_part_.next_chunk;
    next_direct_ = std::max(found_part_.next_direct, kFirstDirectChunk);
    moved_ = found_part_.moved;
    const std::lock_guard lock(mutex_);
    direct_ = found_part_.direct;
    for (const auto& [number, chunk] : found_part_.chunks) unmoved_.insert(number);
    for (const auto& block : log.blocks) found_.insert(block.sequence);
    for (const BlockLog::ManifestSlot& slot : log.manifest) {
      found_.insert(slot.sequence);
      manifest_[slot.sequence] = slot.bytes;
    }
    stored_ = found_.size();
    if (setting_.is_leftover) sealed_ = log.sealed;
    return {};
  }

  // The device that holds that path fails: from here on it does without.
  void local_failed(const std::string& path, const Status& why) {
    {
      const std::lock_guard lock(mutex_);
      local_failed_ = true;
    }
    if (setting_.cache != nullptr && why.code() == Code::kNoSpace) setting_.cache->make_room(path);
    actions_.local_failed(path, why);
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
        add_job([this, path, why] {
          local_failed(path, why);
          return Status();
        });
      };
    }
    log_ = std::make_unique<BlockLogWriter>(files_, std::move(place), encode(setting_.text));
    auto segments = start_writer(found_part_.next_segment, setting_.store.workers);
    if (!segments.ok()) return segments.status();
    const std::lock_guard lock(mutex_);
    segments_ = std::move(segments.value());
    return status_;  // where it was to end before there were any
  }

  Result<std::unique_ptr<SegmentStore>> start_writer(uint32_t first_segment, uint32_t workers) {
    SegmentStore::Options options = setting_.store;
    options.workers = workers;
    options.segment_bytes = setting_.text.segment_bytes;
    options.first_segment = first_segment;
    options.on_failure = [this](const Status& why) { note_failure(why); };
    options.log = [this](std::span<const SegmentStore::StoredBlock> blocks) {
      return note_stored(blocks);
    };
    options.on_chunk_failure = [this](const PlacedFile& chunk, const Status& why) {
      add_job([this, number = chunk.number(), why] {
        if (const Chunk* const failed = find_chunk(number)) local_failed(failed->path, why);
        return Status();
      });
    };
    return SegmentStore::start(files_, folder_,
                               {place_.job_folder_name, place_.run, place_.epoch, place_.rank},
                               options, *setting_.compression, setting_.spawn);
  }

  // Chunks have workers and writes of their own, so that they never wait for the store. A
  // chunk that fails in the middle sends its blocks to segments with numbers of their own.
  Status start_chunk_writer() {
    if (chunk_writer_) return {};
    constexpr uint32_t kApart = 1U << 20;
    // A process that saves has a fixed number of threads for all of this.
    const uint32_t workers = setting_.spawn ? 1 : setting_.store.workers;
    auto writer = start_writer(found_part_.next_segment + kApart, workers);
    if (!writer.ok()) return writer.status();
    const std::lock_guard lock(mutex_);
    chunk_writer_ = std::move(writer.value());
    return status_;
  }

  SegmentStore& writer_for(const std::shared_ptr<PlacedFile>& chunk) {
    const std::lock_guard lock(mutex_);
    return chunk && chunk_writer_ ? *chunk_writer_ : *segments_;
  }

  void note_failure(const Status& why) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = why;
    changed_.notify_all();
  }

  Status note_stored(std::span<const SegmentStore::StoredBlock> blocks) {
    std::vector<std::byte> records;
    for (const SegmentStore::StoredBlock& block : blocks) {
      const std::vector<std::byte> record = encode_log_block(block);
      records.insert(records.end(), record.begin(), record.end());
    }
    if (Status noted = log_->append(records); !noted.ok()) return noted;
    const std::lock_guard lock(mutex_);
    stored_ += blocks.size();
    for (const SegmentStore::StoredBlock& block : blocks) {
      if (!block.in_chunk) continue;
      unmoved_.insert(block.file);
      in_chunks_[block.file].push_back(block);
    }
    changed_.notify_all();
    return {};
  }

  // Until every slot is in a segment.
  Status take_all() {
    if (starts_without_store()) {
      if (Status entered = enter_store_late(); !entered.ok()) return entered;
    }
    if (Status opened = open_found_chunks(); !opened.ok()) return opened;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return !status_.ok() || !manifest_slots_.empty() || !jobs_.empty() || is_lost() ||
               wants_to_be_held() || is_whole();
      });
      if (!status_.ok()) return status_;
      if (is_whole()) return {};
      if (manifest_slots_.empty() && jobs_.empty() && is_lost()) {
        return {Code::kDamaged, "slots of a checkpoint were lost when a backend died"};
      }
      if (Status done = work(lock); !done.ok()) return done;
    }
  }
  bool is_lost() const { return sealed_ && found_.size() + expected_.size() != *sealed_; }
  // In files, on whatever tier.
  bool is_stored() const { return sealed_ && !is_lost() && stored_ == *sealed_; }
  bool is_whole() const { return is_stored() && unmoved_.empty() && copies_ == 0 && jobs_.empty(); }
  // All of it, and it has not been noted yet that a machine that stops does not matter any more.
  bool wants_to_be_held() const {
    return is_stored() && !unmoved_.empty() && !noted_held_ && !local_failed_;
  }

  // Something of what there is to do. Lets the lock go meanwhile.
  Status work(std::unique_lock<std::mutex>& lock) {
    Status done;
    if (!manifest_slots_.empty()) {
      const ManifestSlot slot = std::move(manifest_slots_.front());
      manifest_slots_.pop_front();
      lock.unlock();
      done = note_manifest(slot);
    } else if (wants_to_be_held()) {
      noted_held_ = true;
      lock.unlock();
      done = hold();
    } else if (!jobs_.empty()) {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      done = job();
    }
    lock.lock();
    return done;
  }

  using Job = std::function<Status()>;
  void add_job(Job job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  // For the thread that makes chunks.
  void add_chunk_job(Job job) {
    const bool has_thread = has_chunk_thread();
    const std::lock_guard lock(mutex_);
    (has_thread ? chunk_jobs_ : jobs_).push_back(std::move(job));
    changed_.notify_all();
  }

  // Whether a thread of its own makes chunks. Where there can be none the part's thread does it.
  bool has_chunk_thread() {
    if (chunk_thread_) return true;
    Result<Join> thread = start_thread(setting_.spawn, "chunks", [this] { work_on_chunks(); });
    if (!thread.ok()) return false;
    chunk_thread_ = std::move(thread.value());
    return true;
  }

  void work_on_chunks() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return chunk_jobs_ended_ || !chunk_jobs_.empty(); });
      if (chunk_jobs_ended_) return;
      const Job job = std::move(chunk_jobs_.front());
      chunk_jobs_.pop_front();
      if (!status_.ok()) continue;
      is_making_chunk_ = true;
      lock.unlock();
      const Status done = no_throw("make a chunk", job);
      if (!done.ok()) stop(done, false);
      lock.lock();
      is_making_chunk_ = false;
      changed_.notify_all();
    }
  }

  void end_chunk_jobs() {
    std::unique_lock lock(mutex_);
    chunk_jobs_ended_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_making_chunk_; });
  }

  // Null where it has gone. Only the part's thread removes chunks.
  Chunk* find_chunk(uint32_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(number);
    return found == chunks_.end() ? nullptr : &found->second;
  }
  Chunk& chunk_of(uint32_t number) {
    const std::lock_guard lock(mutex_);
    return chunks_.at(number);
  }

  // Where there is no file, its slots go to segments at once.
  Status make_chunk(size_t folder, const std::function<void(std::shared_ptr<PlacedFile>)>& opened) {
    if (Status started = start_chunk_writer(); !started.ok()) return started;
    const uint32_t number = next_chunk_++;
    const std::string path = chunk_path(folder, number);
    if (setting_.cache != nullptr) setting_.cache->begin(path);
    // No room is reserved: a chunk that is moved may become a copy without ever being synced.
    auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, 0); });
    if (!file.ok()) local_failed(path, file.status());
    opened(add_placed_chunk(number, path, file.ok() ? std::move(file.value()) : nullptr));
    return {};
  }

  std::string chunk_path(size_t folder, uint32_t number) const {
    return setting_.chunk_folders.at(folder) + "/" + chunk_name({place_.rank, place_.run, number});
  }

  std::shared_ptr<PlacedFile> add_placed_chunk(uint32_t number, const std::string& path,
                                               std::unique_ptr<BulkFile> file) {
    const SegmentHeader header{place_.epoch, place_.rank, number, checksum(place_.job_folder_name),
                               checksum(place_.run)};
    auto placed = std::make_shared<PlacedFile>(std::move(file), number, header);
    const std::lock_guard lock(mutex_);
    chunks_[number] = {path, placed, {}};
    return placed;
  }

  // With its header, so that the client's bytes begin at a multiple of what devices ask for.
  Status make_direct(size_t folder, const std::function<void(uint32_t, std::string)>& opened) {
    const uint32_t number = next_direct_++;
    const std::string path = chunk_path(folder, number);
    if (setting_.cache != nullptr) setting_.cache->begin(path);
    auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, 0); });
    Status made = file.status();
    if (made.ok()) {
      const auto placed = add_placed_chunk(number, path, std::move(file.value()));
      made = write_and_wait(placed->file(), 0, placed->header());
    }
    if (!made.ok()) {
      if (!file.ok()) end_in_cache(path);
      local_failed(path, made);
      opened(number, "");
      return {};
    }
    {
      const std::lock_guard lock(mutex_);
      direct_[number] = path;
    }
    opened(number, path);
    return {};
  }

  Status take_direct(uint64_t sequence, const DirectChunk& chunk,
                     const std::function<void()>& stored) {
    std::string path;
    {
      const std::lock_guard lock(mutex_);
      auto file = direct_.extract(chunk.number);
      if (!file.empty()) path = std::move(file.mapped());
    }
    if (path.empty()) {
      return {Code::kInvalid, "a checkpoint came with a chunk that is in no file of its own"};
    }
    if (find_chunk(chunk.number) == nullptr) {
      if (Status opened = open_found_direct(chunk.number, path); !opened.ok()) return opened;
    }
    auto extents = check_direct_chunk(chunk_of(chunk.number).placed->file(), path, chunk,
                                      setting_.store.block_bytes, [this] { return gave_up(); });
    if (!extents.ok()) {
      if (is_of_device(extents.status())) local_failed(path, extents.status());
      return extents.status();
    }
    const SegmentStore::StoredBlock block{sequence, true, chunk.number, std::move(extents.value()),
                                          0};
    if (Status noted = note_stored({&block, 1}); !noted.ok()) return noted;
    stored();
    return {};
  }

  // Made by an earlier backend.
  Status open_found_direct(uint32_t number, const std::string& path) {
    if (setting_.cache != nullptr) setting_.cache->begin(path);
    auto file = files_.continue_bulk(path);
    if (!file.ok()) {
      end_in_cache(path);
      local_failed(path, file.status());
      return file.status();
    }
    (void)add_placed_chunk(number, path, std::move(file.value()));
    return {};
  }

  std::vector<FoundChunk> found_chunks() const {
    std::vector<FoundChunk> chunks;
    for (const auto& [number, found] : found_part_.chunks) {
      chunks.push_back({number, found.path, found.memory_bytes});
    }
    return chunks;
  }

  // Of an earlier backend, which may have left more in them than its log says.
  Status open_found_chunks() {
    for (const auto& [number, found] : found_part_.chunks) {
      if (setting_.cache != nullptr) setting_.cache->begin(found.path);
      Chunk& taken_up = add_found_chunk(number, found.path);
      auto file = files_.open_bulk(found.path);
      if (!file.ok()) {
        local_failed(found.path, file.status());
        return file.status();
      }
      if (file.value()->size() < found.blocks.back().end()) {
        return {Code::kDamaged, "the end of the chunk " + found.path + " is no longer there"};
      }
      taken_up.found = std::move(file.value());
    }
    return {};
  }

  Chunk& add_found_chunk(uint32_t number, const std::string& path) {
    const std::lock_guard lock(mutex_);
    return chunks_[number] = {path, nullptr, {}};
  }

  Status begin_move(uint32_t number, const std::function<void()>& moved) {
    if (const auto found = found_part_.chunks.find(number); found != found_part_.chunks.end()) {
      return begin_copy_of(number, found->second.blocks, moved);
    }
    std::vector<SegmentStore::StoredBlock> stored;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = in_chunks_.find(number); found != in_chunks_.end()) {
        stored = found->second;
      }
    }
    if (stored.empty()) {  // it took nothing
      remove_chunk(number);
      moved();
      return {};
    }
    auto blocks = blocks_in_chunk(stored);
    if (!blocks.ok()) return blocks.status();
    return begin_copy_of(number, blocks.value(), moved);
  }

  Status begin_copy_of(uint32_t number, const std::vector<ChunkBlock>& blocks,
                       const std::function<void()>& moved) {
    const uint64_t bytes = blocks.back().end() - kSegmentHeaderBytes;
    auto place = segments_->take(bytes);
    if (!place.ok()) return place.status();
    {
      const std::lock_guard lock(mutex_);
      ++copies_;
    }
    PlacedFile* const segment = place->file.get();
    const MovedChunk entry{number, segment->number(), place->offset, bytes};
    const Chunk& moved_chunk = chunk_of(number);
    ChunkCopy copy;
    copy.from = moved_chunk.found ? moved_chunk.found.get() : &moved_chunk.placed->file();
    copy.path = moved_chunk.path;
    copy.blocks = blocks;
    copy.to = &segment->file();
    copy.offset = place->offset;
    copy.part_bytes = setting_.store.block_bytes;
    copy.gave_up = [this] { return gave_up(); };
    copy.rate = &setting_.compression->rate;
    copy.ended = [this, entry, segment, moved](const Status& copied, bool local) {
      // The part's thread goes on with it: this one may not wait for the file.
      const std::lock_guard lock(mutex_);
      jobs_.push_back([this, entry, segment, copied, local, moved] {
        if (copied.ok()) return end_move(entry, *segment, moved);
        if (local) local_failed(chunk_of(entry.chunk).path, copied);
        return copied;
      });
      --copies_;
      changed_.notify_all();
    };
    begin_copy(std::move(copy));
    return {};
  }

  // The chunk is a copy from here on, which may go whenever its room is needed: nothing can be lost
  // any more.
  Status end_move(const MovedChunk& entry, PlacedFile& segment,
                  const std::function<void()>& moved) {
    if (Status synced = segment.file().sync(); !synced.ok()) return synced;
    if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
    if (Status noted = log_->append(encode_log_moved(entry)); !noted.ok()) return noted;
    moved_[entry.chunk] = entry;
    // Where that fails, the chunk stays until all is committed.
    if (log_->sync().ok()) release_chunk(entry);
    {
      const std::lock_guard lock(mutex_);
      unmoved_.erase(entry.chunk);
      changed_.notify_all();
    }
    moved();
    return {};
  }

  void release_chunk(const MovedChunk& entry) {
    const Chunk& released = chunk_of(entry.chunk);
    const bool failed = released.placed && released.placed->has_failed();
    if (setting_.cache == nullptr || failed) return remove_chunk(entry.chunk);
    setting_.cache->keep(owner(), setting_.chunk_folders, released.path,
                         entry.bytes + kSegmentHeaderBytes);
    close_chunk(entry.chunk);
  }

  // Without a lock: its destructor may wait for what is on its way.
  void close_chunk(uint32_t number) {
    std::unique_lock lock(mutex_);
    const auto closed = chunks_.extract(number);
    lock.unlock();
  }

  void remove_chunk(uint32_t number) {
    const std::string path = chunk_of(number).path;
    close_chunk(number);
    (void)files_.remove(path);
    end_in_cache(path);
  }

  void end_in_cache(const std::string& path) {
    if (setting_.cache != nullptr) setting_.cache->end(path);
  }

  ChunkOwner owner() const { return {place_.job_folder, place_.epoch, place_.rank, place_.run}; }

  void wait_for_copies() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copies_ == 0; });
  }

  // All of it is in files: after this it outlives the machine's memory, if the local devices take
  // it.
  Status hold() {
    if (Status parsed = parse_manifest(); !parsed.ok()) return parsed;
    if (Status durable = make_journal_durable(); !durable.ok()) return durable;
    if (Status settled = settle_found(); !settled.ok()) return settled;
    if (Status synced = sync_segments(); !synced.ok()) return synced;
    if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
    for (const uint32_t number : chunk_numbers()) {
      const Chunk& held = chunk_of(number);
      if (Status synced = sync_chunk(number, held); !synced.ok()) {
        local_failed(held.path, synced);
        return {};
      }
    }
    for (const std::string& folder : setting_.chunk_folders) {
      const Status synced = files_.sync_folder(folder);
      if (synced.ok() || synced.code() == Code::kNotFound) continue;
      local_failed(folder, synced);
      return {};
    }
    uint64_t slots = 0;
    {
      const std::lock_guard lock(mutex_);
      slots = *sealed_;
    }
    if (Status noted = log_->append(encode_log_sealed(slots)); !noted.ok()) return noted;
    if (!log_->sync().ok() || !files_.sync_folder(log_folder()).ok()) return {};
    may_be_held_ = true;
    actions_.held();
    return {};
  }

  // By then all of them are there.
  std::vector<uint32_t> chunk_numbers() const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> numbers;
    for (const auto& [number, chunk] : chunks_) numbers.push_back(number);
    return numbers;
  }

  // The writers that have been started.
  std::vector<SegmentStore*> writers() const {
    const std::lock_guard lock(mutex_);
    std::vector<SegmentStore*> all;
    if (segments_) all.push_back(segments_.get());
    if (chunk_writer_) all.push_back(chunk_writer_.get());
    return all;
  }

  Status sync_segments() {
    for (SegmentStore* const writer : writers()) {
      if (Status synced = writer->sync(); !synced.ok()) return synced;
    }
    return {};
  }

  Status finish_segments() {
    Status all;
    for (SegmentStore* const writer : writers()) {
      if (Status stored = writer->finish(); all.ok()) all = std::move(stored);
    }
    return all;
  }

  Status sync_chunk(uint32_t number, const Chunk& chunk) {
    if (chunk.placed) return chunk.placed->has_failed() ? Status() : chunk.placed->file().sync();
    return files_.shorten(chunk.path, found_part_.chunks.at(number).blocks.back().end());
  }

  Status note_manifest(const ManifestSlot& slot) {
    Status noted = log_->append(encode_log_manifest(slot.sequence, slot.bytes));
    if (noted.ok()) {
      const std::lock_guard lock(mutex_);
      manifest_[slot.sequence].assign(slot.bytes.begin(), slot.bytes.end());
      ++stored_;
    }
    slot.release(noted.ok());
    return noted;
  }

  Status commit() {
    if (Status parsed = parse_manifest(); !parsed.ok()) return parsed;
    if (Status stored = finish_segments(); !stored.ok()) return stored;
    if (Status settled = settle_found(); !settled.ok()) return settled;
    if (Status durable = make_journal_durable(); !durable.ok()) return durable;
    Manifest manifest = *manifest_read_;
    if (setting_.is_leftover) {
      if (Status there = find_journal(manifest); !there.ok()) return there;
    }
    add_extents(manifest);
    const auto enough = [this] { return gave_up(); };
    if (Status turn = actions_.wait_for_turn(enough); !turn.ok()) return turn;
    if (gave_up()) return status_;
    Status done = commit_.finish(std::move(manifest));
    const std::lock_guard lock(mutex_);
    committed_ = done.ok();
    return done;
  }

  // A log that says that all was there was written when the journal was durable.
  Status make_journal_durable() {
    if (needs_ != Needs::kJournal || found_part_.log.sealed || journal_durable_) return {};
    Status durable = actions_.make_journal_durable(journal_, [this] { return gave_up(); });
    journal_durable_ = durable.ok();
    return durable;
  }

  // It was durable once; since then somebody may have pruned the job.
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

  // The segments of an earlier backend: what the log says and nothing else, and durable.
  Status settle_found() {
    for (const auto& [number, parts] : found_part_.segments) {
      const std::string path = folder_ + "/" + segment_name({place_.rank, place_.run, number});
      if (Status settled = settle_segment(files_, path, parts); !settled.ok()) return settled;
    }
    return {};
  }

  Status parse_manifest() {
    if (manifest_read_) return {};
    std::vector<std::byte> bytes;
    for (const auto& [sequence, part] : manifest_) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    size_t text_bytes = 0;
    const Result<ManifestText> text = parse_manifest_text(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, text_bytes);
    if (!text.ok()) return text.status();
    if (bytes.size() - text_bytes != text->bytes) {
      return {Code::kInvalid, "a checkpoint's manifest came with other bytes than it has"};
    }
    Result<Manifest> manifest =
        decode_manifest_without_extents(std::span(bytes).subspan(text_bytes));
    if (!manifest.ok()) return manifest.status();
    manifest_read_ = std::move(manifest.value());
    const std::lock_guard lock(mutex_);
    needs_ = text->journal ? Needs::kJournal : Needs::kNone;
    journal_ = text->journal.value_or(ManifestText::Journal());
    return {};
  }

  void add_extents(Manifest& manifest) const {
    std::map<uint32_t, uint32_t> index;  // by the segment's number
    for (const auto& [number, parts] : found_part_.segments) {
      index[number] = static_cast<uint32_t>(manifest.segments.size());
      manifest.segments.push_back({segment_name({place_.rank, place_.run, number}), end_of(parts)});
    }
    for (SegmentStore* const writer : writers()) {
      for (const SegmentRef& ref : writer->segments()) {
        index[parse_segment_name(ref.file)->number] =
            static_cast<uint32_t>(manifest.segments.size());
        manifest.segments.push_back(ref);
      }
    }
    const auto add = [&](Extent extent) {
      extent.segment = index.at(extent.segment);
      manifest.extents.push_back(std::move(extent));
    };
    const auto add_block = [&](const SegmentStore::StoredBlock& block) {
      for (Extent extent : block.extents) {
        if (block.in_chunk) {
          const MovedChunk& moved = moved_.at(block.file);
          extent.segment = moved.segment;
          extent.segment_offset += moved.base - kSegmentHeaderBytes;
        }
        add(std::move(extent));
      }
    };
    std::ranges::for_each(found_part_.log.blocks, add_block);
    for (const auto& [number, blocks] : in_chunks_) std::ranges::for_each(blocks, add_block);
    for (SegmentStore* const writer : writers()) {
      manifest.extents.reserve(manifest.extents.size() + writer->extents().size());
      for (Extent& extent : writer->extents()) add(std::move(extent));
    }
  }

  void clean_up(bool is_committed) {
    if (keeps_files_) return;
    if (!is_committed && !commit_.unpublish()) return;
    const bool keeps_copies = is_committed && note_committed();
    log_.reset();
    // The log goes first: what it names is there as long as it is.
    remove_own([](const std::string& name) { return parse_block_log_name(name); });
    if (keeps_copies) {
      setting_.cache->commit(owner(), setting_.chunk_folders);
    } else {
      if (setting_.cache != nullptr) setting_.cache->drop(owner());
      const auto gone = remove_local_files(files_, setting_.chunk_folders, place_.rank, place_.run);
      if (!is_committed && !gone.ok()) return;
    }
    // An earlier backend's, where it is not taken up because its run or another one has committed.
    if (!is_committed || committed_before_) {
      (void)files_.remove(folder_ + "/" + temporary_manifest_name(place_.rank, place_.run));
    }
    if (is_committed) return;
    remove_own([](const std::string& name) { return parse_segment_name(name); });
    commit_.remove_folder();
  }

  // Whether what is on local tiers can be found by its log.
  bool note_committed() {
    if (setting_.cache == nullptr || !has_local() || !log_ || log_->has_moved_on()) return false;
    for (const std::string& path : not_copies_) (void)files_.remove(path);
    // Durable, so that a crash brings back nothing that would be taken up once more.
    return log_->append(encode_log_committed()).ok() && log_->sync().ok() && !log_->has_moved_on();
  }

  // In the store.
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

  // Used by the thread that makes chunks: chunk_thread_, or the part's.
  uint32_t next_chunk_ = 0;
  uint32_t next_direct_ = kFirstDirectChunk;
  Join chunk_thread_;

  // The thread's own.
  Commit commit_;
  FoundPart found_part_;
  std::map<uint32_t, MovedChunk> moved_;  // all
  std::vector<std::string> not_copies_;   // chunks, at its end: where they are
  std::optional<Manifest> manifest_read_;
  bool journal_durable_ = false;
  bool committed_before_ = false;
  bool keeps_files_ = false;  // they are not known to be its own, or wait for another try
  // All of it is on local devices, as the log says, or an earlier backend's log has not been read.
  bool may_be_held_ = false;
  std::atomic<bool> waits_{false};

  std::unique_ptr<BlockLogWriter> log_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<SegmentStore> segments_;      // from ready() on
  std::unique_ptr<SegmentStore> chunk_writer_;  // from the first chunk on
  std::map<uint32_t, Chunk> chunks_;            // that it still needs
  std::map<uint32_t, std::string> direct_;      // files that the client may write, by number
  std::deque<Job> chunk_jobs_;                  // that make chunks
  bool is_making_chunk_ = false;
  bool chunk_jobs_ended_ = false;
  std::unordered_set<uint64_t> found_;  // slots that an earlier backend stored
  std::unordered_set<uint64_t> expected_;
  uint64_t stored_ = 0;         // slots, of both
  std::set<uint32_t> unmoved_;  // chunks with blocks in them
  std::map<uint32_t, std::vector<SegmentStore::StoredBlock>> in_chunks_;  // its own
  size_t copies_ = 0;                                                     // on their way
  bool noted_held_ = false;                                               // or it is about to be
  bool local_failed_ = false;
  std::deque<Job> jobs_;  // for the thread
  std::deque<ManifestSlot> manifest_slots_;
  std::map<uint64_t, std::vector<std::byte>> manifest_;
  std::optional<uint64_t> sealed_;
  Needs needs_ = Needs::kUnknown;
  ManifestText::Journal journal_;
  bool left_ = false;
  bool committed_ = false;
  Status status_;  // why it ends early
  Join join_;
};

}  // namespace

bool is_of_device(const Status& status) {
  return status.code() == Code::kIo || status.code() == Code::kNoSpace ||
         status.code() == Code::kPermission;
}

Result<std::shared_ptr<IncomingCheckpoint>> IncomingCheckpoint::start(FileSystem& files,
                                                                      Setting setting,
                                                                      Actions actions) {
  using Started = Result<std::shared_ptr<IncomingCheckpoint>>;
  return no_throw("take a checkpoint", [&]() -> Started {
    auto part = std::make_shared<Part>(files, std::move(setting), std::move(actions));
    if (Status started = part->start(); !started.ok()) return started;
    return std::shared_ptr<IncomingCheckpoint>(std::move(part));
  });
}

}  // namespace gpusnap
