// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <type_traits>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>

#include "tiers/checksum.h"
#include "tiers/no_throw.h"
#include "tiers/staging/pages.h"
#include "tiers/staging/process_identity.h"

namespace gpusnap {

namespace {

namespace ipc = boost::interprocess;

// Every entry begins as zeros.
static_assert(std::is_trivially_destructible_v<PoolHeader>);
static_assert(std::is_trivially_destructible_v<StreamEntry>);
static_assert(std::is_trivially_destructible_v<TicketEntry>);

Status failed(const char* what, const std::string& name, int error) {
  const Code code = error == ENOSPC || error == ENOMEM  ? Code::kNoSpace
                    : error == EACCES || error == EPERM ? Code::kPermission
                                                        : Code::kIo;
  return {code, std::string("cannot ") + what + " the shared memory " + name + ": " +
                    std::strerror(error)};
}

PoolLayout layout_for(const StagingSize& size) {
  const uint64_t slots = std::clamp<uint64_t>(size.bytes / size.slot_bytes, 2, 1U << 24);
  return {static_cast<uint32_t>(slots), size.slot_bytes};
}

// Addresses from an AddressSpace, if there is one; at a multiple of a large page.
class Place {
 public:
  explicit Place(AddressSpace* space) : space_(space) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (taken_ != nullptr) space_->give_back(taken_, taken_bytes_);
  }

  // Null: the system chooses.
  Result<std::byte*> take(uint64_t bytes) {
    if (space_ == nullptr) return static_cast<std::byte*>(nullptr);
    taken_bytes_ = bytes + PoolLayout::kLargePage;
    taken_ = space_->take(taken_bytes_);
    if (taken_ == nullptr) return no_addresses();
    const auto at = reinterpret_cast<uintptr_t>(taken_);
    return taken_ + (PoolLayout::kLargePage - at % PoolLayout::kLargePage);
  }
  static Status no_addresses() {
    return {Code::kNoSpace, "no address space for staging: lower GPUSNAP_HOST_CACHE"};
  }

 private:
  AddressSpace* const space_;
  std::byte* taken_ = nullptr;
  uint64_t taken_bytes_ = 0;
};

// Asks for large pages, and keeps the programs' device memory out of core dumps.
void advise(void* start, uint64_t bytes) {
  (void)::madvise(start, bytes, MADV_HUGEPAGE);
  (void)::madvise(start, bytes, MADV_DONTDUMP);
}

// Allocates and clears pages that are not in use yet: by one call, or one by one. Returns false if
// the system has no memory for them.
bool touch_pages(std::byte* start, uint64_t bytes) {
  const Status made = populate_pages(start, bytes);
  if (made.code() != Code::kUnsupported) return made.ok();
  // Writes: reading would map the shared page of zeros.
  constexpr uint64_t kPageBytes = 4096;
  for (uint64_t at = 0; at < bytes; at += kPageBytes) {
    std::atomic_ref<std::byte>(start[at]).store(std::byte{}, std::memory_order_relaxed);
  }
  return true;
}

class PrivateMemory final : public StagingMemory {
 public:
  explicit PrivateMemory(AddressSpace* space) : place_(space) {}

  Status map(const StagingSize& size) {
    const PoolLayout layout = layout_for(size);
    bytes_ = layout.end();
    const Result<std::byte*> at = place_.take(bytes_);
    if (!at.ok()) return at.status();
    void* start = ::mmap(
        at.value(), bytes_, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at.value() == nullptr ? 0 : MAP_FIXED), -1,
        0);
    if (start == MAP_FAILED) return Place::no_addresses();
    start_ = static_cast<std::byte*>(start);
    advise(start, bytes_);
    return make(start_, layout);
  }
  ~PrivateMemory() override {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }
  void remove() override {}

 private:
  bool back(uint64_t offset, uint64_t bytes) override {
    return touch_pages(start_ + offset, bytes);
  }

  Place place_;
  std::byte* start_ = nullptr;
  uint64_t bytes_ = 0;
};

constexpr auto kPatience = std::chrono::seconds(3);
constexpr auto kBetweenTries = std::chrono::milliseconds(5);

// Uses Boost.Interprocess, which throws: only called inside no_throw().
class SharedMemory final : public StagingMemory {
 public:
  explicit SharedMemory(std::string name, AddressSpace* space = nullptr)
      : name_(std::move(name)), space_(space) {}

  Status serve(const StagingSize& size) {
    using Steady = std::chrono::steady_clock;
    const Steady::time_point patience = Steady::now() + kPatience;
    for (;;) {
      if (Status opened = open(true); !opened.ok()) return opened;
      // Held until this process ends.
      if (::flock(file(), LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK) return failed("lock", name_, errno);
        // No server runs: the area is being made or removed, or its killed server is still ending a
        // write.
        if (Steady::now() >= patience || (take_over().ok() && is_served())) {
          return {Code::kBusy, "another process serves the shared memory " + name_};
        }
        std::this_thread::sleep_for(kBetweenTries);
        continue;
      }
      struct stat about {};
      if (::fstat(file(), &about) < 0) return failed("look at", name_, errno);
      if (about.st_nlink == 0) continue;  // its last server removed it between the two
      if (about.st_size == 0) return start_afresh(layout_for(size));
      if (take_over().ok() && header().closed.load(std::memory_order_seq_cst) == 0) return {};
      // Its server was killed while it made or removed the area, so that the area is empty. Other
      // processes may be reading it, so it is not shortened.
      (void)ipc::shared_memory_object::remove(name_.c_str());
    }
  }

  Status attach() {
    if (Status opened = open(false); !opened.ok()) return opened;
    if (Status taken = take_over(); !taken.ok()) return taken;
    if (header().closed.load(std::memory_order_seq_cst) == 0) return {};
    return {Code::kNotFound, "the shared memory " + name_ + " has been closed"};
  }

  // The name may belong to another area by now, if another process removed this one.
  void remove() override {
    header().closed.store(1, std::memory_order_seq_cst);
    (void)ipc::shared_memory_object::remove(name_.c_str());
  }

 private:
  int file() const { return object_.get_mapping_handle().handle; }

  Status open(bool make) {
    try {
      const ipc::permissions own(0600);
      object_ =
          make ? ipc::shared_memory_object(ipc::open_or_create, name_.c_str(), ipc::read_write, own)
               : ipc::shared_memory_object(ipc::open_only, name_.c_str(), ipc::read_write);
    } catch (const ipc::interprocess_exception& error) {
      if (error.get_error_code() == ipc::not_found_error) {
        return {Code::kNotFound, "there is no shared memory " + name_};
      }
      return failed("open", name_, error.get_native_error());
    }
    (void)::fcntl(file(), F_SETFD, FD_CLOEXEC);
    struct stat about {};
    if (::fstat(file(), &about) < 0) return failed("look at", name_, errno);
    if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
      return {Code::kPermission, "the shared memory " + name_ +
                                     " can be used by others: ask them to remove it, or set "
                                     "GPUSNAP_BACKEND=thread"};
    }
    return {};
  }

  // Takes over an existing complete area.
  Status take_over() {
    struct stat about {};
    if (::fstat(file(), &about) < 0) return failed("look at", name_, errno);
    const auto bytes = static_cast<uint64_t>(about.st_size);
    if (bytes < sizeof(PoolHeader)) return {Code::kNotFound, name_ + " is not ready"};
    if (Status mapped = map(bytes); !mapped.ok()) return mapped;
    return adopt(start(), bytes);
  }

  Status map(uint64_t bytes) {
    region_ = {};
    place_.emplace(space_);
    const Result<std::byte*> at = place_->take(bytes);
    if (!at.ok()) return at.status();
    region_ =
        ipc::mapped_region(object_, ipc::read_write, 0, bytes, at.value(),
                           at.value() == nullptr ? ipc::default_map_options
                                                 : ipc::map_options_t{MAP_SHARED | MAP_FIXED});
    advise(region_.get_address(), bytes);
    return {};
  }

  Status start_afresh(const PoolLayout& layout) {
    if (::ftruncate(file(), static_cast<off_t>(layout.end())) < 0) {
      return failed("size", name_, errno);
    }
    if (!reserve(0, layout.bytes_at())) {
      return {Code::kNoSpace,
              "/dev/shm has no room for " + name_ + ": free some, or set GPUSNAP_BACKEND=thread"};
    }
    if (Status mapped = map(layout.end()); !mapped.ok()) return mapped;
    return make(start(), layout);
  }

  // Reserves the memory first: without that, touching a page for which there is no room raises a
  // signal. Then clears the pages, which the reservation does not do.
  bool back(uint64_t offset, uint64_t bytes) override {
    return reserve(offset, bytes) && touch_pages(start() + offset, bytes);
  }
  bool reserve(uint64_t offset, uint64_t bytes) {
    int error = 0;
    do error = ::posix_fallocate(file(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
    while (error == EINTR);
    return error == 0;
  }
  std::byte* start() const { return static_cast<std::byte*>(region_.get_address()); }

  const std::string name_;
  AddressSpace* const space_;
  ipc::shared_memory_object object_;
  std::optional<Place> place_;  // outlives the region that lies in it
  ipc::mapped_region region_;
};

}  // namespace

Result<std::unique_ptr<StagingMemory>> StagingMemory::make_private(const StagingSize& size,
                                                                   AddressSpace* space) {
  return no_throw("make staging memory", [&]() -> Result<std::unique_ptr<StagingMemory>> {
    auto memory = std::make_unique<PrivateMemory>(space);
    if (Status mapped = memory->map(size); !mapped.ok()) return mapped;
    return std::unique_ptr<StagingMemory>(std::move(memory));
  });
}

Result<std::unique_ptr<StagingMemory>> StagingMemory::serve(const std::string& name,
                                                            const StagingSize& size) {
  return no_throw("make shared memory", [&]() -> Result<std::unique_ptr<StagingMemory>> {
    auto memory = std::make_unique<SharedMemory>(name);
    if (Status served = memory->serve(size); !served.ok()) return served;
    return std::unique_ptr<StagingMemory>(std::move(memory));
  });
}

Result<std::unique_ptr<StagingMemory>> StagingMemory::attach(const std::string& name,
                                                             AddressSpace* space) {
  return no_throw("open shared memory", [&]() -> Result<std::unique_ptr<StagingMemory>> {
    auto memory = std::make_unique<SharedMemory>(name, space);
    if (Status attached = memory->attach(); !attached.ok()) return attached;
    return std::unique_ptr<StagingMemory>(std::move(memory));
  });
}

bool StagingMemory::exists(const std::string& name) {
  const int file = ::shm_open(name.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (file >= 0) ::close(file);
  return file >= 0;
}

bool StagingMemory::is_served() const {
  const uint32_t pid = header().server.load(std::memory_order_acquire);
  return !is_ending({pid, header().server_started.load(std::memory_order_relaxed)});
}

std::string StagingMemory::name_for(const std::string& node) {
  // Processes that cannot see each other's numbers cannot tell whether the others are alive.
  const std::string apart = node + "/" + std::to_string(pid_namespace());
  const uint64_t hash = checksum(std::as_bytes(std::span(apart)));
  char name[96];
  std::snprintf(name, sizeof name, "gpusnap-%u-%u-%016llx", static_cast<unsigned>(::geteuid()),
                kStagingVersion, static_cast<unsigned long long>(hash));
  return name;
}

Status StagingMemory::make(std::byte* start, const PoolLayout& layout) {
  start_ = start;
  layout_ = layout;
  auto* header = new (start) PoolHeader;
  header->version = kStagingVersion;
  header->slots = layout.slots;
  header->slot_bytes = layout.slot_bytes;
  header->bytes = layout.end();
  header->magic.store(kStagingMagic, std::memory_order_release);
  return {};
}

Status StagingMemory::adopt(std::byte* start, uint64_t mapped_bytes) {
  const auto* header = reinterpret_cast<const PoolHeader*>(start);
  if (header->magic.load(std::memory_order_acquire) != kStagingMagic) {
    return {Code::kNotFound, "the shared memory is not ready"};
  }
  const PoolLayout layout{header->slots, header->slot_bytes};
  const bool sane = header->version == kStagingVersion && layout.slots >= 2 &&
                    layout.slots <= 1U << 24 && layout.slot_bytes >= kSmallestZone &&
                    layout.slot_bytes <= 1U << 30 && layout.slot_bytes % kSmallestZone == 0 &&
                    layout.end() == header->bytes && header->bytes == mapped_bytes &&
                    header->backed.load() <= layout.slots;
  if (!sane) return {Code::kInvalid, "the shared memory is none of ours"};
  start_ = start;
  layout_ = layout;
  return {};
}

bool StagingMemory::touch(uint32_t slot) {
  return back(layout_.bytes_at() + slot * layout_.slot_bytes, layout_.slot_bytes);
}

void StagingMemory::publish(uint32_t slots, bool all) {
  PoolHeader& head = header();
  const bool grown = head.backed.exchange(slots, std::memory_order_acq_rel) != slots;
  if (all) head.refused.store(1, std::memory_order_release);
  if (grown) head.freed.ring();
}

uint32_t StagingMemory::grow(uint32_t more) {
  if (header().refused.load(std::memory_order_relaxed) != 0) return 0;
  const uint32_t before = backed();
  uint32_t slots = before;
  bool there = true;
  while (slots - before < more && slots < layout_.slots && (there = touch(slots))) ++slots;
  publish(slots, !there);
  return slots - before;
}

void StagingMemory::map_ahead(uint32_t first, uint32_t count) {
  (void)populate_pages(bytes(first).data(), count * layout_.slot_bytes);
}

}  // namespace gpusnap
