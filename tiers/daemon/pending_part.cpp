// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/pending_part.h"
#include "tiers/block_extents.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "tiers/backend/block_log.h"
#include "tiers/backend/kept_slot.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/commit.h"
#include "tiers/format.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/segment_store.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

// A failed part releases its slots a moment before its stream ends.
constexpr int kMostLooks = 50;
constexpr auto kBetweenLooks = std::chrono::milliseconds(2);

Status not_yet(const CheckpointText& text, const std::string& why) {
  return {Code::kBusy, text.job + "@" + std::to_string(text.epoch) +
                           " cannot be restored before it is in its store: " + why};
}

// A slot of the part that was filled when it was read.
struct SeenSlot {
  uint32_t index = 0;
  Owned<SlotState> word;
  bool is_needed = false;        // whether any of its bytes are needed
  std::vector<Extent> extents;   // of data
  std::vector<std::byte> bytes;  // of the manifest
};

// The part's slots in memory. The server may release a slot at any moment, and then other programs
// write to it. Bytes read are valid if the slot's word is the same before and after.
class Slots {
 public:
  Slots(StagingMemory& memory, const InFlight::Part& part) : memory_(memory), part_(part) {}

  // Returns false if a slot is not valid.
  bool take(const IsNeeded& is_needed) {
    const uint32_t backed = memory_.backed();
    for (uint32_t index = 0; index < backed; ++index) {
      if (!take(index, is_needed)) return false;
    }
    return true;
  }
  const std::map<uint64_t, SeenSlot>& seen() const { return seen_; }  // by sequence
  // Returns the offset of a slot's bytes in the area's file.
  uint64_t offset_of(uint32_t index) const {
    const PoolLayout layout{static_cast<uint32_t>(memory_.slots().size()), slot_bytes()};
    return layout.bytes_at() + index * layout.slot_bytes;
  }
  uint64_t area_bytes() const { return offset_of(static_cast<uint32_t>(memory_.slots().size())); }

 private:
  uint64_t slot_bytes() const { return memory_.bytes(0).size(); }

  bool take(uint32_t index, const IsNeeded& is_needed) {
    const SlotEntry& entry = memory_.slots()[index];
    SeenSlot slot;
    slot.index = index;
    slot.word = entry.word.load();
    if (slot.word.state != SlotState::kFilled || entry.stream != part_.stream.stream ||
        entry.stream_life != part_.stream.life) {
      return true;
    }
    const uint64_t sequence = entry.sequence;
    const uint64_t used = entry.used;
    const uint32_t count = entry.pieces;
    // A directly written chunk is checked before its part is sealed.
    const bool fits =
        entry.direct == 0 && used <= slot_bytes() && count <= memory_.pieces(index).size();
    const bool makes_sense = fits && read(used, count, is_needed, slot) && is_as_kept(slot);
    // All reads above come before the word is read again.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.word.load() != slot.word) return true;
    return makes_sense && seen_.try_emplace(sequence, std::move(slot)).second;
  }

  // A part that stays in memory has checksums since it was found whole. Only needed bytes are
  // checked.
  bool is_as_kept(const SeenSlot& slot) const {
    const StreamEntry& stream = memory_.streams()[part_.stream.stream];
    if (!was_whole(keeping_of(stream, part_.stream.life))) return true;
    const bool is_summed = slot.extents.empty() || slot.is_needed;
    return !is_summed || memory_.slots()[slot.index].checksum == slot_checksum(memory_, slot.index);
  }

  bool read(uint64_t used, uint32_t count, const IsNeeded& is_needed, SeenSlot& slot) {
    const auto bytes = memory_.bytes(slot.index).first(used);
    if (count == 0) {
      slot.bytes.assign(bytes.begin(), bytes.end());
      return true;
    }
    const auto all = memory_.pieces(slot.index).first(count);
    // A copy: the entries may change meanwhile.
    const std::vector<Piece> pieces = merged(std::vector<Piece>(all.begin(), all.end()));
    uint64_t left = used;
    bool needed = false;
    for (const Piece& piece : pieces) {
      if (piece.size == 0 || piece.size > left) return false;
      left -= piece.size;
      needed = needed || is_needed(piece.range, piece.offset, piece.size);
    }
    if (left != 0) return false;
    slot.is_needed = needed;
    slot.extents = needed ? describe_block(pieces, bytes, Form::kStored) : unsummed(pieces);
    return true;
  }

  static std::vector<Extent> unsummed(const std::vector<Piece>& pieces) {
    std::vector<Extent> extents;
    uint64_t within = 0;
    for (const Piece& piece : pieces) {
      Extent& extent = extents.emplace_back();
      extent.range = piece.range;
      extent.offset = piece.offset;
      extent.size = piece.size;
      extent.within = within;
      const uint64_t parts = Extent::parts_in(piece.offset, piece.size);
      if (parts > 1) extent.parts.resize(parts);
      within += piece.size;
    }
    return extents;
  }

  StagingMemory& memory_;
  const InFlight::Part& part_;
  std::map<uint64_t, SeenSlot> seen_;
};

// The part's block logs, and the paths of its chunks.
class Logs {
 public:
  Logs(FileSystem& files, const CheckpointText& text)
      : files_(files),
        text_(text),
        below_("/" + store_key(text.store) + "/" + sanitise_job(text.job) + "/" +
               epoch_folder(text.epoch)) {}

  // Looks for chunks after reading the logs that name them.
  Status read(const std::vector<SsdFolder>& ssd, const std::string& epoch) {
    read_logs(epoch);
    const std::vector<std::string> local = local_folders(ssd);
    std::ranges::for_each(local, [this](const std::string& folder) { read_logs(folder); });
    std::ranges::for_each(local, [this](const std::string& folder) { find_chunks(folder); });
    if (!failure_.ok()) return not_yet(text_, failure_.message());
    if (backends_.size() > 1) return not_yet(text_, "backends of several names have worked on it");
    if (!log_.text.empty() && log_.text != encode(text_)) {
      return not_yet(text_, "its block log is that of another checkpoint");
    }
    if (Status settled = settle(log_); !settled.ok()) return not_yet(text_, settled.message());
    for (const MovedChunk& moved : log_.moved) moved_.insert_or_assign(moved.chunk, moved);
    return {};
  }

  const BlockLog& log() const { return log_; }
  const MovedChunk* moved(uint32_t chunk) const {
    const auto found = moved_.find(chunk);
    return found == moved_.end() ? nullptr : &found->second;
  }
  const std::string* chunk(uint32_t number) const {
    const auto found = chunks_.find(number);
    return found == chunks_.end() ? nullptr : &found->second;
  }

 private:
  // The part's folders of each backend on each device.
  std::vector<std::string> local_folders(const std::vector<SsdFolder>& ssd) {
    std::vector<std::string> folders;
    for (const SsdFolder& device : ssd) {
      const std::string root = user_folder(device.path);
      for_each_entry(root, [&](const FolderEntry& backend) {
        if (backend.is_folder) folders.push_back(root + "/" + backend.name + below_);
      });
    }
    return folders;
  }

  void read_logs(const std::string& folder) {
    for_each_entry(folder, [&](const FolderEntry& entry) {
      if (!is_own(parse_block_log_name(entry.name))) return;
      note_backend(folder);
      note(read_block_log(files_, folder + "/" + entry.name, log_));
    });
  }
  void find_chunks(const std::string& folder) {
    for_each_entry(folder, [&](const FolderEntry& entry) {
      const auto chunk = parse_chunk_name(entry.name);
      if (!is_own(chunk)) return;
      note_backend(folder);
      chunks_[chunk->number] = folder + "/" + entry.name;
    });
  }

  template <class Use>
  void for_each_entry(const std::string& folder, Use use) {
    const auto entries = files_.entries(folder);
    note(entries.status());
    if (!entries.ok()) return;
    std::ranges::for_each(entries.value(), use);
  }
  // A missing folder or log counts as empty.
  void note(const Status& status) {
    if (failure_.ok() && status.code() != Code::kNotFound) failure_ = status;
  }
  // Its folder's name; of the store's folder there is none.
  void note_backend(const std::string& folder) {
    if (!folder.ends_with(below_)) return;
    const std::string backend = folder.substr(0, folder.size() - below_.size());
    backends_.insert(backend.substr(backend.rfind('/') + 1));
  }
  bool is_own(const std::optional<SegmentName>& name) const {
    return name && name->rank == text_.rank && name->run == text_.run;
  }

  FileSystem& files_;
  const CheckpointText& text_;
  const std::string below_;
  BlockLog log_;
  Status failure_;
  std::set<std::string> backends_;  // that have worked on the part
  std::map<uint32_t, std::string> chunks_;
  std::map<uint32_t, MovedChunk> moved_;
};

// A view of the whole part at one moment.
class Look {
 public:
  Look(FileSystem& files, const PendingPlaces& places, const InFlight::Part& part)
      : files_(files),
        places_(places),
        part_(part),
        job_{part.text.store + "/" + sanitise_job(part.text.job), sanitise_job(part.text.job)},
        epoch_(job_.folder + "/" + epoch_folder(part.text.epoch)),
        slots_(*places.memory, part),
        logs_(files, part.text) {}

  // Returns kBusy and sets `again` if bytes moved meanwhile.
  Status take(const IsNeeded& is_needed, bool& again) {
    const StreamEntry& entry = places_.memory->streams()[part_.stream.stream];
    const uint64_t slots = entry.slots;
    if (!is_there()) return gone();
    if (!slots_.take(is_needed)) return not_yet(part_.text, "a slot of it makes no sense");
    if (Status read = logs_.read(places_.ssd, epoch_); !read.ok()) return read;
    if (Status listed = list(slots, again); !listed.ok()) return is_there() ? listed : gone();
    if (Status parsed = parse_manifest(); !parsed.ok()) return parsed;
    return link_to_parent(files_, job_, manifest_);
  }

  // Returns the manifest as the program handed it over.
  const Manifest& manifest() const { return manifest_; }

  Result<LocatedPart> located() {
    LocatedPart located;
    located.manifest = manifest_;
    located.manifest.extents = std::move(extents_);
    uint32_t number = std::numeric_limits<uint32_t>::max();
    for (const File& file : all_files_) {
      const std::string name = segment_name({part_.text.rank, part_.text.run, number--});
      located.manifest.segments.push_back({name, file.end});
      located.files.push_back({file.path, kSegmentHeaderBytes, file.end - kSegmentHeaderBytes});
    }
    // Decodes it as a store would, which finds invalid places.
    auto checked = decode_manifest(encode(located.manifest));
    if (!checked.ok()) return not_yet(part_.text, checked.status().message());
    located.manifest = std::move(checked.value());
    return located;
  }

  // A sealed log was written after the journal was durable, and so is a part that is kept.
  Status check_journal() const {
    const auto& sealed = logs_.log().sealed;
    const StreamEntry& entry = places_.memory->streams()[part_.stream.stream];
    const bool kept = was_whole(keeping_of(entry, part_.stream.life));
    if (journal_ && !sealed && !kept && !is_durable(*journal_)) {
      return not_yet(part_.text, "its journal is not durable yet");
    }
    for (const JournalPart& journal : manifest_.journal) {
      const auto file = files_.open(job_.folder + "/" + journal.file);
      if (!file.ok() || file.value()->size() < journal.file_bytes) {
        return not_yet(part_.text, "its journal " + journal.file + " is not there");
      }
    }
    return {};
  }

 private:
  struct File {
    std::string path;
    uint64_t end = 0;  // of its contents
  };
  enum class Kind : uint8_t { kArea, kChunk, kSegment };

  bool is_there() const {
    const Owned<StreamState> word = places_.memory->streams()[part_.stream.stream].word.load();
    return is_sealed(word.state) && word.life == part_.stream.life;
  }
  Status gone() const {
    return {Code::kNotFound, part_.text.job + "@" + std::to_string(part_.text.epoch) +
                                 " is not on its way from this node"};
  }

  // Adds the location of each slot.
  Status list(uint64_t slots, bool& again) {
    std::set<uint64_t> listed;
    for (const SegmentStore::StoredBlock& block : logs_.log().blocks) {
      listed.insert(block.sequence);
      if (!add_block(block)) return moves(again);
    }
    for (const BlockLog::ManifestSlot& slot : logs_.log().manifest) {
      listed.insert(slot.sequence);
      manifest_slots_[slot.sequence] = slot.bytes;
    }
    for (const auto& [sequence, slot] : slots_.seen()) {
      if (listed.insert(sequence).second) add_slot(sequence, slot);
    }
    const bool is_whole = listed.size() == slots && (slots == 0 || *listed.rbegin() == slots - 1);
    return is_whole ? Status() : moves(again);
  }
  Status moves(bool& again) const {
    again = true;
    return not_yet(part_.text, "not all of it is there");
  }

  bool add_block(const SegmentStore::StoredBlock& block) {
    uint32_t file = 0;
    uint64_t from = 0;
    if (!block.in_chunk) {
      file = segment(block.file);
    } else if (const MovedChunk* const moved = logs_.moved(block.file)) {
      file = segment(moved->segment);
      from = moved->base - kSegmentHeaderBytes;
    } else if (const std::string* const path = logs_.chunk(block.file)) {
      file = file_of(Kind::kChunk, block.file, *path);
    } else {
      return false;
    }
    for (Extent extent : block.extents) {
      extent.segment_offset += from;
      add(file, std::move(extent));
    }
    return true;
  }

  void add_slot(uint64_t sequence, const SeenSlot& slot) {
    if (slot.extents.empty()) {
      manifest_slots_[sequence] = slot.bytes;
      return;
    }
    const uint32_t file = file_of(Kind::kArea, 0, places_.area);
    for (Extent extent : slot.extents) {
      extent.segment_offset = slots_.offset_of(slot.index) + std::exchange(extent.within, 0);
      add(file, std::move(extent));
    }
  }

  void add(uint32_t file, Extent extent) {
    extent.segment = file;
    all_files_[file].end = std::max(all_files_[file].end, extent.segment_offset + extent.stored());
    extents_.push_back(std::move(extent));
  }

  uint32_t segment(uint32_t number) {
    return file_of(Kind::kSegment, number,
                   epoch_ + "/" + segment_name({part_.text.rank, part_.text.run, number}));
  }
  uint32_t file_of(Kind kind, uint32_t number, const std::string& path) {
    const auto index = static_cast<uint32_t>(all_files_.size());
    const auto [found, is_new] = numbers_.try_emplace({kind, number}, index);
    if (is_new) all_files_.push_back({path, kSegmentHeaderBytes});
    return found->second;
  }

  Status parse_manifest() {
    std::vector<std::byte> bytes;
    for (const auto& [sequence, part] : manifest_slots_) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    size_t text_bytes = 0;
    const Result<ManifestText> text = parse_manifest_text(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, text_bytes);
    if (!text.ok()) return not_yet(part_.text, text.status().message());
    if (bytes.size() - text_bytes != text->bytes) {
      return not_yet(part_.text, "its manifest has other bytes than it says");
    }
    auto manifest = decode_manifest_without_extents(std::span(bytes).subspan(text_bytes));
    if (!manifest.ok()) return not_yet(part_.text, manifest.status().message());
    manifest_ = std::move(manifest.value());
    journal_ = text->journal;
    const bool is_its = manifest_.epoch == part_.text.epoch && manifest_.rank == part_.text.rank &&
                        manifest_.run == part_.text.run &&
                        sanitise_job(manifest_.job) == job_.folder_name;
    return is_its ? Status() : not_yet(part_.text, "its manifest is that of another checkpoint");
  }

  bool is_durable(const ManifestText::Journal& journal) const {
    if (journal.stream >= kMostStreams) return false;
    const StreamEntry& entry = places_.memory->streams()[journal.stream];
    const bool durable = entry.durable.load(std::memory_order_acquire) >= journal.slots;
    return durable && entry.kind == StreamKind::kJournal && entry.word.load().life == journal.life;
  }

  FileSystem& files_;
  const PendingPlaces& places_;
  const InFlight::Part& part_;
  const JobPlace job_;
  const std::string epoch_;  // its folder in the store
  Slots slots_;
  Logs logs_;
  std::map<uint64_t, std::vector<std::byte>> manifest_slots_;
  Manifest manifest_;
  std::optional<ManifestText::Journal> journal_;
  std::vector<Extent> extents_;
  std::vector<File> all_files_;
  std::map<std::pair<Kind, uint32_t>, uint32_t> numbers_;
};

// Calls `use` with a consistent view of the part.
template <class Use>
auto look_at_part(FileSystem& files, const PendingPlaces& places, const InFlight::Part& part,
                  const IsNeeded& is_needed, Use use) -> decltype(use(std::declval<Look&>())) {
  if (!part.sealed) return not_yet(part.text, "its program has not handed over all of it");
  for (int looks = 1;; ++looks) {
    bool again = false;
    Look look(files, places, part);
    Status taken = look.take(is_needed, again);
    if (taken.ok()) return use(look);
    if (!again || looks == kMostLooks || taken.code() != Code::kBusy) return taken;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

bool is_of(const CheckpointText& text, const std::string& store, const std::string& job) {
  return sanitise_job(text.job) == sanitise_job(job) && is_same_store(text.store, store);
}

}  // namespace

std::string area_file(const std::string& area) {
  return "/dev/shm/" + area;
}

bool is_same_store(const std::string& one, const std::string& other) {
  std::error_code error;
  return one == other || (std::filesystem::equivalent(one, other, error) && !error);
}

std::vector<InFlight::Part> pending_parts(StagingMemory& memory, const std::string& store,
                                          const std::string& job, uint64_t epoch) {
  std::vector<InFlight::Part> parts = look_at(memory).parts;
  std::erase_if(parts, [&](const InFlight::Part& part) {
    return !part.sealed || part.text.epoch != epoch || !is_of(part.text, store, job);
  });
  return parts;
}

uint64_t newest_in_flight(StagingMemory& memory, const std::string& store, const std::string& job,
                          bool sealed) {
  uint64_t newest = 0;
  for (const InFlight::Part& part : look_at(memory).parts) {
    const bool counts = (part.sealed || !sealed) && is_of(part.text, store, job);
    if (counts) newest = std::max(newest, part.text.epoch);
  }
  return newest;
}

Result<uint64_t> free_epoch(StagingMemory& memory, Store& store, const std::string& job) {
  // Reads the area before the store: a part that has left the area is in the store.
  const uint64_t newest = newest_in_flight(memory, store.folder(), job, false);
  const auto next = store.next_epoch(job);
  if (!next.ok()) return next;
  return std::max(next.value(), newest + 1);
}

Result<Manifest> read_pending(FileSystem& files, const PendingPlaces& places,
                              const InFlight::Part& part) {
  const auto nothing = [](uint32_t, uint64_t, uint64_t) { return false; };
  return no_throw("look at a checkpoint on its way", [&] {
    return look_at_part(files, places, part, nothing, [](Look& look) -> Result<Manifest> {
      if (Status durable = look.check_journal(); !durable.ok()) return durable;
      Manifest manifest = look.manifest();
      const auto located = look.located();
      if (!located.ok()) return located.status();
      return manifest;
    });
  });
}

Result<LocatedPart> locate_pending(FileSystem& files, const PendingPlaces& places,
                                   const InFlight::Part& part, const IsNeeded& is_needed) {
  return no_throw("locate a checkpoint on its way", [&] {
    return look_at_part(files, places, part, is_needed,
                        [](Look& look) -> Result<LocatedPart> { return look.located(); });
  });
}

}  // namespace gpusnap
