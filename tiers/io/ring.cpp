// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/ring.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "tiers/io/system_call.h"

namespace gpusnap {

namespace {

constexpr size_t kPage = 4096;
// Newer than the headers of the distributions: the kernel uses the memory whose addresses stand
// where these headers still say resv2.
constexpr unsigned kSetupNoMmap = 1U << 14;
// Reads and writes at an offset without a vector (5.6), completions that are never lost, one
// mapping of both rings, and polling inside the kernel (5.7).
constexpr unsigned kNeeded =
    IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS | IORING_FEAT_FAST_POLL;

// The kernel takes a ring apart some time after it was closed, and writes its counters once more
// then: to the physical pages that it knows. These must not be anybody else's by that time, so they
// are given up before the address goes back.
class Page {
 public:
  Page() : bytes_(::operator new (kPage, std::align_val_t{kPage})) {
    std::memset(bytes_, 0, kPage);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    // Fails where the process locks all its memory. Then this page is lost.
    if (::madvise(bytes_, kPage, MADV_DONTNEED) != 0) return;
    ::operator delete (bytes_, std::align_val_t{kPage});
  }
  void* get() const { return bytes_; }

 private:
  void* bytes_;
};

class Mapping {
 public:
  Mapping(int fd, size_t bytes, off_t what)
      : bytes_(bytes),
        start_(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what)) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (valid()) ::munmap(start_, bytes_);
  }
  bool valid() const { return start_ != MAP_FAILED; }
  void* get() const { return start_; }

 private:
  size_t bytes_;
  void* start_;
};

int setup(unsigned entries, io_uring_params& parameters) {
  return static_cast<int>(::syscall(__NR_io_uring_setup, entries, &parameters));
}

// A word that the kernel reads or writes, too.
std::atomic_ref<uint32_t> word(void* ring, uint32_t offset) {
  return std::atomic_ref(*reinterpret_cast<uint32_t*>(static_cast<std::byte*>(ring) + offset));
}

class SystemRing final : public Ring {
 public:
  bool open(unsigned entries, Memory memory) {
    parameters_.flags = 0;
    if (memory == Memory::kOurs) bring_memory();
    ring_.emplace(setup(entries, parameters_));
    if (!ring_->valid() || (parameters_.features & kNeeded) != kNeeded) return false;
    ::fcntl(ring_->get(), F_SETFD, FD_CLOEXEC);
    if (memory == Memory::kKernels && !map_memory()) return false;
    auto* array =
        reinterpret_cast<uint32_t*>(static_cast<std::byte*>(rings_) + parameters_.sq_off.array);
    for (uint32_t i = 0; i < parameters_.sq_entries; ++i) array[i] = i;
    return works();
  }

  void write(int fd, uint64_t offset, const std::byte* data, uint32_t size, uint64_t tag) override {
    put({IORING_OP_WRITE, fd, offset, reinterpret_cast<uint64_t>(data), size, tag});
  }
  void read(int fd, uint64_t offset, std::byte* data, uint32_t size, uint64_t tag) override {
    put({IORING_OP_READ, fd, offset, reinterpret_cast<uint64_t>(data), size, tag});
  }
  void wait_readable(int fd, uint64_t tag) override { put({IORING_OP_POLL_ADD, fd, 0, 0, 0, tag}); }

  int submit_and_wait() override {
    const auto taken = ::syscall(__NR_io_uring_enter, ring_->get(), tail_ - head(), 1,
                                 IORING_ENTER_GETEVENTS, nullptr, 0);
    return taken < 0 ? errno : 0;
  }

  void reap(const Ended& ended) override {
    const auto first = word(rings_, parameters_.cq_off.head);
    const auto last = word(rings_, parameters_.cq_off.tail);
    auto* events =
        reinterpret_cast<io_uring_cqe*>(static_cast<std::byte*>(rings_) + parameters_.cq_off.cqes);
    for (uint32_t at = first.load(std::memory_order_relaxed);
         at != last.load(std::memory_order_acquire);) {
      const io_uring_cqe& event = events[at & (parameters_.cq_entries - 1)];
      const uint64_t tag = event.user_data;
      const int32_t result = event.res;
      first.store(++at, std::memory_order_release);  // its place may be used again
      ended(tag, result);
    }
  }

  void take_back(const std::function<void(uint64_t tag)>& taken) override {
    for (uint32_t at = head(); at != tail_; ++at) taken(entry(at).user_data);
    tail_ = head();
    word(rings_, parameters_.sq_off.tail).store(tail_, std::memory_order_release);
  }

 private:
  struct Request {
    uint8_t operation;
    int fd;
    uint64_t offset;
    uint64_t address;
    uint32_t size;
    uint64_t tag;
  };

  void bring_memory() {
    ours_[0].emplace();
    ours_[1].emplace();
    rings_ = ours_[0]->get();
    entries_ = static_cast<io_uring_sqe*>(ours_[1]->get());
    parameters_.flags |= kSetupNoMmap;
    parameters_.cq_off.resv2 = reinterpret_cast<uint64_t>(rings_);
    parameters_.sq_off.resv2 = reinterpret_cast<uint64_t>(entries_);
  }

  bool map_memory() {
    const size_t requests = parameters_.sq_off.array + parameters_.sq_entries * sizeof(uint32_t);
    const size_t events = parameters_.cq_off.cqes + parameters_.cq_entries * sizeof(io_uring_cqe);
    kernels_[0].emplace(ring_->get(), std::max(requests, events), IORING_OFF_SQ_RING);
    kernels_[1].emplace(ring_->get(), parameters_.sq_entries * sizeof(io_uring_sqe),
                        IORING_OFF_SQES);
    rings_ = kernels_[0]->get();
    entries_ = static_cast<io_uring_sqe*>(kernels_[1]->get());
    return kernels_[0]->valid() && kernels_[1]->valid();
  }

  // Where io_uring may be set up but not used, this is the time to learn it.
  bool works() {
    put({IORING_OP_NOP, -1, 0, 0, 0, 1});
    int error = submit_and_wait();
    while (error == EINTR) error = submit_and_wait();
    bool came = false;
    reap([&](uint64_t, int32_t result) { came = result == 0; });
    return error == 0 && came;
  }

  uint32_t head() { return word(rings_, parameters_.sq_off.head).load(std::memory_order_acquire); }
  io_uring_sqe& entry(uint32_t at) { return entries_[at & (parameters_.sq_entries - 1)]; }

  void put(const Request& request) {
    io_uring_sqe& place = entry(tail_);
    place = {};
    place.opcode = request.operation;
    place.fd = request.fd;
    place.off = request.offset;
    place.addr = request.address;
    place.len = request.size;
    if (request.operation == IORING_OP_POLL_ADD) place.poll32_events = POLLIN;
    place.user_data = request.tag;
    word(rings_, parameters_.sq_off.tail).store(++tail_, std::memory_order_release);
  }

  io_uring_params parameters_{};
  // Freed after the ring is closed.
  std::array<std::optional<Page>, 2> ours_;
  std::array<std::optional<Mapping>, 2> kernels_;
  std::optional<Descriptor> ring_;
  void* rings_ = nullptr;
  io_uring_sqe* entries_ = nullptr;
  uint32_t tail_ = 0;  // of what was written down
};

}  // namespace

std::unique_ptr<Ring> Ring::make(unsigned entries, Memory memory) {
  auto ring = std::make_unique<SystemRing>();
  if (!ring->open(std::min(entries, kMostEntries), memory)) return nullptr;
  return ring;
}

}  // namespace gpusnap
