// The memory of a staging area: shared by the processes of one user on one node, or one process's
// own. Fixed slots and the tables that say whose they are (layout.h).
//
// It is backed as it grows, from its first slot on: what counts as backed is never the reason for
// SIGBUS. Where the system has no room for all of it there are fewer slots.
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

// Addresses for who cares where things are mapped. Thread-safe.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  // Nobody else's until they are given back; nothing is there, or what may be mapped over. Null:
  // there are none left. Whole pages.
  virtual std::byte* take(size_t bytes) = 0;
  virtual void give_back(std::byte* start, size_t bytes) = 0;
};

// Thread-safe.
class StagingMemory {
 public:
  virtual ~StagingMemory() = default;  // of this process's mapping; the area itself stays
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // One process's own. In `space`, which outlives it, or anywhere; likewise below.
  static Result<std::unique_ptr<StagingMemory>> make_private(const StagingSize& size,
                                                             AddressSpace* space = nullptr);
  // For the server: the area of that name, made if need be. One process at a time serves it: kBusy
  // if another one does. Waits a while for one that has been killed. The area that an earlier
  // server left keeps its content and size.
  static Result<std::unique_ptr<StagingMemory>> serve(const std::string& name,
                                                      const StagingSize& size);
  // For clients, and for looking. kNotFound where there is none, or where it has just been closed.
  static Result<std::unique_ptr<StagingMemory>> attach(const std::string& name,
                                                       AddressSpace* space = nullptr);
  // Whether there is anything of that name, also what a server that was killed while it made or
  // closed it has left.
  static bool exists(const std::string& name);

  // Returns the name of this user's area on this node. `node` tells nodes apart if their names do
  // not.
  static std::string name_for(const std::string& node);

  // Whether there is a server that runs. A look at the system: now and then.
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
  // The server: makes the memory of a slot beyond those be there, cleared and mapped here; false:
  // the system has no room. By several threads at the same time, each with slots of its own.
  bool touch(uint32_t slot);
  // The server: so many leading slots have been touched and may be claimed; `all`: the system has
  // no room for others.
  void publish(uint32_t backed, bool all);
  // The server: touches and publishes up to `more` further slots, in their order; how many it got.
  // Fewer once the system has no room.
  uint32_t grow(uint32_t more);
  // Maps slots that are backed into this process, so that the first write to each page of theirs,
  // or a driver that pins them, need not do it. Where the system cannot do that, they do.
  void map_ahead(uint32_t first, uint32_t count);
  // The server, when nobody uses it any more: its name is free again, and its memory with the last
  // process that has it mapped.
  virtual void remove() = 0;

 protected:
  StagingMemory() = default;
  // The system's promise that memory is there. Thread-safe, for ranges that do not overlap.
  virtual bool back(uint64_t offset, uint64_t bytes) = 0;
  // `start`: zeros; makes the header and the tables.
  Status make(std::byte* start, const PoolLayout& layout);
  // A header that is there: kInvalid where it is not ours.
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
