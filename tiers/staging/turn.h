// SPDX-License-Identifier: Apache-2.0
//
// Decides which client gets the next slot. A client that finds no free slot draws a ticket, and
// slots go to tickets in the order of their numbers. A client is never overtaken by another one
// that began to ask after it had drawn its ticket.
//
// The server grants a slot: it reserves the slot for the ticket's client, and then writes it to the
// ticket. A client that is stopped therefore keeps no more than one slot from the others. The first
// client in the line may also take a free slot itself, so that the line moves without a server. A
// ticket that is still being drawn blocks no client, and the ticket of a client that has gone is
// skipped.
//
// No lock, no clock, no thread; each change is one atomic change of one word (layout.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "tiers/staging/memory.h"

namespace gpusnap {

// Thread-safe, except for the functions of the server.
class TicketLine {
 public:
  // `memory` outlives it.
  explicit TicketLine(StagingMemory& memory) : memory_(memory) {}

  // Returns whether a client waits for the next free slot.
  bool anyone_waits() const { return first().has_value(); }
  // The ticket whose turn it is, with its word when it was found. first() skips the tickets of
  // clients for whose index `passed_over` returns true.
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

  // The next four functions are called by the ticket's client.
  //
  // Draws a ticket. Empty: there are too many.
  std::optional<uint32_t> draw(uint32_t client);
  // Returns the slot that was granted, if any, and ends the ticket.
  std::optional<uint32_t> take_granted(uint32_t ticket);
  // Ends the ticket. If a slot was granted meanwhile, returns it: it belongs to the client.
  std::optional<uint32_t> leave(uint32_t ticket);
  // Frees a slot of the client and wakes the first in the line.
  void give_back(uint32_t slot);
  Doorbell& bell(uint32_t ticket) { return memory_.tickets()[ticket].bell; }
  Doorbell& bell_of_all() { return memory_.header().freed; }

  // The functions below are called by the server, one thread at a time.
  //
  // Grants free slots of [begin, end) to tickets as long as there are both. Returns their number.
  uint32_t grant(uint32_t begin, uint32_t end, const PassedOver& passed_over);
  // Frees the tickets of a client that has gone. To be called before its slots are freed.
  void reap(uint32_t client);
  // Frees slots that a killed server had reserved and that no ticket names.
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
  // Gives back a slot that was granted and not taken.
  ~PlaceInLine() { leave(); }

  bool has_ticket() const { return ticket_.has_value(); }
  // Draws a ticket. Returns false if there are too many; may be tried again.
  bool draw();
  // Returns the slot that was granted, if any; its ticket is used then.
  std::optional<uint32_t> take_granted();
  // Returns whether the client may take a free slot itself. A client without a ticket comes after
  // all clients that have one.
  bool may_take() const { return ticket_ ? line_->is_first(*ticket_) : !line_->anyone_waits(); }
  void leave();
  // Rung when something has changed for this place.
  Doorbell& bell() { return ticket_ ? line_->bell(*ticket_) : line_->bell_of_all(); }

 private:
  TicketLine* line_;
  uint32_t client_;
  std::optional<uint32_t> ticket_;
};

}  // namespace gpusnap
