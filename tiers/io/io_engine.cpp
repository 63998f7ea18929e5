// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/io_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tiers/mutex.h"

namespace gpusnap {

namespace {

constexpr unsigned kMostThreads = 64;
constexpr uint64_t kSmallestPiece = 64 << 10;
constexpr uint64_t kLargestPiece = 1 << 30;
// A request that a file cannot take at the moment is repeated for ten seconds.
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr int kMostNaps = 10'000;

IoOptions within_bounds(IoOptions options) {
  options.threads = std::clamp(options.threads, 1U, kMostThreads);
  // One place in the ring is for the wait for new work.
  options.depth = std::clamp(options.depth, 1U, Ring::kMostEntries - 1);
  options.piece_bytes =
      std::bit_floor(std::clamp<uint64_t>(options.piece_bytes, kSmallestPiece, kLargestPiece));
  return options;
}

bool refuses_direct(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}

}  // namespace

IoCalls system_io_calls() {
  return {::pwrite, ::pread};
}

IoEngine::IoEngine(IoOptions options)
    : options_(within_bounds(std::move(options))),
      owner_(::getpid()),
      wake_(options_.kind == IoKind::kUring ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1) {
  if (options_.kind == IoKind::kUring) start_ring();
  start_threads();
}

IoEngine::~IoEngine() {
  if (!usable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  if (ring_) {
    wake_ring();
    ring_thread_();
  }
  for (const Join& join : threads_) join();
}

bool IoEngine::usable() const {
  return ::getpid() == owner_;
}

void IoEngine::start_threads() {
  for (unsigned i = 0; i < options_.threads; ++i) {
    Result<Join> thread = start_thread(options_.spawn, "I/O", [this] { work(); });
    if (!thread.ok()) return;  // fewer threads are only slower
    threads_.push_back(std::move(thread.value()));
  }
}

void IoEngine::start(std::unique_ptr<IoTransfer>& transfer) {
  const uint64_t size = transfer->size_;
  const IoFile::Part direct = transfer->file_.direct_part(transfer->offset_, transfer->data_, size);
  Ranges past_cache;
  Ranges through_cache;
  const auto add = [&](uint64_t begin, uint64_t end, bool past) {
    if (begin < end)
      (past ? past_cache : through_cache).push_back({transfer.get(), begin, end, past});
  };
  add(0, direct.begin, false);
  add(direct.begin, direct.end, true);
  add(direct.end, size, false);

  IoTransfer* const started = transfer.release();
  ++begun_;
  if (size == 0) return settle({started, 0, 0, false}, {});
  const bool to_ring = ring_ != nullptr && !past_cache.empty();
  if (!to_ring) through_cache.splice(through_cache.end(), past_cache);
  {
    const MutexLock lock(mutex_);
    for_ring_.splice(for_ring_.end(), past_cache);
    if (!threads_.empty()) for_threads_.splice(for_threads_.end(), through_cache);
  }
  if (to_ring) wake_ring();
  if (!threads_.empty()) work_.notify_all();
  // Without threads the caller performs the pieces. The transfer may be gone after any of them: it
  // must not be used any more.
  for (const Range& range : through_cache) perform(range);
}

// Takes the next piece. Pieces end at multiples of their size in the file, as stripes do.
IoEngine::Range IoEngine::take_piece(Ranges& queue) {
  Range& range = queue.front();
  Range piece = range;
  const uint64_t start = range.transfer->offset_ + range.begin;
  const uint64_t piece_bytes =
      std::max<uint64_t>(options_.piece_bytes, range.transfer->file_.unit());
  piece.end = std::min(range.end, range.begin + piece_bytes - start % piece_bytes);
  range.begin = piece.end;
  if (range.size() == 0) queue.pop_front();
  most_pieces_in_flight_ = std::max(most_pieces_in_flight_, ++pieces_in_flight_);
  return piece;
}

void IoEngine::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    work_.wait(mutex_, [this]() REQUIRES(mutex_) { return stopping_ || !for_threads_.empty(); });
    if (for_threads_.empty()) return;
    const Range piece = take_piece(for_threads_);
    {
      const Unlocked unlocked(mutex_);
      perform(piece);
    }
    --pieces_in_flight_;
  }
}

// Also takes pieces that the ring had: the ring does not get them a second time.
void IoEngine::hand_to_threads(const Range& piece) {
  if (!threads_.empty()) {
    try {
      Ranges one{piece};
      const MutexLock lock(mutex_);
      for_threads_.splice(for_threads_.end(), one);
    } catch (const std::bad_alloc&) {
      return perform(piece);
    }
    work_.notify_one();
    return;
  }
  perform(piece);
}

void IoEngine::perform(const Range& piece) {
  Range rest = piece;
  IoOutcome outcome;
  if (!piece.transfer->failed_) move_bytes(rest, outcome);
  settle(piece, outcome);
}

// Transfers `rest` by blocking calls, as far as possible.
void IoEngine::move_bytes(Range& rest, IoOutcome& outcome) {
  IoTransfer& transfer = *rest.transfer;
  IoFile& file = transfer.file_;
  int naps = 0;
  while (rest.size() > 0) {
    const auto offset = static_cast<off_t>(transfer.offset_ + rest.begin);
    const int fd = rest.direct ? file.direct() : file.cached();
    std::byte* const data = transfer.data_ + rest.begin;
    const ssize_t result = transfer.writing_ ? options_.calls.write(fd, data, rest.size(), offset)
                                             : options_.calls.read(fd, data, rest.size(), offset);
    const int error = result < 0 ? errno : 0;
    if (error == EINTR) continue;
    if (error == EAGAIN && ++naps < kMostNaps) {
      std::this_thread::sleep_for(kNap);
      continue;
    }
    if (rest.direct && refuses_direct(error)) {
      file.give_up_direct();
      rest.direct = false;
      continue;
    }
    auto moved = static_cast<uint64_t>(std::max<ssize_t>(result, 0));
    if (rest.direct && error == 0) {
      // The rest would not be aligned. If nothing was moved, a transfer through the cache tells
      // why.
      moved -= moved % file.unit();
      if (moved == 0) {
        rest.direct = false;
        continue;
      }
    }
    if (error != 0 || moved == 0) {
      const bool ended = error == 0 && !transfer.writing_;
      outcome = {ended ? IoOutcome::Kind::kFileEnded : IoOutcome::Kind::kFailed,
                 error != 0 ? error : EIO, transfer.offset_ + rest.begin};
      return;
    }
    count(rest, moved);
    rest.begin += moved;
    if (rest.direct) continue;
    if (!transfer.writing_) {
      file.read_cached(static_cast<uint64_t>(offset), moved);
    } else if (const int late = file.wrote_cached(static_cast<uint64_t>(offset), moved);
               late != 0) {
      outcome = {IoOutcome::Kind::kFailed, late, 0};
      return;
    }
  }
}

void IoEngine::count(const Range& piece, uint64_t bytes) {
  (piece.transfer->writing_ ? bytes_written_ : bytes_read_) += bytes;
  if (piece.direct) bytes_direct_ += bytes;
}

// A piece, or what was left of it, is done with. Ends the transfer with its last piece.
void IoEngine::settle(const Range& piece, const IoOutcome& outcome) {
  IoTransfer* const transfer = piece.transfer;
  if (outcome.kind != IoOutcome::Kind::kOk) {
    const MutexLock lock(transfer->mutex_);
    if (!transfer->failed_.exchange(true)) transfer->outcome_ = outcome;
  }
  if (transfer->left_.fetch_sub(piece.size()) != piece.size()) return;
  // Nobody else has a piece of it any more: what the others wrote is seen through left_.
  const std::unique_ptr<IoTransfer> done(transfer);
  ++ended_;
  done->ended(done->outcome_);
}

IoStatistics IoEngine::statistics() const {
  const MutexLock lock(mutex_);
  IoStatistics statistics;
  statistics.bytes_written = bytes_written_;
  statistics.bytes_read = bytes_read_;
  statistics.bytes_direct = bytes_direct_;
  statistics.transfers_ended = ended_;
  statistics.transfers_in_flight = begun_ - statistics.transfers_ended;
  statistics.most_pieces_in_flight = most_pieces_in_flight_;
  return statistics;
}

// The one thread that uses the ring.
class IoEngine::RingLoop {
 public:
  explicit RingLoop(IoEngine& engine) : engine_(engine), slots_(engine.options_.depth) {
    for (unsigned i = 0; i < slots_.size(); ++i) free_.push_back(i);
  }

  void run() {
    while (fill()) {
      wait();
      engine_.ring_->reap([this](uint64_t tag, int32_t result) { ended(tag, result); });
    }
  }

 private:
  static constexpr uint64_t kWake = ~uint64_t{0};

  bool idle() const { return free_.size() == slots_.size(); }

  // Hands out what there is room for. False when nothing is left to do, ever: the ring is empty.
  bool fill() {
    Ranges for_threads;
    bool more = true;
    {
      const MutexLock lock(engine_.mutex_);
      Ranges& queue = engine_.for_ring_;
      while (!queue.empty()) {
        if (broken_ || queue.front().transfer->failed_) {
          for_threads.splice(for_threads.end(), queue, queue.begin());
          continue;
        }
        if (free_.empty()) break;
        const Range piece = engine_.take_piece(queue);
        slots_[free_.back()] = piece;
        write_down(piece, free_.back());
        free_.pop_back();
      }
      if (!watching_ && !broken_ && !engine_.stopping_) {
        engine_.ring_->wait_readable(engine_.wake_.get(), kWake);
        watching_ = true;
      }
      more = !engine_.stopping_ || !idle() || watching_;
    }
    for (const Range& range : for_threads) engine_.hand_to_threads(range);
    return more;
  }

  void write_down(const Range& piece, unsigned slot) {
    IoTransfer& transfer = *piece.transfer;
    const int fd = transfer.file_.direct();
    const uint64_t offset = transfer.offset_ + piece.begin;
    std::byte* const data = transfer.data_ + piece.begin;
    const auto size = static_cast<uint32_t>(piece.size());
    if (transfer.writing_) {
      engine_.ring_->write(fd, offset, data, size, slot);
    } else {
      engine_.ring_->read(fd, offset, data, size, slot);
    }
  }

  void wait() {
    if (broken_) return wait_without_ring();
    const int error = engine_.ring_->submit_and_wait();
    if (error == 0 || error == EINTR) return;
    std::this_thread::sleep_for(kNap);
    if (error == EAGAIN || error == EBUSY) return;
    // The program has forbidden the call meanwhile. Pieces that the kernel has not taken go to the
    // threads. Pieces that it has taken still end, and their ends are seen without a call.
    broken_ = true;
    engine_.ring_->take_back([this](uint64_t tag) { ended(tag, -ECANCELED); });
  }

  void wait_without_ring() {
    if (idle()) {
      pollfd wake{engine_.wake_.get(), POLLIN, 0};
      ::poll(&wake, 1, -1);
      if (!watching_) drain_wake();
    }
    std::this_thread::sleep_for(kNap);
  }

  void drain_wake() {
    uint64_t count = 0;
    (void)!::read(engine_.wake_.get(), &count, sizeof count);
  }

  // A thread does what the ring could not do, or not to its end: the thread's result decides about
  // an error.
  void ended(uint64_t tag, int32_t result) {
    if (tag == kWake) {
      drain_wake();
      watching_ = false;
      return;
    }
    const auto slot = static_cast<unsigned>(tag);
    const Range piece = slots_[slot];
    free_.push_back(slot);
    {
      const MutexLock lock(engine_.mutex_);
      --engine_.pieces_in_flight_;
    }
    auto moved = static_cast<uint64_t>(std::max(result, 0));
    moved -= moved % piece.transfer->file_.unit();
    engine_.count(piece, moved);
    const Range done{piece.transfer, piece.begin, piece.begin + moved, true};
    const Range rest{piece.transfer, done.end, piece.end, true};
    const bool whole = rest.size() == 0;
    // With the rest outstanding, the transfer stays.
    if (done.size() > 0) engine_.settle(done, {});
    if (!whole) engine_.hand_to_threads(rest);
  }

  IoEngine& engine_;
  std::vector<Range> slots_;
  std::vector<unsigned> free_;
  bool watching_ = false;
  bool broken_ = false;
};

void IoEngine::start_ring() {
  if (!wake_.valid()) return;
  ring_ = Ring::make(options_.depth + 1, Ring::Memory::kOurs);
  if (!ring_) ring_ = Ring::make(options_.depth + 1, Ring::Memory::kKernels);
  if (!ring_) return;
  ring_loop_ = std::make_unique<RingLoop>(*this);
  Result<Join> thread = start_thread(options_.spawn, "I/O", [this] { ring_loop_->run(); });
  if (!thread.ok()) return ring_.reset();
  ring_thread_ = std::move(thread.value());
}

void IoEngine::wake_ring() const {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

namespace {

struct Shared {
  Mutex mutex;
  IoOptions options GUARDED_BY(mutex);
  IoEngine* engine GUARDED_BY(mutex) = nullptr;
};

Shared& shared() {
  static auto* shared = new Shared;  // outlives everything
  return *shared;
}

}  // namespace

void set_shared_io_options(IoOptions options) {
  const MutexLock lock(shared().mutex);
  shared().options = std::move(options);
}

IoEngine& shared_io_engine() {
  const MutexLock lock(shared().mutex);
  if (shared().engine == nullptr) shared().engine = new IoEngine(shared().options);
  return *shared().engine;
}

}  // namespace gpusnap
