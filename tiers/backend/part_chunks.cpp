// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_chunks.h"

#include <algorithm>
#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/names.h"

namespace gpusnap {

PartChunks::PartChunks(FileSystem& files, Setting setting, Neighbours neighbours)
    : files_(files),
      setting_(std::move(setting)),
      progress_(neighbours.progress),
      log_(neighbours.log),
      segments_(neighbours.segments) {}

void PartChunks::take_up(const FoundPart& found) {
  found_ = found.chunks;
  next_chunk_ = found.next_chunk;
  next_direct_ = std::max(found.next_direct, kFirstDirectChunk);
  const MutexLock lock(mutex_);
  direct_ = found.direct;
}

std::vector<FoundChunk> PartChunks::found() const {
  std::vector<FoundChunk> chunks;
  for (const auto& [number, found] : found_) {
    chunks.push_back({number, found.path, found.memory_bytes});
  }
  return chunks;
}

// The files may hold more than the earlier backend's log says.
Status PartChunks::open_found() {
  for (const auto& [number, found] : found_) {
    begin_in_cache(found.path);
    Chunk& taken_up = add_found(number, found.path);
    auto file = files_.open_bulk(found.path);
    if (!file.ok()) {
      device_failed(found.path, file.status());
      return file.status();
    }
    if (file.value()->size() < found.blocks.back().end()) {
      return {Code::kDamaged, "the end of the chunk " + found.path + " is no longer there"};
    }
    taken_up.found = std::move(file.value());
  }
  return {};
}

void PartChunks::device_failed(const std::string& path, const Status& why) {
  progress_.local_failed();
  if (setting_.cache != nullptr && why.code() == Code::kNoSpace) setting_.cache->make_room(path);
  setting_.local_failed(path, why);
}

void PartChunks::chunk_failed(uint32_t number, const Status& why) {
  if (const Chunk* const failed = find(number)) device_failed(failed->path, why);
}

// If there is no file, the chunk's slots go to segments at once.
Status PartChunks::make(size_t folder,
                        const std::function<void(std::shared_ptr<PlacedFile>)>& opened) {
  if (Status started = segments_.start_for_chunks(); !started.ok()) return started;
  const uint32_t number = next_chunk_++;
  const std::string path = path_of(folder, number);
  begin_in_cache(path);
  // No room is reserved: a chunk that is moved may become a copy without ever being synced.
  auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, 0); });
  if (!file.ok()) device_failed(path, file.status());
  opened(add_placed(number, path, file.ok() ? std::move(file.value()) : nullptr));
  return {};
}

// Writes the header, so that the client's bytes begin at an offset to which devices are aligned.
Status PartChunks::make_direct(size_t folder,
                               const std::function<void(uint32_t, std::string)>& opened) {
  const uint32_t number = next_direct_++;
  const std::string path = path_of(folder, number);
  begin_in_cache(path);
  auto file = in_folder_of(files_, path, [&] { return files_.create_bulk(path, 0); });
  Status made = file.status();
  if (made.ok()) {
    const auto placed = add_placed(number, path, std::move(file.value()));
    made = write_and_wait(placed->file(), 0, placed->header());
  }
  if (!made.ok()) {
    if (!file.ok()) end_in_cache(path);
    device_failed(path, made);
    opened(number, "");
    return {};
  }
  {
    const MutexLock lock(mutex_);
    direct_[number] = path;
  }
  opened(number, path);
  return {};
}

Status PartChunks::take_direct(uint64_t sequence, const DirectChunk& chunk,
                               const std::function<void()>& stored) {
  std::string path;
  {
    const MutexLock lock(mutex_);
    auto file = direct_.extract(chunk.number);
    if (!file.empty()) path = std::move(file.mapped());
  }
  if (path.empty()) {
    return {Code::kInvalid, "a checkpoint came with a chunk that is in no file of its own"};
  }
  if (find(chunk.number) == nullptr) {
    if (Status opened = open_found_direct(chunk.number, path); !opened.ok()) return opened;
  }
  auto extents = check_direct_chunk(at(chunk.number).placed->file(), path, chunk,
                                    setting_.block_bytes, [this] { return progress_.gave_up(); });
  if (!extents.ok()) {
    if (is_of_device(extents.status())) device_failed(path, extents.status());
    return extents.status();
  }
  const SegmentStore::StoredBlock block{sequence, true, chunk.number, std::move(extents.value()),
                                        0};
  if (Status noted = log_.note_stored({&block, 1}); !noted.ok()) return noted;
  stored();
  return {};
}

std::string PartChunks::direct_path(uint32_t number) const {
  const MutexLock lock(mutex_);
  const auto found = direct_.find(number);
  return found == direct_.end() ? "" : found->second;
}

Status PartChunks::begin_move(uint32_t number, const std::function<void()>& moved) {
  if (const auto found = found_.find(number); found != found_.end()) {
    return begin_copy_of(number, found->second.blocks, moved);
  }
  const PartLog::Blocks stored = log_.blocks_in(number);
  if (stored.empty()) {  // the chunk has no blocks
    remove(number);
    moved();
    return {};
  }
  auto blocks = blocks_in_chunk(stored);
  if (!blocks.ok()) return blocks.status();
  return begin_copy_of(number, blocks.value(), moved);
}

Status PartChunks::begin_copy_of(uint32_t number, const std::vector<ChunkBlock>& blocks,
                                 const std::function<void()>& moved) {
  const uint64_t bytes = blocks.back().end() - kSegmentHeaderBytes;
  auto place = segments_.take(bytes);
  if (!place.ok()) return place.status();
  progress_.copy_begun();
  PlacedFile* const segment = place->file.get();
  const MovedChunk entry{number, segment->number(), place->offset, bytes};
  const Chunk& from = at(number);
  ChunkCopy copy;
  copy.from = from.found ? from.found.get() : &from.placed->file();
  copy.path = from.path;
  copy.blocks = blocks;
  copy.to = &segment->file();
  copy.offset = place->offset;
  copy.part_bytes = setting_.block_bytes;
  copy.gave_up = [this] { return progress_.gave_up(); };
  copy.rate = setting_.rate;
  copy.ended = [this, entry, segment, moved](const Status& copied, bool local) {
    // The part's thread goes on: this thread must not wait for the file.
    progress_.copy_ended([this, entry, segment, copied, local, moved] {
      if (copied.ok()) return end_move(entry, *segment, moved);
      if (local) device_failed(at(entry.chunk).path, copied);
      return copied;
    });
  };
  begin_copy(std::move(copy));
  return {};
}

// Makes the segment durable. From then on the chunk is a copy, which may be removed whenever its
// room is needed.
Status PartChunks::end_move(const MovedChunk& entry, PlacedFile& segment,
                            const std::function<void()>& moved) {
  if (Status synced = segment.file().sync(); !synced.ok()) return synced;
  if (Status synced = files_.sync_folder(setting_.folders.epoch); !synced.ok()) return synced;
  if (Status noted = log_.note_moved(entry); !noted.ok()) return noted;
  // If that fails, the chunk stays until the part is committed.
  if (log_.sync().ok()) release(entry);
  progress_.chunk_moved(entry.chunk);
  moved();
  return {};
}

bool PartChunks::sync() {
  for (const uint32_t number : numbers()) {
    const Chunk& chunk = at(number);
    if (const Status synced = sync_chunk(number, chunk); !synced.ok()) {
      device_failed(chunk.path, synced);
      return false;
    }
  }
  for (const std::string& folder : setting_.folders.chunks) {
    const Status synced = files_.sync_folder(folder);
    if (synced.ok() || synced.code() == Code::kNotFound) continue;
    device_failed(folder, synced);
    return false;
  }
  return true;
}

Status PartChunks::sync_chunk(uint32_t number, const Chunk& chunk) {
  if (chunk.placed) return chunk.placed->has_failed() ? Status() : chunk.placed->file().sync();
  return files_.shorten(chunk.path, found_.at(number).blocks.back().end());
}

void PartChunks::close() {
  Chunks closed;
  std::map<uint32_t, std::string> direct;
  {
    const MutexLock lock(mutex_);
    closed = std::exchange(chunks_, {});
    direct = direct_;
  }
  for (const auto& [number, chunk] : closed) {
    end_in_cache(chunk.path);
    unmoved_.push_back(chunk.path);
  }
  for (const auto& [number, path] : direct) unmoved_.push_back(path);
}

void PartChunks::remove_unmoved() {
  for (const std::string& path : unmoved_) (void)files_.remove(path);
}

void PartChunks::keep_copies() {
  setting_.cache->commit(owner(), setting_.folders.chunks);
}

Status PartChunks::remove_all() {
  if (setting_.cache != nullptr) setting_.cache->drop(owner());
  return remove_local_files(files_, setting_.folders.chunks, setting_.place.rank,
                            setting_.place.run);
}

ChunkOwner PartChunks::owner() const {
  const CheckpointPlace& place = setting_.place;
  return {place.job_folder, place.epoch, place.rank, place.run};
}

std::string PartChunks::path_of(size_t folder, uint32_t number) const {
  return setting_.folders.chunks.at(folder) + "/" +
         chunk_name({setting_.place.rank, setting_.place.run, number});
}

void PartChunks::begin_in_cache(const std::string& path) {
  if (setting_.cache != nullptr) setting_.cache->begin(path);
}

void PartChunks::end_in_cache(const std::string& path) {
  if (setting_.cache != nullptr) setting_.cache->end(path);
}

PartChunks::Chunk* PartChunks::find(uint32_t number) {
  const MutexLock lock(mutex_);
  const auto found = chunks_.find(number);
  return found == chunks_.end() ? nullptr : &found->second;
}

PartChunks::Chunk& PartChunks::at(uint32_t number) {
  const MutexLock lock(mutex_);
  return chunks_.at(number);
}

std::vector<uint32_t> PartChunks::numbers() const {
  const MutexLock lock(mutex_);
  std::vector<uint32_t> numbers;
  for (const auto& [number, chunk] : chunks_) numbers.push_back(number);
  return numbers;
}

std::shared_ptr<PlacedFile> PartChunks::add_placed(uint32_t number, const std::string& path,
                                                   std::unique_ptr<BulkFile> file) {
  const CheckpointPlace& place = setting_.place;
  const SegmentHeader header{place.epoch, place.rank, number, checksum(place.job_folder_name),
                             checksum(place.run)};
  auto placed = std::make_shared<PlacedFile>(std::move(file), number, header);
  const MutexLock lock(mutex_);
  chunks_[number] = {path, placed, {}};
  return placed;
}

PartChunks::Chunk& PartChunks::add_found(uint32_t number, const std::string& path) {
  const MutexLock lock(mutex_);
  return chunks_[number] = {path, nullptr, {}};
}

// Opens a file that an earlier backend made for the client to write.
Status PartChunks::open_found_direct(uint32_t number, const std::string& path) {
  begin_in_cache(path);
  auto file = files_.continue_bulk(path);
  if (!file.ok()) {
    end_in_cache(path);
    device_failed(path, file.status());
    return file.status();
  }
  (void)add_placed(number, path, std::move(file.value()));
  return {};
}

void PartChunks::release(const MovedChunk& entry) {
  const Chunk& released = at(entry.chunk);
  const bool failed = released.placed && released.placed->has_failed();
  if (setting_.cache == nullptr || failed) return remove(entry.chunk);
  setting_.cache->keep(owner(), setting_.folders.chunks, released.path,
                       entry.bytes + kSegmentHeaderBytes);
  forget(entry.chunk);
}

// Closes the file without the lock: its destructor may wait for writes.
void PartChunks::forget(uint32_t number) {
  (void)extract(number);
}

PartChunks::Chunks::node_type PartChunks::extract(uint32_t number) {
  const MutexLock lock(mutex_);
  return chunks_.extract(number);
}

void PartChunks::remove(uint32_t number) {
  const std::string path = at(number).path;
  forget(number);
  (void)files_.remove(path);
  end_in_cache(path);
}

}  // namespace gpusnap
