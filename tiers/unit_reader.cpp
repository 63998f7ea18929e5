// SPDX-License-Identifier: Apache-2.0
#include "tiers/unit_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "tiers/format.h"
#include "tiers/no_throw.h"
#include "tiers/segment.h"

namespace gpusnap {

namespace {
// Reads in flight while reading ahead: enough for a device, and few beside the program's own reads.
constexpr size_t kAheadReads = 4;
// The interval at which an idle reader checks whether others want its buffers.
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
}  // namespace

UnitReader::UnitReader(FileSystem& files, const JobPlace& job, const PartReaderOptions& options,
                       ReadBuffers& buffers, ReadUnits units, LocalChunks* near)
    : files_(files),
      job_(job),
      options_(options),
      buffers_(buffers),
      near_(near),
      segments_(std::move(units.segments)),
      units_(std::move(units.units)),
      to_read_(units_.size()),
      from_store_(units_.size()),
      own_checker_(job_.folder_name) {
  std::iota(to_read_.begin(), to_read_.end(), size_t{0});
  // Reserved, so that recording an arrival cannot fail.
  arrived_.reserve(options.reads);
  checked_.reserve(options.reads);
}

UnitReader::~UnitReader() {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    arrived_changed_.notify_all();
  }
  for (const Join& join : threads_) join();
  // The destructors of the files wait for reads in flight.
  copies_.clear();
  ahead_files_.reset();
  segments_.clear();
  for (const std::unique_ptr<Part>& part : arrived_) give_back(*part);
  for (const std::unique_ptr<Part>& part : checked_) give_back(*part);
  for (const auto& [number, part] : held_) give_back(*part);
  filling_.reset();
}

// ---- reading

// Prepares the unit of that number with all that it needs. Null: no buffer is free.
Result<std::unique_ptr<UnitReader::Part>> UnitReader::prepare(size_t number, bool wait) {
  const ReadUnit& unit = units_[number];
  std::unique_ptr<Part> part = spare_part();
  part->unit = &unit;
  part->number = number;
  if (Status open = open_source(*part); !open.ok()) return open;
  const uint64_t raw = unit.raw_bytes();
  const uint64_t plain = unit.plain_bytes();
  Result<std::byte*> room = room_for(*part, plain, wait);
  if (!room.ok()) return room.status();
  if (room.value() == nullptr) {
    spare_.push_back(std::move(part));
    return std::unique_ptr<Part>();
  }
  part->plain = {room.value(), plain};
  part->raw = part->plain;
  if (!unit.is_block()) return part;
  if (part->stored_room < raw) {
    Result<PageMemory> memory = allocate_pages(raw);
    if (!memory.ok()) {
      give_back(*part);
      return memory.status();
    }
    part->stored = std::move(memory.value());
    part->stored_room = raw;
  }
  part->raw = {part->stored.get(), raw};
  return part;
}

Status UnitReader::open_source(Part& part) {
  const bool anywhere = !from_store_[part.number];
  part.source = Source::kStore;
  if (anywhere && moved_.contains(part.number)) {
    part.source = Source::kAhead;
  } else if (anywhere && open_copy_of(part.number)) {
    part.source = Source::kCopy;
  }
  return part.source == Source::kStore ? open_segment_of(*part.unit) : Status();
}

bool UnitReader::open_copy_of(size_t number) {
  const ReadUnit& unit = units_[number];
  if (unit.copy == nullptr) return false;
  CopyFile& copy = copies_[unit.copy];
  if (copy.is_wrong || copy.file != nullptr) return !copy.is_wrong;
  Result<std::unique_ptr<BulkFile>> file = files_.open_bulk(unit.copy->path);
  copy.is_wrong = !file.ok();
  if (file.ok()) copy.file = std::move(file.value());
  return file.ok();
}

Status UnitReader::open_segment_of(const ReadUnit& unit) {
  ReadSegment& segment = segments_[unit.segment];
  if (segment.file != nullptr) return {};
  Result<std::unique_ptr<BulkFile>> file = files_.open_bulk(segment.path());
  if (!file.ok()) return file.status();
  Status size = check_segment_size(file.value()->size(), segment.path(),
                                   segment.manifest->segments[segment.index]);
  if (size.ok()) segment.file = std::move(file.value());
  return size;
}

Result<std::byte*> UnitReader::room_for(Part& part, uint64_t bytes, bool wait) {
  if (bytes <= buffers_.bytes()) {
    Result<std::byte*> buffer = buffers_.take(wait);
    if (buffer.ok()) part.buffer = buffer.value();
    return buffer;
  }
  Result<PageMemory> memory = allocate_pages(bytes);
  if (!memory.ok()) return memory.status();
  part.own = std::move(memory.value());
  return part.own.get();
}

std::unique_ptr<UnitReader::Part> UnitReader::spare_part() {
  if (spare_.empty()) return std::make_unique<Part>();
  std::unique_ptr<Part> part = std::move(spare_.back());
  spare_.pop_back();
  part->is_ahead = false;
  part->status = {};
  part->goal.reset();
  part->moved.reset();
  return part;
}

void UnitReader::begin(std::unique_ptr<Part> part) {
  ++under_way_;
  if (part->source == Source::kStore) ++segments_[part->unit->segment].reading;
  if (part->source == Source::kCopy) ++copies_.at(part->unit->copy).reading;
  start_thread_if_needed();
  read(part.release());
}

void UnitReader::read(Part* part) {
  const ReadUnit& unit = *part->unit;
  BulkFile* file = segments_[unit.segment].file.get();
  uint64_t from = unit.begin;
  std::span<std::byte> to = part->raw;
  if (part->source == Source::kCopy) {
    // A unit of whole pages may begin before the bytes of the copy, within its header, and end
    // after them, where the file has nothing.
    const uint64_t end = std::min(unit.end, unit.copy->base + unit.copy->bytes);
    file = copies_.at(unit.copy).file.get();
    from = kSegmentHeaderBytes + unit.begin - unit.copy->base;
    to = to.first(end - unit.begin);
  } else if (part->source == Source::kAhead) {
    file = moved_.at(part->number).file;
    from = moved_.at(part->number).offset;
  }
  file->read(from, to, [this, part](const Status& status) {
    part->status = status;
    arrive(part);
  });
}

void UnitReader::arrive(Part* part) {
  const MutexLock lock(mutex_);
  arrived_.emplace_back(part);
  // Under the lock: after it the reader may be destroyed.
  arrived_changed_.notify_one();
  checked_changed_.notify_one();
}

void UnitReader::start_thread_if_needed() {
  if (threads_.size() >= std::min<size_t>(options_.threads, under_way_)) return;
  Result<Join> thread = start_thread(options_.spawn, "reader", [this] { work(); });
  if (thread.ok()) threads_.push_back(std::move(thread.value()));
}

void UnitReader::work() {
  UnitChecker checker(job_.folder_name);
  const MutexLock lock(mutex_);
  for (;;) {
    arrived_changed_.wait(mutex_,
                          [this]() REQUIRES(mutex_) { return ended_ || !arrived_.empty(); });
    if (arrived_.empty()) return;
    check_one(checker);
  }
}

// Releases the lock meanwhile.
void UnitReader::check_one(UnitChecker& checker) {
  std::unique_ptr<Part> part = std::move(arrived_.front());
  arrived_.erase(arrived_.begin());
  {
    const Unlocked unlocked(mutex_);
    if (part->status.ok()) {
      const ReadUnit& unit = *part->unit;
      part->status = checker.check(segments_[unit.segment], unit, part->raw, part->plain);
    }
  }
  checked_.push_back(std::move(part));
  checked_changed_.notify_one();
}

// Checks in this thread if there is no other. Null: nothing has arrived.
std::unique_ptr<UnitReader::Part> UnitReader::take_checked() {
  if (checked_.empty() && threads_.empty() && !arrived_.empty()) check_one(own_checker_);
  if (checked_.empty()) return nullptr;
  std::unique_ptr<Part> part = std::move(checked_.front());
  checked_.erase(checked_.begin());
  return part;
}

std::unique_ptr<UnitReader::Part> UnitReader::wait_checked() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (std::unique_ptr<Part> part = take_checked()) return part;
    checked_changed_.wait(mutex_);
  }
}

// Also returns null if reading ahead is to stop.
std::unique_ptr<UnitReader::Part> UnitReader::wait_checked_briefly() {
  const MutexLock lock(mutex_);
  const auto may_go_on = [this]() REQUIRES(mutex_) {
    return stopped_ || !checked_.empty() || (threads_.empty() && !arrived_.empty());
  };
  (void)checked_changed_.wait_for(mutex_, kBetweenLooks, may_go_on);
  return stopped_ ? nullptr : take_checked();
}

// ---- reading ahead

void UnitReader::stop_ahead() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  checked_changed_.notify_all();
}

void UnitReader::read_ahead(const MakeAheadFiles& make_files) {
  const auto is_stopped = [this] {
    const MutexLock lock(mutex_);
    return stopped_;
  };
  make_files_ = make_files;
  plan_.emplace(buffers_.spare(), static_cast<bool>(make_files));
  while (!is_stopped()) {
    give_back_held();
    while (!is_stopped() && begin_ahead()) {
    }
    if (std::unique_ptr<Part> part = wait_checked_briefly()) keep_ahead(std::move(part));
  }
  order_rest();
}

AheadPlan::Unit UnitReader::describe(const ReadUnit& unit) const {
  return {unit.raw_bytes(), unit.plain_bytes() <= buffers_.bytes(), unit.copy != nullptr};
}

// Returns false if no read can be begun now.
bool UnitReader::begin_ahead() {
  using enum AheadPlan::Goal;
  if (to_read_.empty() || under_way_ >= kAheadReads) return false;
  const size_t number = to_read_.front();
  if (plan_->memory_is_full() && make_files_) ahead_files_ = std::exchange(make_files_, {})();
  const uint64_t room = ahead_files_ == nullptr ? 0 : ahead_files_->room();
  const auto goal = plan_->next(describe(units_[number]), buffers_.spare(), room);
  if (goal == kEnd && make_files_) return true;  // it is asked again, with the files
  if (goal == kEnd || goal == kWait) return false;
  if (goal != kLeave) {
    Result<std::unique_ptr<Part>> ready = prepare(number, false);
    if (ready.ok() && ready.value() == nullptr) return false;
    if (ready.ok()) {
      if (goal == kDevice) {
        ready.value()->goal = ahead_files_->take(units_[number].raw_bytes());
        plan_->begins_to_move();
      } else {
        plan_->begins_to_read();
      }
      to_read_.pop_front();
      ready.value()->is_ahead = true;
      begin(std::move(ready.value()));
      return true;
    }
  }
  to_read_.pop_front();
  leave(number);
  return true;
}

// `part` has been read, or moved.
void UnitReader::keep_ahead(std::unique_ptr<Part> part) {
  const bool is_right = part->status.ok();
  if (is_right && part->goal && !part->moved) return move(std::move(part));
  if (part->goal) {
    plan_->has_moved();
  } else {
    plan_->was_read();
  }
  if (!is_right) {
    if (is_from_elsewhere(*part)) allowed(*part);
    leave(part->number);
  } else if (part->goal) {
    if (part->moved->ok()) {
      moved_[part->number] = *part->goal;
    } else {
      ahead_files_->fail(part->goal->file);
      leave(part->number);
    }
  } else if (part->unit->is_header) {
    ++used_;
  } else {
    return hold(std::move(part));
  }
  end(std::move(part));
}

void UnitReader::move(std::unique_ptr<Part> part) {
  Part* const moving = part.release();
  moving->goal->file->write(moving->goal->offset, moving->raw,
                            [this, moving](const Status& status) {
                              moving->moved = status;
                              const MutexLock lock(mutex_);
                              checked_.emplace_back(moving);
                              checked_changed_.notify_one();
                            });
}

void UnitReader::hold(std::unique_ptr<Part> part) {
  --under_way_;
  close_idle(*part);
  part->stored.reset();
  part->stored_room = 0;
  part->raw = part->plain;
  share_buffer(*part);
  const size_t number = part->number;
  held_[number] = std::move(part);
}

// Puts small units together, so that not each takes a whole buffer.
void UnitReader::share_buffer(Part& part) {
  constexpr size_t kAlignment = 256;
  const size_t bytes = (part.plain.size() + kAlignment - 1) / kAlignment * kAlignment;
  if (part.buffer == nullptr || bytes > buffers_.bytes() / 2) return;
  if (filling_ != nullptr && buffers_.bytes() - filling_->used >= bytes) {
    std::byte* const to = filling_->buffer + filling_->used;
    std::memcpy(to, part.plain.data(), part.plain.size());
    filling_->used += bytes;
    buffers_.give_back(std::exchange(part.buffer, nullptr));
    part.plain = part.raw = {to, part.plain.size()};
  } else {
    const auto free = [this](const Shared* shared) {
      buffers_.give_back(shared->buffer);
      delete shared;
    };
    filling_ = std::shared_ptr<Shared>(new Shared{part.buffer, bytes}, free);
    part.buffer = nullptr;
  }
  part.shared = filling_;
}

// Gives back the last units first: they are needed last.
void UnitReader::give_back_held() {
  while (!held_.empty() && plan_->gives_back(buffers_.spare())) {
    filling_.reset();
    const auto last = std::prev(held_.end());
    leave(last->first);
    give_back(*last->second);
    held_.erase(last);
  }
}

// Puts the units for run() into its order.
void UnitReader::order_rest() {
  for (const auto& [number, place] : moved_) left_.erase(number);
  for (const size_t number : to_read_) leave(number);
  to_read_.clear();
  for (const auto& [number, place] : moved_) to_read_.push_back(number);
  to_read_.insert(to_read_.end(), left_.begin(), left_.end());
  left_.clear();
  filling_.reset();
}

// ---- taking

Status UnitReader::run(const TakePieces& take, const std::function<void(uint64_t)>& advance) {
  while (!to_read_.empty() || under_way_ > 0 || !held_.empty()) {
    while (!ends() && !to_read_.empty() && under_way_ < options_.reads) {
      if (!begin_next()) break;
    }
    if (ends()) to_read_.clear();
    std::unique_ptr<Part> part = next_part();
    if (part == nullptr) continue;
    if (!part->status.ok() && (part->is_ahead || is_from_elsewhere(*part))) {
      if (is_from_elsewhere(*part)) allowed(*part);
      to_read_.push_front(part->number);
    } else {
      use(*part, take, advance);
    }
    end(std::move(part));
  }
  if (failure_.ok() && used_ != units_.size()) {
    return {Code::kIo, "cannot read a checkpoint: " + std::to_string(units_.size() - used_) +
                           " of " + std::to_string(units_.size()) + " units were passed by"};
  }
  return failure_;
}

// Null: nothing is in flight.
std::unique_ptr<UnitReader::Part> UnitReader::next_part() {
  if (!held_.empty()) {
    std::unique_ptr<Part> part = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    ++under_way_;
    if (near_ != nullptr) near_->counts.in_memory += part->unit->bytes;
    return part;
  }
  return under_way_ == 0 ? nullptr : wait_checked();
}

void UnitReader::fail(size_t number, Status status) {
  if (!failure_.ok() && failed_at_ <= number) return;
  failure_ = std::move(status);
  failed_at_ = number;
}

// Returns false if it has to wait for a buffer.
bool UnitReader::begin_next() {
  const size_t number = to_read_.front();
  Result<std::unique_ptr<Part>> ready = prepare(number, under_way_ == 0 && held_.empty());
  if (!ready.ok()) {
    fail(number, ready.status());
    if (ends()) return false;
    to_read_.pop_front();
    return true;
  }
  if (ready.value() == nullptr) return false;
  to_read_.pop_front();
  begin(std::move(ready.value()));
  return true;
}

void UnitReader::use(Part& part, const TakePieces& take,
                     const std::function<void(uint64_t)>& advance) {
  if (!part.status.ok()) return fail(part.number, part.status);
  ++used_;
  if (near_ != nullptr) {
    (is_from_elsewhere(part) ? near_->counts.near : near_->counts.store) += part.unit->bytes;
  }
  if (advance) advance(part.unit->bytes);
  if (!take) return;
  const std::vector<ReadItem>& items = part.unit->items;
  for (size_t next = 0; next < items.size() && !ends();) {
    next = gather(*part.unit, next);
    Status taken = take(gathered_, part.plain);
    take_failed_ = take_failed_ || !taken.ok();
    if (!taken.ok()) fail(part.number, std::move(taken));
  }
}

// The bytes from a copy are wrong: reads the unit from its segment.
void UnitReader::allowed(const Part& part) {
  // If bytes of a file move one by one, its other bytes are right.
  const bool is_all_wrong = part.source == Source::kCopy && !options_.reads_all_it_can;
  if (is_all_wrong) copies_.at(part.unit->copy).is_wrong = true;
  if (near_ != nullptr) near_->counts.passed_over += part.unit->bytes;
  from_store_[part.number] = true;
}

// Gathers the pieces of an item and of those after it that are of the same range, and joins
// neighbours, so that the taker has fewer pieces. Returns the index of the first item after these.
size_t UnitReader::gather(const ReadUnit& unit, size_t next) {
  gathered_.clear();
  const uint32_t range = unit.items[next].pieces.front().range;
  for (; next < unit.items.size() && unit.items[next].pieces.front().range == range; ++next) {
    const ReadItem& item = unit.items[next];
    for (const PlacedExtent& placed : item.pieces) {
      const uint64_t from = std::max(placed.within, item.from);
      const uint64_t size = std::min(placed.within + placed.size, item.from + item.size) - from;
      const uint64_t offset = placed.offset + (from - placed.within);
      const uint64_t at = UnitChecker::place_of(unit, *item.extent, from);
      if (!gathered_.empty() && gathered_.back().end() == offset &&
          gathered_.back().at + gathered_.back().size == at) {
        gathered_.back().size += size;
      } else {
        gathered_.push_back({range, offset, size, at});
      }
    }
  }
  return next;
}

void UnitReader::give_back(Part& part) {
  if (part.buffer != nullptr) buffers_.give_back(std::exchange(part.buffer, nullptr));
  part.shared.reset();
  part.own.reset();
}

// The read has ended. Closes its file if no other unit, nor the next one, is read from it.
void UnitReader::close_idle(const Part& part) {
  const ReadUnit* const next = to_read_.empty() ? nullptr : &units_[to_read_.front()];
  if (part.source == Source::kStore) {
    ReadSegment& segment = segments_[part.unit->segment];
    const bool goes_on = next != nullptr && next->segment == part.unit->segment;
    if (--segment.reading == 0 && !goes_on) segment.file.reset();
  } else if (part.source == Source::kCopy) {
    CopyFile& copy = copies_.at(part.unit->copy);
    if (--copy.reading == 0 && (next == nullptr || next->copy != part.unit->copy)) {
      copy.file.reset();
    }
  }
}

void UnitReader::end(std::unique_ptr<Part> part) {
  give_back(*part);
  --under_way_;
  close_idle(*part);
  spare_.push_back(std::move(part));
}

}  // namespace gpusnap
