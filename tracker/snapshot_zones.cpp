#include "tracker/snapshot_zones.h"

#include <algorithm>

namespace gpusnap {

using enum ZoneBit;

namespace {
constexpr uint64_t kAll = ZoneTable::kEverything;

uint64_t bytes_in(const ZoneTable& zones, ZoneBit bit) {
  uint64_t bytes = 0;
  uint64_t from = 0;
  while (const auto run = zones.next(bit, from)) {
    bytes += run->size;
    from = run->offset + run->size;
  }
  return bytes;
}

// Makes [from, to) of a piece one of its own, and returns its index.
size_t set_apart(std::vector<TransferPiece>& pieces, size_t index, uint64_t from, uint64_t to) {
  const TransferPiece whole = pieces[index];
  const auto part = [&](uint64_t begin, uint64_t end) {
    TransferPiece piece = whole;
    piece.offset = begin;
    piece.size = end - begin;
    piece.place = whole.place + (begin - whole.offset);
    return piece;
  };
  const uint64_t end = whole.offset + whole.size;
  if (to < end) {
    pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(index) + 1, part(to, end));
  }
  pieces[index] = part(from, to);
  if (from == whole.offset) return index;
  pieces.insert(pieces.begin() + static_cast<ptrdiff_t>(index), part(whole.offset, from));
  return index + 1;
}
}  // namespace

void SnapshotZones::update(const MemoryMap& memory, uint64_t zone_bytes) {
  std::lock_guard lock(mutex_);
  std::vector<TrackedRange> before;
  if (zone_bytes == zone_bytes_) before = std::move(ranges_);
  zone_bytes_ = zone_bytes;
  ranges_.clear();
  auto old = before.begin();
  for (const auto& [address, range] : memory.ranges()) {
    if (!is_saved(range.kind)) continue;
    while (old != before.end() && old->address < address) ++old;
    if (old != before.end() && old->address == address && old->life == range.life) {
      ranges_.push_back(std::move(*old++));
      ranges_.back().context = range.context;
      continue;
    }
    TrackedRange fresh{
        address, range.size, range.life, range.context, ZoneTable(range.size, zone_bytes),
        {},      {},         false};
    fresh.zones.set(kDirty, 0, kAll);
    ranges_.push_back(std::move(fresh));
  }
}

uint64_t SnapshotZones::begin(bool full,
                              const std::function<bool(const TrackedRange&, uint64_t)>& changed) {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (TrackedRange& range : ranges_) {
    ZoneTable& zones = range.zones;
    if (full || !range.in_saved) {
      zones.set(kPending, 0, kAll);
    } else {
      for (uint64_t zone = 0; zone < zones.zones(); ++zone) {
        const ZoneRun bounds = zones.zone(zone);
        if (changed(range, zone)) zones.set(kPending, bounds.offset, bounds.size);
      }
    }
    uint64_t from = 0;
    while (const auto run = zones.next(kDirty, from)) {
      zones.set(kTaken, run->offset, run->size);
      from = run->offset + run->size;
    }
    zones.clear(kDirty, 0, kAll);
    bytes += bytes_in(zones, kPending);
  }
  cursors_.clear();
  settle();
  return bytes;
}

void SnapshotZones::complete() {
  std::lock_guard lock(mutex_);
  clear_bits();
  for (TrackedRange& range : ranges_) {
    range.zones.clear(kTaken, 0, kAll);
    range.saved = range.at_cut;
    range.in_saved = true;
  }
}

void SnapshotZones::adopt(const std::function<bool(const TrackedRange&)>& in_saved) {
  std::lock_guard lock(mutex_);
  for (TrackedRange& range : ranges_) {
    range.saved = range.at_cut;
    range.in_saved = in_saved(range);
    if (range.in_saved) range.zones.clear(kDirty, 0, kAll);
  }
}

void SnapshotZones::drop() {
  std::lock_guard lock(mutex_);
  clear_bits();
  for (TrackedRange& range : ranges_) {
    uint64_t from = 0;
    while (const auto run = range.zones.next(kTaken, from)) {
      range.zones.set(kDirty, run->offset, run->size);
      from = run->offset + run->size;
    }
    range.zones.clear(kTaken, 0, kAll);
  }
}

void SnapshotZones::clear_bits() {
  for (TrackedRange& range : ranges_) {
    range.zones.clear(kPending, 0, kAll);
    range.zones.clear(kCopying, 0, kAll);
  }
  settle();
}

void SnapshotZones::settle() {
  const bool busy = !transfers_.empty() || std::ranges::any_of(ranges_, [](const auto& range) {
    return range.zones.any(kPending) || range.zones.any(kCopying);
  });
  active_.store(busy, std::memory_order_release);
  changed_.notify_all();
}

// Every part of a range that the set touches.
template <class Visit>
void SnapshotZones::for_parts(const WriteSet& writes, Visit&& visit) {
  if (writes.everything()) {
    for (uint32_t i = 0; i < ranges_.size(); ++i) visit(i, uint64_t{0}, ranges_[i].size);
    return;
  }
  for (const WriteSet::Range& written : writes) {
    // The first range that ends beyond the address.
    auto it = std::ranges::upper_bound(
        ranges_, written.address, {}, [](const TrackedRange& r) { return r.address + r.size - 1; });
    if (it != ranges_.begin() && std::prev(it)->address + std::prev(it)->size > written.address) {
      --it;
    }
    const bool whole = written.size == WriteSet::kWholeRange;
    const uint64_t end = written.address + std::min(written.size, UINT64_MAX - written.address);
    for (; it != ranges_.end() && it->address < (whole ? written.address + 1 : end); ++it) {
      const auto index = static_cast<uint32_t>(it - ranges_.begin());
      if (whole) {
        visit(index, uint64_t{0}, it->size);
      } else {
        const uint64_t from = std::max(written.address, it->address) - it->address;
        visit(index, from, std::min(end - it->address, it->size));
      }
    }
  }
}

void SnapshotZones::mark_dirty(const WriteSet& writes) {
  std::lock_guard lock(mutex_);
  for_parts(writes, [this](uint32_t index, uint64_t from, uint64_t to) {
    ranges_[index].zones.set(kDirty, from, to - from);
  });
}

bool SnapshotZones::overlaps(const Transfer& transfer, const std::vector<Part>& parts,
                             bool stolen_too) const {
  for (const TransferPiece& piece : transfer.pieces) {
    if (piece.stolen && !stolen_too) continue;
    for (const Part& part : parts) {
      // By whole zones: a write to another part of a zone that is being copied is a write to it.
      const uint64_t from = part.from / zone_bytes_ * zone_bytes_;
      if (piece.range == part.range && piece.offset < part.to && from < piece.offset + piece.size) {
        return true;
      }
    }
  }
  return false;
}

// Takes from kernels of ours what the call is about to write.
void SnapshotZones::steal(const std::vector<Part>& parts) {
  for (const TransferPtr& transfer : transfers_) {
    if (transfer->kind != Transfer::Kind::kGather) continue;
    for (TransferPiece& piece : transfer->pieces) {
      Transfer alone;
      alone.pieces = {piece};
      if (piece.stolen || !overlaps(alone, parts, false)) continue;
      piece.stolen = true;
      ZoneTable& zones = ranges_[piece.range].zones;
      zones.clear(kCopying, piece.offset, piece.size);
      zones.set(kPending, piece.offset, piece.size);
      // Zones that are left over after the call must be found again.
      cursors_.erase(transfer->context);
    }
  }
}

uint64_t SnapshotZones::take_run(uint32_t range, const ZoneRun& run, Room& room,
                                 std::vector<TransferPtr>& claimed) {
  TrackedRange& tracked = ranges_[range];
  uint64_t done = 0;
  while (done < run.size) {
    uint64_t place = 0;
    const uint64_t size = room.take(tracked.context, run.size - done, &place);
    if (size == 0) break;
    auto it = std::ranges::find(claimed, tracked.context, &Transfer::context);
    if (it == claimed.end()) {
      claimed.push_back(std::make_shared<Transfer>());
      it = std::prev(claimed.end());
      (*it)->kind = room.kind();
      (*it)->context = tracked.context;
      (*it)->awaited = true;
      transfers_.push_back(*it);
    }
    (*it)->pieces.push_back({range, run.offset + done, size, place, false});
    (*it)->bytes += size;
    tracked.zones.clear(kPending, run.offset + done, size);
    tracked.zones.set(kCopying, run.offset + done, size);
    done += size;
  }
  return done;
}

// Takes over zones that are on their way to the host: the call would have to wait for the link, and
// for all that is before them there. The copy's bytes of such zones are not used, since the call
// may write to the zones while the copy reads them.
void SnapshotZones::take_over(const std::vector<Part>& parts, Room& room,
                              std::vector<TransferPtr>& claimed) {
  // The claim itself adds one.
  const std::vector<TransferPtr> flying = transfers_;
  for (const TransferPtr& transfer : flying) {
    // A transfer that is starting is left alone, since its starter looks at its pieces. So is an
    // awaited one: calls that wait for it may write as soon as it has ended, before another copy is
    // made.
    if (transfer->kind != Transfer::Kind::kDirect || transfer->state != Transfer::State::kFlying ||
        transfer->awaited) {
      continue;
    }
    for (size_t i = 0; i < transfer->pieces.size(); ++i) {
      for (const Part& part : parts) {
        const TransferPiece piece = transfer->pieces[i];
        if (piece.stolen || piece.range != part.range) continue;
        const uint64_t from = std::max(piece.offset, part.from / zone_bytes_ * zone_bytes_);
        const uint64_t to = std::min(piece.offset + piece.size,
                                     (part.to + zone_bytes_ - 1) / zone_bytes_ * zone_bytes_);
        if (from >= to) continue;
        const uint64_t taken = take_run(piece.range, {from, to - from}, room, claimed);
        if (taken == 0) return;
        i = set_apart(transfer->pieces, i, from, from + taken);
        transfer->pieces[i].stolen = true;
      }
    }
  }
}

SnapshotZones::Claim SnapshotZones::claim(const WriteSet& writes, Room& room, bool freed) {
  Claim claim;
  std::lock_guard lock(mutex_);
  std::vector<Part> parts;
  for_parts(writes, [&](uint32_t index, uint64_t from, uint64_t to) {
    const ZoneTable& zones = ranges_[index].zones;
    if (freed || zones.next(kPending, from, to) || zones.next(kCopying, from, to)) {
      parts.push_back({index, from, to});
    }
  });
  if (parts.empty()) return claim;
  steal(parts);
  for (const Part& part : parts) {
    while (const auto run = ranges_[part.range].zones.next(kPending, part.from, part.to)) {
      claim.left = take_run(part.range, *run, room, claim.claimed) != run->size;
      if (claim.left) break;
    }
    if (claim.left) break;
  }
  const bool on_device = room.kind() == Transfer::Kind::kDuplicate;
  if (on_device && !claim.left && !freed) take_over(parts, room, claim.claimed);
  for (const TransferPtr& transfer : transfers_) {
    if (std::ranges::find(claim.claimed, transfer) != claim.claimed.end()) continue;
    if (transfer->kind == Transfer::Kind::kGather && !freed) continue;
    if (!overlaps(*transfer, parts, freed)) continue;
    transfer->awaited = true;
    claim.in_flight.push_back(transfer);
  }
  return claim;
}

// Adds a run of at least `large` bytes, or what is left of the one before, up to `most` bytes.
void SnapshotZones::search_large(Cursor& cursor, uint64_t most, uint64_t large,
                                 Transfer& transfer) {
  for (; cursor.range < ranges_.size(); cursor = {cursor.range + 1, 0, false}) {
    TrackedRange& range = ranges_[cursor.range];
    if (range.context != transfer.context) continue;
    const uint64_t enough = std::max(most, large);
    while (const auto run = range.zones.next(kPending, cursor.offset, kAll, enough)) {
      const bool is_rest = cursor.inside && run->offset == cursor.offset;
      if (run->size >= large || is_rest) {
        const ZoneRun part{run->offset, std::min(run->size, most)};
        add_run(cursor.range, part, 0, transfer);
        cursor = {cursor.range, part.offset + part.size, true};
        return;
      }
      cursor = {cursor.range, run->offset + run->size, false};
    }
  }
}

// Adds as many runs as there is room for.
void SnapshotZones::search_small(Cursor& cursor, uint64_t most, uint64_t align,
                                 Transfer& transfer) {
  uint64_t used = 0;
  for (; cursor.range < ranges_.size(); cursor = {cursor.range + 1, 0, false}) {
    TrackedRange& range = ranges_[cursor.range];
    if (range.context != transfer.context) continue;
    while (const auto run = range.zones.next(kPending, cursor.offset, kAll, most)) {
      const uint64_t left = used < most ? (most - used) / zone_bytes_ * zone_bytes_ : 0;
      if (left == 0 || transfer.pieces.size() == kMostPieces) return;
      const ZoneRun part{run->offset, std::min(run->size, left)};
      add_run(cursor.range, part, used, transfer);
      used += (part.size + align - 1) / align * align;
      cursor.offset = part.offset + part.size;
    }
  }
}

void SnapshotZones::add_run(uint32_t index, const ZoneRun& run, uint64_t place,
                            Transfer& transfer) {
  ZoneTable& zones = ranges_[index].zones;
  transfer.pieces.push_back({index, run.offset, run.size, place, false});
  transfer.bytes += run.size;
  zones.clear(kPending, run.offset, run.size);
  zones.set(kCopying, run.offset, run.size);
}

TransferPtr SnapshotZones::claim_next(uint64_t context, uint64_t most, uint64_t large,
                                      Scattered scattered) {
  std::lock_guard lock(mutex_);
  auto transfer = std::make_shared<Transfer>();
  transfer->context = context;
  Cursors& cursors = cursors_[context];
  if (scattered != Scattered::kGather) search_large(cursors.large, most, large, *transfer);
  const bool only_small = transfer->pieces.empty() && cursors.large.range == ranges_.size();
  if (only_small && scattered == Scattered::kCopy) {
    search_small(cursors.small, most, 1, *transfer);
  } else if (only_small && scattered == Scattered::kGather) {
    search_small(cursors.small, most, zone_bytes_, *transfer);
    transfer->kind = Transfer::Kind::kGather;
  }
  if (transfer->pieces.empty()) return nullptr;
  transfers_.push_back(transfer);
  return transfer;
}

uint64_t SnapshotZones::pending_bytes(uint64_t context) const {
  std::lock_guard lock(mutex_);
  uint64_t zones = 0;
  for (const TrackedRange& range : ranges_) {
    if (range.context == context) zones += range.zones.count(kPending);
  }
  return zones * zone_bytes_;
}

bool SnapshotZones::busy(uint64_t context) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(transfers_, [&](const auto& t) { return t->context == context; }) ||
         std::ranges::any_of(ranges_, [&](const auto& range) {
           return range.context == context && range.zones.any(kPending);
         });
}

bool SnapshotZones::touches(const WriteSet& writes) {
  std::lock_guard lock(mutex_);
  bool touched = false;
  for_parts(writes, [&](uint32_t index, uint64_t from, uint64_t to) {
    const ZoneTable& zones = ranges_[index].zones;
    touched = touched || zones.next(kPending, from, to) || zones.next(kCopying, from, to);
  });
  return touched;
}

void SnapshotZones::started(const TransferPtr& transfer, std::shared_ptr<void> event) {
  std::lock_guard lock(mutex_);
  transfer->event = std::move(event);
  transfer->state = Transfer::State::kFlying;
  changed_.notify_all();
}

void SnapshotZones::wait_started(const TransferPtr& transfer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return transfer->state != Transfer::State::kStarting; });
}

void SnapshotZones::finished(const TransferPtr& transfer, bool publish) {
  std::lock_guard lock(mutex_);
  transfer->state = Transfer::State::kFinished;
  std::erase(transfers_, transfer);
  if (publish) {
    for (const TransferPiece& piece : transfer->pieces) {
      if (!piece.stolen) ranges_[piece.range].zones.clear(kCopying, piece.offset, piece.size);
    }
  }
  settle();
}

void SnapshotZones::publish_all() {
  std::lock_guard lock(mutex_);
  for (TrackedRange& range : ranges_) range.zones.clear(kCopying, 0, kAll);
  for (const TransferPtr& transfer : transfers_) {
    for (const TransferPiece& piece : transfer->pieces) {
      if (!piece.stolen) ranges_[piece.range].zones.set(kCopying, piece.offset, piece.size);
    }
  }
  settle();
}

}  // namespace gpusnap
