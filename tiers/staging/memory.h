// SPDX-License-Identifier: Apache-2.0
// The memory of a staging area: slots of fixed size, and tables of their owners (layout.h). It is
// shared by the processes of one user on one node, or private to one process.
//
// Slots are backed with memory one by one, from the first slot on. Access to a backed slot never
// causes SIGBUS. If the system has no room for all slots, there are fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tiers/staging/layout.h"
#include "tiers/status.h"

namespace gpusnap {

struct StagingSize {
  uint64_t slot_bytes = 4 << 20;  // a multiple of 4 KiB
  uint64_t bytes = 0;             // of all slots; at least two are made
};

// Hands out addresses for mappings. Thread-safe.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // Reserves addresses, whole pages, until they are given back. They are unmapped, or may be mapped
  // over. Null: none are left.
  virtual std::byte* take(size_t bytes) = 0;
  virtual void give_back(std::byte* start, size_t bytes) = 0;
};

// Thread-safe.
class StagingMemory {
 public:
  virtual ~StagingMemory() = default;  // unmaps it from this process; the area itself stays
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // Makes a private area. `space`, here and below: where it is mapped; outlives it. Null: anywhere.
  static Result<std::unique_ptr<StagingMemory>> make_private(const StagingSize& size,
                                                             AddressSpace* space = nullptr);
  // For the server: opens the area of that name, or makes it. Returns kBusy if another process
  // serves it; waits a while for a server that has been killed. An area that an earlier server left
  // keeps its content and size.
  static Result<std::unique_ptr<StagingMemory>> serve(const std::string& name,
                                                      const StagingSize& size);
  // For clients and observers. Returns kNotFound if there is no area, or if it has just been
  // closed.
  static Result<std::unique_ptr<StagingMemory>> attach(const std::string& name,
                                                       AddressSpace* space = nullptr);
  // Returns whether a file of that name exists, possibly an incomplete one of a server that was
  // killed while it made or closed the area.
  static bool exists(const std::string& name);

  // Returns the name of this user's area on this node. `node` tells nodes apart if their names do
  // not.
  static std::string name_for(const std::string& node);

  // Returns whether a server runs. Makes a system call.
  bool is_served() const;

  PoolHeader& header() { return *at<PoolHeader>(0); }
  const PoolHeader& header() const { return *at<PoolHeader>(0); }
  std::span<ClientEntry> clients() { return {at<ClientEntry>(layout_.clients_at()), kMostClients}; }
  std::span<StreamEntry> streams() { return {at<StreamEntry>(layout_.streams_at()), kMostStreams}; }
  std::span<TicketEntry> tickets() { return {at<TicketEntry>(layout_.tickets_at()), kMostTickets}; }
  std::span<SlotEntry> slots() { return {at<SlotEntry>(layout_.slots_at()), layout_.slots}; }
  std::span<Piece> pieces(uint32_t slot) {
    const uint64_t each = layout_.pieces_per_slot() * sizeof(Piece);
    return {at<Piece>(layout_.pieces_at() + slot * each), layout_.pieces_per_slot()};
  }
  std::span<std::byte> bytes(uint32_t slot) {
    return {at<std::byte>(layout_.bytes_at() + slot * layout_.slot_bytes), layout_.slot_bytes};
  }

  uint64_t data_bytes() const { return layout_.slots * layout_.slot_bytes; }  // of all slots

  // Returns the number of slots that are backed. Only they may be claimed.
  uint32_t backed() { return header().backed.load(std::memory_order_acquire); }
  // For the server: backs a slot after those with cleared memory and maps it here. Returns false if
  // the system has no room. Thread-safe for different slots.
  bool touch(uint32_t slot);
  // For the server: lets clients claim the first `backed` slots, which have been touched. `all`:
  // the system has no room for other slots.
  void publish(uint32_t backed, bool all);
  // For the server: touches and publishes up to `more` further slots in their order, and returns
  // their number. It is lower if the system has no room.
  uint32_t grow(uint32_t more);
  // Maps backed slots into this process, so that the first write to a page, or a driver that pins
  // the slots, finds them mapped. Does nothing if the system cannot do that.
  void map_ahead(uint32_t first, uint32_t count);
  // For the server, when no process uses the area any more: removes its name. The memory is freed
  // when the last process unmaps it.
  virtual void remove() = 0;

 protected:
  StagingMemory() = default;
  // Makes the system allocate the memory. Thread-safe for ranges that do not overlap.
  virtual bool back(uint64_t offset, uint64_t bytes) = 0;
  // Makes the header and the tables in memory of zeros.
  Status make(std::byte* start, const PoolLayout& layout);
  // Takes over an existing header. Returns kInvalid if it is not one of gpusnap.
  Status adopt(std::byte* start, uint64_t mapped_bytes);

 private:
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(start_ + offset);
  }

  std::byte* start_ = nullptr;
  PoolLayout layout_;
};

}  // namespace gpusnap
