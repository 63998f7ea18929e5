#include "tiers/part_reader.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/compression/codec.h"
#include "tiers/format.h"
#include "tiers/names.h"
#include "tiers/segment.h"

namespace gpusnap {

namespace {

constexpr uint64_t kPage = 4096;
// Less than that between two extents costs less to read than another read. In a chain that is what
// newer ones have replaced, in zones of 64 KiB: half a zone, so that none is read for nothing.
constexpr uint64_t kGap = 32 << 10;

uint64_t align_down(uint64_t offset) {
  return offset / kPage * kPage;
}

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Memory = std::unique_ptr<std::byte, Freed>;

Result<Memory> allocate(uint64_t bytes) {
  Memory memory(static_cast<std::byte*>(
      std::aligned_alloc(kPage, align_down(bytes + kPage - 1) + (bytes == 0 ? kPage : 0))));
  if (memory == nullptr) return Status(Code::kIo, "no memory is left to read a checkpoint");
  return memory;
}

struct Segment {
  const Manifest* manifest = nullptr;
  uint32_t index = 0;
  std::string folder;  // of its epoch
  uint64_t size = 0;   // bytes
  size_t units = 0;    // that have not ended
  std::unique_ptr<BulkFile> file;

  const std::string& name() const { return manifest->segments[index].file; }
  std::string path() const { return folder + "/" + name(); }
};

// Parts of an extent that are neighbours, and the pieces that have bytes in them which are wanted.
struct Item {
  const Extent* extent = nullptr;
  uint64_t from = 0;  // bytes from the extent's start
  uint64_t size = 0;  // bytes
  std::span<const PlacedExtent> pieces;

  bool is_block() const { return extent->form != Form::kStored; }
  // What has to be read for it, in the segment.
  uint64_t begin() const { return extent->segment_offset + (is_block() ? 0 : from); }
  uint64_t end() const { return is_block() ? begin() + extent->block_stored : begin() + size; }
};

// Large enough that there are few, small enough to fill what is read at once.
constexpr uint64_t kMostItemBytes = 256 << 10;

// Calls with each item of an extent: all that is wanted of it, or all of it where no piece is
// given. The pieces are in order and lie in the extent.
template <class F>
void for_each_item(const Extent& extent, std::span<const PlacedExtent> pieces, F f) {
  if (extent.parts.empty()) return f(Item{&extent, 0, extent.size, pieces});
  const auto is_wanted = [&](size_t part) {
    const auto [begin, end, checksum] = extent.part(part);
    while (!pieces.empty() && pieces[0].within + pieces[0].size <= begin) {
      pieces = pieces.subspan(1);
    }
    return !pieces.empty() && pieces[0].within < end;
  };
  const bool all = pieces.empty();
  for (size_t part = 0; part < extent.parts.size();) {
    if (!all && !is_wanted(part)) {
      if (pieces.empty()) return;
      part = extent.part_at(pieces[0].within);
      continue;
    }
    const std::span<const PlacedExtent> first = pieces;
    Item item{&extent, extent.part(part).begin, 0, {}};
    do {
      item.size = extent.part(part++).end - item.from;
    } while (item.size < kMostItemBytes && part < extent.parts.size() && (all || is_wanted(part)));
    size_t count = 0;
    while (count < first.size() && first[count].within < item.from + item.size) ++count;
    item.pieces = first.first(count);
    f(item);
  }
}

// What is read at once: one block, or extents as they are, or a header.
struct Unit {
  uint32_t segment = 0;
  uint64_t begin = 0;  // bytes from the file's start
  uint64_t end = 0;
  uint64_t bytes = 0;  // of these, without those before and behind it that make whole pages
  std::vector<Item> items;
  struct Gap {
    uint64_t begin = 0;  // as above
    uint64_t end = 0;
  };
  std::vector<Gap> gaps;  // that are to be zero
  bool is_header = false;
  const NearChunk* copy = nullptr;  // where it may be read instead

  bool is_block() const { return !items.empty() && items[0].is_block(); }
};

bool same_block(const Extent& a, const Extent& b) {
  return std::tuple(a.form, a.segment_offset, a.block_stored, a.block_bytes) ==
         std::tuple(b.form, b.segment_offset, b.block_stored, b.block_bytes);
}

// Puts extents together that are read at once. They come in the order of their places, segment by
// segment.
class Plan {
 public:
  Plan(std::vector<Segment>& segments, uint64_t most, const NearChunks* near = nullptr)
      : segments_(segments), most_(most), near_(near) {}

  void begin_segment(Segment segment) {
    segments_.push_back(std::move(segment));
    begin(0);
    units_.back().end = kSegmentHeaderBytes;
    units_.back().is_header = true;
    open_ = false;
  }

  void add(const Item& item) {
    const NearChunk* const copy = copy_of(item);
    if (!joins(item) || units_.back().copy != copy) begin(item.begin());
    Unit& unit = units_.back();
    unit.copy = copy;
    unit.end = std::max(unit.end, item.end());
    unit.items.push_back(item);
  }

  // Bytes behind what came so far that are to be zero.
  void add_padding(uint64_t from, uint64_t to) {
    while (from < to) {
      if (!open_ || from + kPage >= align_down(units_.back().begin) + most_) begin(from);
      Unit& unit = units_.back();
      const uint64_t end = std::min(to, align_down(unit.begin) + most_ - kPage);
      unit.gaps.push_back({from, end});
      unit.end = end;
      from = end;
    }
  }

  std::vector<Unit> take() {
    leave_out_headers();
    for (Unit& unit : units_) {
      Segment& segment = segments_[unit.segment];
      ++segment.units;
      // What is unused of a header is padding like any other.
      unit.bytes = unit.is_header ? kSegmentHeaderUsedBytes : unit.end - unit.begin;
      // Whole pages go past the page cache.
      unit.begin = align_down(unit.begin);
      unit.end = std::min(align_down(unit.end + kPage - 1), segment.size);
    }
    return std::move(units_);
  }

 private:
  uint32_t last_segment() const { return static_cast<uint32_t>(segments_.size() - 1); }

  const NearChunk* copy_of(const Item& item) const {
    if (near_ == nullptr || near_->empty()) return nullptr;
    return near_->find(segments_.back().path(), item.begin(), item.end() - item.begin());
  }

  // A segment of which all is elsewhere is not opened.
  void leave_out_headers() {
    std::vector<bool> is_read(segments_.size(), near_ == nullptr);
    for (const Unit& unit : units_) {
      if (!unit.is_header && unit.copy == nullptr) is_read[unit.segment] = true;
    }
    std::erase_if(units_,
                  [&](const Unit& unit) { return unit.is_header && !is_read[unit.segment]; });
  }

  bool joins(const Item& item) const {
    if (!open_) return false;
    const Unit& last = units_.back();
    if (item.is_block() || last.is_block()) {
      return !last.items.empty() && same_block(*item.extent, *last.items.back().extent);
    }
    return item.begin() >= last.begin && item.begin() <= last.end + kGap &&
           item.end() + kPage - align_down(last.begin) <= most_;
  }

  void begin(uint64_t from) {
    Unit unit;
    unit.segment = last_segment();
    unit.begin = unit.end = from;
    units_.push_back(std::move(unit));
    open_ = true;
  }

  std::vector<Segment>& segments_;
  const uint64_t most_;
  const NearChunks* const near_;
  std::vector<Unit> units_;
  bool open_ = false;  // the last unit may take more
};

// Decompresses and compares. One for each thread.
class Checker {
 public:
  explicit Checker(const JobPlace& job) : job_(job) {}

  // `raw`: the unit as it is in the file; `plain`: where a block's bytes come to, else the same.
  Status check(const Segment& segment, const Unit& unit, std::span<const std::byte> raw,
               std::span<std::byte> plain) {
    if (unit.is_header) {
      return check_segment_header(raw, segment.path(), job_.folder_name, *segment.manifest,
                                  segment.index);
    }
    if (unit.is_block()) {
      const Extent& extent = *unit.items.front().extent;
      const auto stored = raw.subspan(extent.segment_offset - unit.begin, extent.block_stored);
      if (Status whole = decompress(segment, extent, stored, plain); !whole.ok()) return whole;
    }
    for (const Item& item : unit.items) {
      const auto bytes = plain.subspan(place_of(unit, *item.extent, item.from), item.size);
      Status right = check_parts(segment.path(), *item.extent, item.from, bytes);
      if (!right.ok()) return right;
    }
    return zeros(segment, unit, raw);
  }

  // Of a byte of an extent, from its start on, in the unit's, which are decompressed where it is a
  // block.
  static uint64_t place_of(const Unit& unit, const Extent& extent, uint64_t byte) {
    return unit.is_block() ? extent.within + byte : extent.segment_offset + byte - unit.begin;
  }

 private:
  Status decompress(const Segment& segment, const Extent& extent, std::span<const std::byte> stored,
                    std::span<std::byte> plain) {
    if (most_ < extent.block_bytes) {
      auto made = Decompressor::make(extent.block_bytes);
      if (!made.ok()) return made.status();
      decompressor_ = std::move(made.value());
      most_ = extent.block_bytes;
    }
    Status whole = decompressor_->decompress(extent.form, stored, plain);
    const bool foreign = whole.code() == Code::kDamaged || whole.code() == Code::kUnsupported;
    if (!foreign) return whole;
    return wrong_content(segment.path(), extent.segment_offset,
                         extent.segment_offset + extent.block_stored, whole.message());
  }

  static Status zeros(const Segment& segment, const Unit& unit, std::span<const std::byte> raw) {
    for (const Unit::Gap& gap : unit.gaps) {
      const auto bytes = raw.subspan(gap.begin - unit.begin, gap.end - gap.begin);
      if (std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == std::byte{0}; })) {
        continue;
      }
      return {Code::kDamaged, "segment " + segment.path() + " is damaged between bytes " +
                                  std::to_string(gap.begin) + " and " + std::to_string(gap.end) +
                                  ": padding is not zero"};
    }
    return {};
  }

  const JobPlace& job_;
  std::unique_ptr<Decompressor> decompressor_;
  size_t most_ = 0;  // bytes of a block that it can decompress
};

// Has units read, checked and taken.
class Reading {
 public:
  Reading(FileSystem& files, const JobPlace& job, const PartReaderOptions& options,
          ReadBuffers& buffers, std::vector<Segment> segments, std::vector<Unit> units,
          NearChunks* near = nullptr)
      : files_(files),
        job_(job),
        options_(options),
        buffers_(buffers),
        near_(near),
        segments_(std::move(segments)),
        units_(std::move(units)),
        from_store_(units_.size()) {
    for (const Unit& unit : units_) {
      if (unit.copy != nullptr) ++copies_[unit.copy].units;
    }
    // What has arrived is noted where nothing may fail.
    arrived_.reserve(options.reads);
    checked_.reserve(options.reads);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  ~Reading() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      arrived_changed_.notify_all();
    }
    for (const Join& join : threads_) join();
    copies_.clear();  // waits for what is on its way
    segments_.clear();
    for (const std::unique_ptr<Part>& part : arrived_) give_back(*part);
    for (const std::unique_ptr<Part>& part : checked_) give_back(*part);
  }

  Status run(const TakePieces& take, const std::function<void(uint64_t)>& advance) {
    while (any_left() || under_way_ > 0) {
      while (failure_.ok() && any_left() && under_way_ < options_.reads) {
        if (!begin_next()) break;
      }
      if (!failure_.ok()) {
        next_ = units_.size();
        again_.clear();
      }
      if (under_way_ == 0) continue;
      std::unique_ptr<Part> part = wait_checked();
      if (part->is_copy && !part->status.ok()) {
        pass_over(std::move(part));
        continue;
      }
      use(*part, take, advance);
      end(std::move(part));
    }
    return failure_;
  }

 private:
  // A unit on its way.
  struct Part {
    const Unit* unit = nullptr;
    size_t number = 0;
    std::byte* buffer = nullptr;  // of buffers_
    Memory own;                   // instead, where it is larger than those
    Memory stored;                // a block as it is in the file
    uint64_t stored_room = 0;     // bytes of `stored`
    std::span<std::byte> raw;
    std::span<std::byte> plain;
    bool is_copy = false;  // read from one
    Status status;
  };
  // What copies are read from.
  struct CopyFile {
    size_t units = 0;  // that have not ended
    bool is_wrong = false;
    std::unique_ptr<BulkFile> file;
  };

  bool any_left() const { return next_ < units_.size() || !again_.empty(); }

  void fail(size_t number, Status status) {
    if (!failure_.ok() && failed_at_ <= number) return;
    failure_ = std::move(status);
    failed_at_ = number;
  }

  // False where it has to wait for a buffer.
  bool begin_next() {
    const bool again = !again_.empty();
    const size_t number = again ? again_.back() : next_;
    Result<std::unique_ptr<Part>> ready = prepare(number);
    if (!ready.ok()) {
      fail(number, ready.status());
      return false;
    }
    if (ready.value() == nullptr) return false;
    if (again) {
      again_.pop_back();
    } else {
      ++next_;
    }
    ++under_way_;
    start_thread_if_needed();
    read(ready.value().release());
    return true;
  }

  void read(Part* part) {
    const Unit& unit = *part->unit;
    BulkFile* file = segments_[unit.segment].file.get();
    uint64_t from = unit.begin;
    std::span<std::byte> to = part->raw;
    if (part->is_copy) {
      // Whole pages may begin before what the copy has, and end behind it: in its header, and not
      // at all.
      const uint64_t end = std::min(unit.end, unit.copy->base + unit.copy->bytes);
      file = copies_.at(unit.copy).file.get();
      from = kSegmentHeaderBytes + unit.begin - unit.copy->base;
      to = to.first(end - unit.begin);
    }
    file->read(from, to, [this, part](const Status& status) {
      part->status = status;
      const std::lock_guard lock(mutex_);
      arrived_.emplace_back(part);
      // Under the lock: then all of this may go.
      arrived_changed_.notify_one();
      checked_changed_.notify_one();
    });
  }

  // With all that it needs; null where no buffer is free.
  Result<std::unique_ptr<Part>> prepare(size_t number) {
    const Unit& unit = units_[number];
    const bool is_copy = open_copy_of(number);
    if (!is_copy) {
      if (Status open = open_segment_of(unit); !open.ok()) return open;
    }
    std::unique_ptr<Part> part = spare_part();
    part->is_copy = is_copy;
    part->unit = &unit;
    part->number = number;
    const uint64_t raw = unit.end - unit.begin;
    const uint64_t plain = unit.is_block() ? unit.items.front().extent->block_bytes : raw;
    Result<std::byte*> room = room_for(*part, plain);
    if (!room.ok()) return room.status();
    if (room.value() == nullptr) {
      spare_.push_back(std::move(part));
      return std::unique_ptr<Part>();
    }
    part->plain = {room.value(), plain};
    part->raw = part->plain;
    if (!unit.is_block()) return part;
    if (part->stored_room < raw) {
      Result<Memory> memory = allocate(raw);
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

  Result<std::byte*> room_for(Part& part, uint64_t bytes) {
    if (bytes <= buffers_.bytes()) {
      Result<std::byte*> buffer = buffers_.take(under_way_ == 0);
      if (buffer.ok()) part.buffer = buffer.value();
      return buffer;
    }
    Result<Memory> memory = allocate(bytes);
    if (!memory.ok()) return memory.status();
    part.own = std::move(memory.value());
    return part.own.get();
  }

  void give_back(Part& part) {
    if (part.buffer != nullptr) buffers_.give_back(std::exchange(part.buffer, nullptr));
    part.own.reset();
  }

  std::unique_ptr<Part> spare_part() {
    if (spare_.empty()) return std::make_unique<Part>();
    std::unique_ptr<Part> part = std::move(spare_.back());
    spare_.pop_back();
    part->status = {};
    return part;
  }

  bool open_copy_of(size_t number) {
    const Unit& unit = units_[number];
    if (unit.copy == nullptr || from_store_[number]) return false;
    CopyFile& copy = copies_.at(unit.copy);
    if (copy.is_wrong || copy.file != nullptr) return !copy.is_wrong;
    Result<std::unique_ptr<BulkFile>> file = files_.open_bulk(unit.copy->path);
    copy.is_wrong = !file.ok();
    if (file.ok()) copy.file = std::move(file.value());
    return file.ok();
  }

  Status open_segment_of(const Unit& unit) {
    Segment& segment = segments_[unit.segment];
    if (segment.file != nullptr) return {};
    Result<std::unique_ptr<BulkFile>> file = files_.open_bulk(segment.path());
    if (!file.ok()) return file.status();
    segment.file = std::move(file.value());
    return check_segment_size(segment.file->size(), segment.path(),
                              segment.manifest->segments[segment.index]);
  }

  void start_thread_if_needed() {
    if (threads_.size() >= std::min<size_t>(options_.threads, under_way_)) return;
    Result<Join> thread = start_thread(options_.spawn, "reader", [this] { work(); });
    if (thread.ok()) threads_.push_back(std::move(thread.value()));
  }

  void work() {
    Checker checker(job_);
    std::unique_lock lock(mutex_);
    for (;;) {
      arrived_changed_.wait(lock, [this] { return ended_ || !arrived_.empty(); });
      if (arrived_.empty()) return;
      check_one(lock, checker);
    }
  }

  // Lets the lock go meanwhile.
  void check_one(std::unique_lock<std::mutex>& lock, Checker& checker) {
    std::unique_ptr<Part> part = std::move(arrived_.front());
    arrived_.erase(arrived_.begin());
    lock.unlock();
    if (part->status.ok()) {
      const Unit& unit = *part->unit;
      part->status = checker.check(segments_[unit.segment], unit, part->raw, part->plain);
    }
    lock.lock();
    checked_.push_back(std::move(part));
    checked_changed_.notify_one();
  }

  // Where there is no thread, this one checks.
  std::unique_ptr<Part> wait_checked() {
    std::unique_lock lock(mutex_);
    for (;;) {
      checked_changed_.wait(
          lock, [this] { return !checked_.empty() || (threads_.empty() && !arrived_.empty()); });
      if (checked_.empty()) check_one(lock, own_checker_);
      std::unique_ptr<Part> part = std::move(checked_.front());
      checked_.erase(checked_.begin());
      return part;
    }
  }

  void use(Part& part, const TakePieces& take, const std::function<void(uint64_t)>& advance) {
    if (!part.status.ok()) return fail(part.number, part.status);
    if (near_ != nullptr) {
      (part.is_copy ? near_->counts.near : near_->counts.store) += part.unit->bytes;
    }
    if (advance) advance(part.unit->bytes);
    if (!take) return;
    const std::vector<Item>& items = part.unit->items;
    for (size_t next = 0; next < items.size() && failure_.ok();) {
      next = gather(*part.unit, next);
      Status taken = take(gathered_, part.plain);
      if (!taken.ok()) fail(part.number, std::move(taken));
    }
  }

  // Its copy is not right: it is read again, from where it belongs.
  void pass_over(std::unique_ptr<Part> part) {
    copies_.at(part->unit->copy).is_wrong = true;
    near_->counts.passed_over += part->unit->bytes;
    from_store_[part->number] = true;
    again_.push_back(part->number);
    give_back(*part);
    --under_way_;
    spare_.push_back(std::move(part));
  }

  // The pieces of an item and of those behind it as far as they are of the same range, neighbours
  // as one: who takes them has as little to do as there can be. The first item behind these.
  size_t gather(const Unit& unit, size_t next) {
    gathered_.clear();
    const uint32_t range = unit.items[next].pieces.front().range;
    for (; next < unit.items.size() && unit.items[next].pieces.front().range == range; ++next) {
      const Item& item = unit.items[next];
      for (const PlacedExtent& placed : item.pieces) {
        const uint64_t from = std::max(placed.within, item.from);
        const uint64_t size = std::min(placed.within + placed.size, item.from + item.size) - from;
        const uint64_t offset = placed.offset + (from - placed.within);
        const uint64_t at = Checker::place_of(unit, *item.extent, from);
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

  void end(std::unique_ptr<Part> part) {
    give_back(*part);
    --under_way_;
    Segment& segment = segments_[part->unit->segment];
    if (--segment.units == 0) segment.file.reset();
    if (part->unit->copy != nullptr) {
      CopyFile& copy = copies_.at(part->unit->copy);
      if (--copy.units == 0) copy.file.reset();
    }
    spare_.push_back(std::move(part));
  }

  FileSystem& files_;
  const JobPlace& job_;
  const PartReaderOptions& options_;
  ReadBuffers& buffers_;
  // The caller's thread's.
  size_t next_ = 0;  // unit
  size_t under_way_ = 0;
  Status failure_;  // of the unit failed_at_
  size_t failed_at_ = 0;
  std::vector<std::unique_ptr<Part>> spare_;
  std::vector<ReadPiece> gathered_;
  Checker own_checker_{job_};
  std::vector<Join> threads_;

  std::mutex mutex_;
  std::condition_variable arrived_changed_;
  std::condition_variable checked_changed_;
  std::vector<std::unique_ptr<Part>> arrived_;
  std::vector<std::unique_ptr<Part>> checked_;
  bool ended_ = false;
  NearChunks* const near_;
  std::vector<Segment> segments_;
  const std::vector<Unit> units_;
  std::vector<bool> from_store_;  // by unit: although there is a copy
  std::vector<size_t> again_;     // units whose copies were not right
  std::map<const NearChunk*, CopyFile> copies_;
};

Segment segment_of(const JobPlace& job, const Manifest& manifest, uint32_t index) {
  Segment segment;
  segment.manifest = &manifest;
  segment.index = index;
  segment.folder = job.folder + "/" + epoch_folder(manifest.epoch);
  segment.size = manifest.segments[index].size;
  return segment;
}

}  // namespace

PlainReadBuffers::~PlainReadBuffers() {
  for (std::byte* buffer : all_) std::free(buffer);
}

Result<std::byte*> PlainReadBuffers::take(bool) {
  if (!free_.empty()) {
    std::byte* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  if (all_.size() >= most_) return nullptr;
  free_.reserve(all_.size() + 1);  // so that giving back does not allocate
  all_.reserve(all_.size() + 1);
  Result<Memory> made = allocate(kBytes);
  if (!made.ok()) return made.status();
  all_.push_back(made.value().release());
  return all_.back();
}

void PlainReadBuffers::give_back(std::byte* buffer) {
  free_.push_back(buffer);
}

Status read_pieces(FileSystem& files, const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, const PartReaderOptions& options,
                   ReadBuffers& buffers, const TakePieces& take, NearChunks* near) {
  std::vector<Segment> segments;
  Plan plan(segments, buffers.bytes(), near);
  for (size_t i = 0; i < pieces.size();) {
    const std::span<const PlacedExtent> same = leading_extent(pieces.subspan(i));
    const Manifest& member = chain[same.front().member];
    const Extent& extent = member.extents[same.front().extent];
    if (segments.empty() || segments.back().manifest != &member ||
        segments.back().index != extent.segment) {
      plan.begin_segment(segment_of(job, member, extent.segment));
    }
    for_each_item(extent, same, [&](const Item& item) { plan.add(item); });
    i += same.size();
  }
  std::vector<Unit> units = plan.take();
  return Reading(files, job, options, buffers, std::move(segments), std::move(units), near)
      .run(take, {});
}

Status check_segment(FileSystem& files, const JobPlace& job, const Manifest& manifest,
                     uint32_t segment, const PartReaderOptions& options, ReadBuffers& buffers,
                     const std::function<void(uint64_t bytes)>& advance) {
  std::vector<const Extent*> extents;
  for (const Extent& extent : manifest.extents) {
    if (extent.segment == segment) extents.push_back(&extent);
  }
  std::sort(extents.begin(), extents.end(), [](const Extent* a, const Extent* b) {
    return std::pair(a->segment_offset, a->within) < std::pair(b->segment_offset, b->within);
  });
  std::vector<Segment> segments;
  Plan plan(segments, buffers.bytes());
  plan.begin_segment(segment_of(job, manifest, segment));
  const uint64_t size = manifest.segments[segment].size;
  uint64_t at = kSegmentHeaderUsedBytes;
  for (const Extent* extent : extents) {
    plan.add_padding(at, std::min(extent->segment_offset, size));
    for_each_item(*extent, {}, [&](const Item& item) { plan.add(item); });
    at = std::max(at, extent->segment_offset + extent->stored());
  }
  plan.add_padding(at, size);
  std::vector<Unit> units = plan.take();
  return Reading(files, job, options, buffers, std::move(segments), std::move(units))
      .run({}, advance);
}

}  // namespace gpusnap
