// SPDX-License-Identifier: Apache-2.0
// The layout of the staging area in shared memory. It is the only memory that processes of gpusnap
// share. It contains no pointers.
//
// Every change of ownership is one atomic change of one word. A process that is killed at any
// instruction therefore leaves each entry with one owner or none; the server finds the entries of
// dead owners (server.h). The content that a word announces is written before the word, with
// release, and read after the word, with acquire.
//
//   Pool { header, clients, streams, tickets, slots, pieces of each slot, bytes of each slot }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tiers/piece.h"
#include "tiers/staging/published.h"

namespace gpusnap {

// Both are part of the area's name, so that processes of different versions never share an area.
inline constexpr uint32_t kStagingVersion = 7;
inline constexpr uint64_t kStagingMagic = 0x6770'7573'6e61'7031;  // "gpusnap1"

inline constexpr uint32_t kMostClients = 256;
inline constexpr uint32_t kMostStreams = 512;
inline constexpr uint32_t kMostTickets = 512;
inline constexpr uint32_t kNoClient = kMostClients;
inline constexpr size_t kSmallestZone = 4096;  // bytes; bounds the number of pieces of a slot
inline constexpr size_t kStreamText = 4096 - 64;
inline constexpr size_t kOutcomeText = 512;
inline constexpr size_t kMostTiersTold = 16;
inline constexpr size_t kTierText = 224;
inline constexpr size_t kDirectPath = 512;

// A counter in shared memory to wait on: rung after each change. A waiter reads rings() before it
// looks at what may change.
class Doorbell {
 public:
  uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  void ring();
  // Waits until it has been rung since `seen` was read, for `longest_ns` at most. May return early.
  void wait(uint32_t seen, int64_t longest_ns);

 private:
  std::atomic<uint32_t> rings_{0};
};

// The state of an entry, its owner, and its life: the number of times that the entry has been
// taken. They change together. The life tells one use of an entry from the next.
template <class State>
struct Owned {
  State state{};
  uint32_t owner = 0;  // below 2^24, like process numbers
  uint32_t life = 0;
  bool operator==(const Owned&) const = default;
  bool is(State other, uint32_t whose) const { return state == other && owner == whose; }
};

template <class State>
class OwnedWord {
 public:
  using Value = Owned<State>;
  Value load() const { return unpack(word_.load(std::memory_order_acquire)); }
  // Returns false and changes nothing if the value is not `from` any more.
  bool change(Value from, State state, uint32_t owner) {
    return exchange(from, {state, owner, from.life});
  }
  // Changes from the first state, in which the entry has no owner, to another one.
  bool take(State state, uint32_t owner) {
    const Value now = load();
    return now.state == State{} && exchange(now, {state, owner, now.life + 1});
  }
  // As change(), to the first state.
  bool free(Value from) { return change(from, State{}, 0); }

 private:
  bool exchange(Value from, Value to) {
    uint64_t expected = pack(from);
    return word_.compare_exchange_strong(expected, pack(to), std::memory_order_seq_cst);
  }
  static uint64_t pack(Value value) {
    return uint64_t{value.life} << 32 | uint64_t{value.owner & 0xff'ffff} << 8 |
           static_cast<uint8_t>(value.state);
  }
  static Value unpack(uint64_t word) {
    return {static_cast<State>(word & 0xff), static_cast<uint32_t>(word >> 8 & 0xff'ffff),
            static_cast<uint32_t>(word >> 32)};
  }
  std::atomic<uint64_t> word_{0};
};

// A process that saves. The word's owner is the process number, so that it is known from the first
// change of the word on.
enum class ClientState : uint8_t { kFree, kJoining, kJoined };

struct alignas(64) ClientEntry {
  OwnedWord<ClientState> word;
  uint64_t started = 0;  // ProcessIdentity
};

// A sequence of slots that belong together: one rank's part of one checkpoint, or a journal. The
// word's owner is the client's index.
//
//   kFree -> kOpening -> kOpen -> kSealed    by the client
//            kOpen, kSealed -> kAbandoned    by the client
//            kOpen, kSealed -> kEnded        by the server: the outcome is set
//            kEnded -> kFree                 by the client
//            kAbandoned -> kFree             by the server
//            kSealed -> kKept                by the client: the server keeps it, and no client
//                                            waits for its outcome
//            kKept -> kFree                  by the server
//
// A stream of a client that has gone belongs to the server: its owner is kNoClient, and the server
// makes the changes that the client would have made.
enum class StreamState : uint8_t { kFree, kOpening, kOpen, kSealed, kAbandoned, kEnded, kKept };
enum class StreamKind : uint32_t { kCheckpoint, kJournal };

// Returns whether no more slots come and all slots outlive the client.
constexpr bool is_sealed(StreamState state) {
  return state == StreamState::kSealed || state == StreamState::kKept;
}

// The server's statement whether a part that stays in memory is whole there.
enum class Keeping : uint8_t {
  kNo,
  kStays,   // it is whole, and its journal is durable
  kLeaves,  // it was whole, its journal is durable, and it is going to the store
  kFlows,   // it is not whole: it had no room, and goes to the store while it is filled
};

constexpr bool was_whole(Keeping keeping) {
  return keeping == Keeping::kStays || keeping == Keeping::kLeaves;
}

struct alignas(64) StreamEntry {
  OwnedWord<StreamState> word;
  StreamKind kind{};
  // Number of slots handed over. A slot is in state kFilled before it is counted.
  std::atomic<uint64_t> slots{0};
  // Number of leading slots that are durable. Written by the server.
  std::atomic<uint64_t> durable{0};
  // The life whose slots are all on devices of the node, so that they outlive its memory. Written
  // by the server.
  std::atomic<uint32_t> held{0};
  // Upper half: a life. Lower half: the number of files on devices of the node that hold the only
  // copy of some of its slots; the next server has to find as many. Written by the server.
  std::atomic<uint64_t> spills{0};
  // Upper half: a life. Lower half: its Keeping. Written by the server.
  std::atomic<uint64_t> kept{0};
  // Requests and answers for files that the client writes itself (direct/direct_chunk.h), counted.
  // The client makes a request only after the server has answered the one before. An answer is the
  // file's number, its path and its room in bytes; no room: there is no file at the moment.
  std::atomic<uint32_t> asked{0};
  std::atomic<uint32_t> answered{0};
  uint32_t direct_number = 0;
  uint64_t direct_bytes = 0;
  char direct_path[kDirectPath];  // with a zero byte at its end
  uint32_t outcome = 0;           // ended: a Code
  uint32_t text_bytes = 0;
  char message[kOutcomeText];  // ended, with a zero byte at its end
  char text[kStreamText];
};

inline Keeping keeping_of(const StreamEntry& stream, uint32_t life) {
  const uint64_t said = stream.kept.load(std::memory_order_acquire);
  return said >> 32 == life ? static_cast<Keeping>(said & 0xff) : Keeping::kNo;
}

// The word's owner is the client's index.
//
//   kFree -> kClaimed -> kFilled    by the client, which alone may write the bytes
//   kFree -> kGranted               by the server, for a ticket of that client
//            kGranted -> kClaimed   by the client, after its ticket says which slot it is
//            kClaimed -> kFree      by the client, or by the server for a client that has gone
//            kGranted -> kFree      by these, or by the server if no ticket names the slot
//            kFilled -> kFree       by the server: the bytes are not needed any more
enum class SlotState : uint8_t { kFree, kClaimed, kFilled, kGranted };

struct alignas(64) SlotEntry {
  OwnedWord<SlotState> word;
  uint32_t stream = 0;
  uint32_t stream_life = 0;
  uint64_t sequence = 0;  // within the stream, from 0 on
  uint64_t used = 0;      // bytes
  uint32_t pieces = 0;    // 0: bytes without a place on the device
  uint32_t direct = 0;    // 1: the bytes are a DirectChunk
  uint64_t checksum = 0;  // slot_checksum(), for a part that is kept
};

// A place in the line for slots (turn.h). The word's owner is the client's index.
//
//   kFree -> kTaking -> kWaiting    by the client, which draws its number in between
//            kWaiting -> kGranted   by the server: the slot belongs to the client
//            kWaiting -> kFree      by the client: it has found a slot itself, or has given up
//            kGranted -> kFree      by the client: it has taken the slot
//
// The server frees the tickets of a client that has gone, in any state.
enum class TicketState : uint8_t { kFree, kTaking, kWaiting, kGranted };

struct alignas(64) TicketEntry {
  OwnedWord<TicketState> word;
  std::atomic<uint64_t> number{0};  // lower numbers come first
  std::atomic<uint32_t> slot{0};    // in state kGranted; written by the server
  Doorbell bell;                    // rung for the ticket's client
};

// The server's counters, for observers.
struct TierReport {
  // Chunks; see TierCounters.
  uint64_t writing = 0;
  uint64_t waiting = 0;
  uint64_t flushing = 0;
  uint64_t capacity = 0;
  char folder[kTierText] = {};  // with a zero byte at its end; empty: the area itself
};

struct BackendReport {
  uint64_t chunk_bytes = 0;
  uint64_t checkpoints = 0;  // in flight
  uint64_t journals = 0;
  uint64_t committed = 0;  // checkpoints since the server began
  uint64_t failed = 0;
  uint64_t waiting = 0;                 // chunks that wait for a place
  uint64_t flushes = 0;                 // current limit of concurrent flushes
  uint64_t flush_bytes_per_second = 0;  // moving average; 0: not known yet
  uint64_t tiers = 0;                   // the area first; kMostTiersTold at most
  TierReport tier[kMostTiersTold];
};

struct alignas(64) PoolHeader {
  std::atomic<uint64_t> magic{0};  // written last, after all other fields
  uint32_t version = 0;
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;
  uint64_t bytes = 0;  // of all
  // Number of leading slots that are backed by memory. Grows.
  std::atomic<uint32_t> backed{0};
  std::atomic<uint32_t> refused{0};         // the system had no memory for the other slots
  std::atomic<uint32_t> closed{0};          // the server has closed the area
  std::atomic<uint64_t> server_started{0};  // of the server's ProcessIdentity
  std::atomic<uint32_t> server{0};          // its process number; 0: it has ended
  Doorbell filled;                          // rung for the server
  Doorbell freed;                           // rung for clients
  std::atomic<uint64_t> next_ticket{0};     // number
  Published<BackendReport> report;          // written by the server regularly
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Offsets in bytes from the start of the area.
struct PoolLayout {
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;

  uint32_t pieces_per_slot() const { return static_cast<uint32_t>(slot_bytes / kSmallestZone); }
  uint64_t clients_at() const { return sizeof(PoolHeader); }
  uint64_t streams_at() const { return clients_at() + kMostClients * sizeof(ClientEntry); }
  uint64_t tickets_at() const { return streams_at() + kMostStreams * sizeof(StreamEntry); }
  uint64_t slots_at() const { return tickets_at() + kMostTickets * sizeof(TicketEntry); }
  uint64_t pieces_at() const { return slots_at() + slots * sizeof(SlotEntry); }
  // A multiple of 2 MiB, so that large pages can back the slots.
  uint64_t bytes_at() const {
    const uint64_t end = pieces_at() + uint64_t{slots} * pieces_per_slot() * sizeof(Piece);
    return (end + kLargePage - 1) / kLargePage * kLargePage;
  }
  uint64_t end() const { return bytes_at() + slots * slot_bytes; }

  static constexpr uint64_t kLargePage = 2 << 20;
};

}  // namespace gpusnap
