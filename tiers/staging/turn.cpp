// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/turn.h"

#include <algorithm>

namespace gpusnap {

std::optional<TicketLine::Turn> TicketLine::lowest_from(uint64_t number, uint64_t& found) const {
  const std::span<TicketEntry> tickets = memory_.tickets();
  std::optional<Turn> lowest;
  found = UINT64_MAX;
  for (uint32_t index = 0; index < tickets.size(); ++index) {
    const Owned<TicketState> word = tickets[index].word.load();
    if (word.state != TicketState::kWaiting) continue;
    const uint64_t its = tickets[index].number.load(std::memory_order_acquire);
    // Another life of the entry has another number.
    if (its < number || its >= found || tickets[index].word.load() != word) continue;
    found = its;
    lowest = {index, word};
  }
  return lowest;
}

std::optional<TicketLine::Turn> TicketLine::first(const PassedOver& passed_over) const {
  uint64_t number = 0;
  std::optional<Turn> turn = lowest_from(0, number);
  while (turn && passed_over && passed_over(turn->word.owner)) {
    turn = lowest_from(number + 1, number);
  }
  return turn;
}

void TicketLine::wake_first() {
  if (const auto turn = first()) bell(turn->ticket).ring();
}

// The number is drawn before the ticket waits. Tickets with higher numbers may be served in
// between: their clients had begun to ask, too.
std::optional<uint32_t> TicketLine::draw(uint32_t client) {
  const std::span<TicketEntry> tickets = memory_.tickets();
  for (uint32_t index = 0; index < tickets.size(); ++index) {
    TicketEntry& entry = tickets[index];
    if (!entry.word.take(TicketState::kTaking, client)) continue;
    entry.number.store(memory_.header().next_ticket.fetch_add(1), std::memory_order_relaxed);
    entry.word.change(entry.word.load(), TicketState::kWaiting, client);
    return index;
  }
  return std::nullopt;
}

// In this order: while the slot is only reserved, the ticket says which client it belongs to.
std::optional<uint32_t> TicketLine::take_granted(uint32_t ticket) {
  TicketEntry& entry = memory_.tickets()[ticket];
  const Owned<TicketState> now = entry.word.load();
  if (now.state != TicketState::kGranted) return std::nullopt;
  const uint32_t slot = entry.slot.load(std::memory_order_relaxed);
  OwnedWord<SlotState>& word = memory_.slots()[slot].word;
  word.change(word.load(), SlotState::kClaimed, now.owner);
  entry.word.free(now);
  return slot;
}

std::optional<uint32_t> TicketLine::leave(uint32_t ticket) {
  OwnedWord<TicketState>& word = memory_.tickets()[ticket].word;
  const Owned<TicketState> now = word.load();
  if (now.state == TicketState::kWaiting && word.free(now)) return std::nullopt;
  return take_granted(ticket);
}

// Also rings for the server: the first client may be stopped.
void TicketLine::give_back(uint32_t slot) {
  OwnedWord<SlotState>& word = memory_.slots()[slot].word;
  word.free(word.load());
  if (anyone_waits()) {
    wake_first();
    memory_.header().filled.ring();
  } else {
    bell_of_all().ring();
  }
}

std::optional<uint32_t> TicketLine::reserve(uint32_t client, uint32_t begin, uint32_t end) {
  const std::span<SlotEntry> slots = memory_.slots();
  for (uint32_t slot = begin; slot < end; ++slot) {
    if (slots[slot].word.take(SlotState::kGranted, client)) return slot;
  }
  return std::nullopt;
}

// Returns false if the ticket has left meanwhile. Its entry may be another ticket by then, which
// does not read the slot before it is granted one.
bool TicketLine::tell(const Turn& turn, uint32_t slot) {
  TicketEntry& entry = memory_.tickets()[turn.ticket];
  entry.slot.store(slot, std::memory_order_relaxed);
  if (!entry.word.change(turn.word, TicketState::kGranted, turn.word.owner)) return false;
  entry.bell.ring();
  return true;
}

uint32_t TicketLine::grant(uint32_t begin, uint32_t end, const PassedOver& passed_over) {
  uint32_t granted = 0;
  while (const auto turn = first(passed_over)) {
    const auto slot = reserve(turn->word.owner, begin, end);
    if (!slot) break;
    begin = *slot;
    if (tell(*turn, *slot)) {
      ++granted;
    } else {
      OwnedWord<SlotState>& word = memory_.slots()[*slot].word;
      word.free(word.load());
    }
  }
  return granted;
}

void TicketLine::reap(uint32_t client) {
  for (TicketEntry& entry : memory_.tickets()) {
    const Owned<TicketState> now = entry.word.load();
    if (now.state != TicketState::kFree && now.owner == client) entry.word.free(now);
  }
}

void TicketLine::recover() {
  const std::span<SlotEntry> slots = memory_.slots();
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    const Owned<SlotState> word = slots[slot].word.load();
    if (word.state != SlotState::kGranted) continue;
    // A client may take the slot at this moment: then its word has changed.
    const bool is_known = std::ranges::any_of(memory_.tickets(), [&](const TicketEntry& entry) {
      return entry.word.load().state == TicketState::kGranted && entry.slot.load() == slot;
    });
    if (!is_known) slots[slot].word.free(word);
  }
}

bool PlaceInLine::draw() {
  if (!ticket_) ticket_ = line_->draw(client_);
  return ticket_.has_value();
}

std::optional<uint32_t> PlaceInLine::take_granted() {
  if (!ticket_) return std::nullopt;
  const auto slot = line_->take_granted(*ticket_);
  if (slot) ticket_.reset();
  return slot;
}

// Another slot may be free for the next one.
void PlaceInLine::leave() {
  if (!ticket_) return;
  const auto slot = line_->leave(*std::exchange(ticket_, std::nullopt));
  slot ? line_->give_back(*slot) : line_->wake_first();
}

}  // namespace gpusnap
