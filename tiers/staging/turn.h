// SPDX-License-Identifier: Apache-2.0
//
// Decides which client is next to get a slot. Clients that find none free draw a ticket, and slots
// go to tickets in the order of their numbers. A client that has drawn its ticket before another
// one begins to ask is never overtaken by it.
//
// The server hands a slot over: it reserves the slot for the ticket's client, and then tells the
// ticket. So a client that is stopped keeps one slot from the others and no more. The first in the
// line may also take a free slot itself, so the line moves without a server, too. A ticket that is
// still being drawn blocks nobody, and the ticket of a client that is gone is passed over.
//
// No lock, no clock, no thread; each change is one atomic change of one word (layout.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "tiers/staging/memory.h"

namespace gpusnap {

// Thread-safe, but for what only the server may do.
class TicketLine {
 public:
  // `memory` outlives it.
  explicit TicketLine(StagingMemory& memory) : memory_(memory) {}

  // Whether a slot that comes free is somebody else's.
  bool anyone_waits() const { return first().has_value(); }
  // The ticket whose turn it is, as it was when it was found. Skips the tickets of clients for
  // whose index `passed_over` is true.
  struct Turn {
    uint32_t ticket = 0;
    Owned<TicketState> word;
  };
  using PassedOver = std::function<bool(uint32_t client)>;
  std::optional<Turn> first(const PassedOver& passed_over = {}) const;
  bool is_first(uint32_t ticket) const {
    const auto turn = first();
    return turn && turn->ticket == ticket;
  }
  // Rings for the first ticket. To be called when a slot has come free, or a ticket has left.
  void wake_first();

  // By the ticket's client.
  //
  // Nothing where there are too many.
  std::optional<uint32_t> draw(uint32_t client);
  // The slot that it was granted, which ends the ticket.
  std::optional<uint32_t> take_granted(uint32_t ticket);
  // Ends the ticket. Where it was granted a slot meanwhile, that is the client's now.
  std::optional<uint32_t> leave(uint32_t ticket);
  // Frees a slot that the client has, for whose turn it is.
  void give_back(uint32_t slot);
  Doorbell& bell(uint32_t ticket) { return memory_.tickets()[ticket].bell; }
  Doorbell& bell_of_all() { return memory_.header().freed; }

  // By the server, one thread at a time.
  //
  // Grants free slots of [begin, end) to tickets as long as there are both; how many.
  uint32_t grant(uint32_t begin, uint32_t end, const PassedOver& passed_over);
  // Frees the tickets of a client that is gone, before its slots.
  void reap(uint32_t client);
  // Frees slots that an earlier server had reserved when it was killed, and no ticket knows of.
  void recover();

 private:
  std::optional<Turn> lowest_from(uint64_t number, uint64_t& found) const;
  std::optional<uint32_t> reserve(uint32_t client, uint32_t begin, uint32_t end);
  bool tell(const Turn& turn, uint32_t slot);

  StagingMemory& memory_;
};

// A client's place in the line. Used by one thread at a time.
class PlaceInLine {
 public:
  // `line` outlives it.
  PlaceInLine(TicketLine& line, uint32_t client) : line_(&line), client_(client) {}
  PlaceInLine(PlaceInLine&& other) noexcept
      : line_(other.line_),
        client_(other.client_),
        ticket_(std::exchange(other.ticket_, std::nullopt)) {}
  PlaceInLine& operator=(PlaceInLine&& other) noexcept {
    std::swap(ticket_, other.ticket_);
    return *this;
  }
  // Gives back a slot that it was granted.
  ~PlaceInLine() { leave(); }

  bool has_ticket() const { return ticket_.has_value(); }
  // False where there are too many: it may ask again.
  bool draw();
  // The slot that it was granted: then its ticket is used.
  std::optional<uint32_t> take_granted();
  // Returns whether it may take a free slot itself. A client without a ticket comes after all that
  // have one.
  bool may_take() const { return ticket_ ? line_->is_first(*ticket_) : !line_->anyone_waits(); }
  void leave();
  // Rung when something has changed for it.
  Doorbell& bell() { return ticket_ ? line_->bell(*ticket_) : line_->bell_of_all(); }

 private:
  TicketLine* line_;
  uint32_t client_;
  std::optional<uint32_t> ticket_;
};

}  // namespace gpusnap
