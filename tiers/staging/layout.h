// The layout of the staging area in shared memory. Nothing else of gpusnap is shared between
// processes in memory, and nothing here has a pointer in it.
//
// Every change of ownership is one atomic change of one word. So a process that is killed, at
// whatever instruction, leaves each thing owned by one process: itself, and then the server finds
// it (server.h), or by nobody. The content that a word announces is written before the word, with
// release, and read after it, with acquire.
//
//   Pool { header, clients, streams, tickets, slots, pieces of each slot, bytes of each slot }
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tiers/piece.h"
#include "tiers/staging/published.h"

namespace gpusnap {

// Both are part of the area's name: other versions never meet.
inline constexpr uint32_t kStagingVersion = 7;
inline constexpr uint64_t kStagingMagic = 0x6770'7573'6e61'7031;  // "gpusnap1"

inline constexpr uint32_t kMostClients = 256;
inline constexpr uint32_t kMostStreams = 512;
inline constexpr uint32_t kMostTickets = 512;
inline constexpr uint32_t kNoClient = kMostClients;
inline constexpr size_t kSmallestZone = 4096;  // bytes: the most pieces that a slot can hold
inline constexpr size_t kStreamText = 4096 - 64;
inline constexpr size_t kOutcomeText = 512;
inline constexpr size_t kMostTiersTold = 16;
inline constexpr size_t kTierText = 224;
inline constexpr size_t kDirectPath = 512;

// Rung when something has changed; who waits for a change looks at the number first. In memory
// that processes share.
class Doorbell {
 public:
  uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  void ring();
  // Until it has been rung since `seen` was read, or for `longest_ns`, or now and then for nothing.
  void wait(uint32_t seen, int64_t longest_ns);

 private:
  std::atomic<uint32_t> rings_{0};
};

// A state, who is in it, and how often the thing has been taken, changed together. The last tells
// one life of an entry from the next.
template <class State>
struct Owned {
  State state{};
  uint32_t owner = 0;  // below 2^24, as process numbers are
  uint32_t life = 0;
  bool operator==(const Owned&) const = default;
  bool is(State other, uint32_t whose) const { return state == other && owner == whose; }
};

template <class State>
class OwnedWord {
 public:
  using Value = Owned<State>;
  Value load() const { return unpack(word_.load(std::memory_order_acquire)); }
  // False, and nothing done, where it is not `from` any more.
  bool change(Value from, State state, uint32_t owner) {
    return exchange(from, {state, owner, from.life});
  }
  // From the first state, in which nobody has it, into another one.
  bool take(State state, uint32_t owner) {
    const Value now = load();
    return now.state == State{} && exchange(now, {state, owner, now.life + 1});
  }
  // As change(), into the first state.
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

// A process that saves. The word's owner is its process number, so that it is known from the first
// instant on.
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
//            kOpen, kSealed -> kEnded        by the server: its outcome stands
//            kEnded -> kFree                 by the client
//            kAbandoned -> kFree             by the server
//            kSealed -> kKept                by the client: the server keeps it, and nobody waits
//                                            for its outcome
//            kKept -> kFree                  by the server
//
// A stream of a client that is gone is the server's: its owner is kNoClient, and the server does
// what the client would have done.
enum class StreamState : uint8_t { kFree, kOpening, kOpen, kSealed, kAbandoned, kEnded, kKept };
enum class StreamKind : uint32_t { kCheckpoint, kJournal };

// Nothing more comes, and all that there is outlives the client.
constexpr bool is_sealed(StreamState state) {
  return state == StreamState::kSealed || state == StreamState::kKept;
}

// Whether a part that stays in memory is whole there, as the server says.
enum class Keeping : uint8_t {
  kNo,
  kStays,   // it is, and its journal is durable
  kLeaves,  // likewise, and it goes to the store since then
  kFlows,   // it is not: it had no room, and goes to the store as it is filled
};

constexpr bool was_whole(Keeping keeping) {
  return keeping == Keeping::kStays || keeping == Keeping::kLeaves;
}

struct alignas(64) StreamEntry {
  OwnedWord<StreamState> word;
  StreamKind kind{};
  // How many were handed over; each is a slot of its own before it is counted.
  std::atomic<uint64_t> slots{0};
  // How many of the leading slots are durable, as the server says.
  std::atomic<uint64_t> durable{0};
  // The life of which all is on the node's own devices and outlives its memory, as the server says.
  std::atomic<uint32_t> held{0};
  // Files on the node's own devices that alone have some of the slots, as the server says: the next
  // server has to find as many. The life in the upper half, their number in the lower one.
  std::atomic<uint64_t> spills{0};
  // The life of which Keeping is so, in the upper half; that, in the lower one.
  std::atomic<uint64_t> kept{0};
  // Files for chunks that the client writes itself (direct/direct_chunk.h), one after the other.
  // The client asks only when the server has answered: these are how many of both there were. An
  // answer is the file's number, its path and its room in bytes; no room: it gets none at the
  // moment.
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
//   kFree -> kClaimed -> kFilled    by the client: it is the only one that may write the bytes
//   kFree -> kGranted               by the server, for a ticket of that client
//            kGranted -> kClaimed   by the client, once its ticket says which slot it is
//            kClaimed -> kFree      by the client, or by the server for one that is gone
//            kGranted -> kFree      likewise, or by the server where no ticket says so
//            kFilled -> kFree       by the server: the bytes are not needed any more
enum class SlotState : uint8_t { kFree, kClaimed, kFilled, kGranted };

struct alignas(64) SlotEntry {
  OwnedWord<SlotState> word;
  uint32_t stream = 0;
  uint32_t stream_life = 0;
  uint64_t sequence = 0;  // 0 and up within the stream
  uint64_t used = 0;      // bytes
  uint32_t pieces = 0;    // 0: bytes without a place on the device
  uint32_t direct = 0;    // 1: they are a DirectChunk
  uint64_t checksum = 0;  // of a part that is kept: slot_checksum()
};

// A place in the line for slots (turn.h). The word's owner is the client's index.
//
//   kFree -> kTaking -> kWaiting    by the client, which draws its number in between
//            kWaiting -> kGranted   by the server: the slot is the client's
//            kWaiting -> kFree      by the client: it has found a slot itself, or has given up
//            kGranted -> kFree      by the client: it has the slot
//
// The server frees those of a client that is gone, in whatever state.
enum class TicketState : uint8_t { kFree, kTaking, kWaiting, kGranted };

struct alignas(64) TicketEntry {
  OwnedWord<TicketState> word;
  std::atomic<uint64_t> number{0};  // lower: it came earlier
  std::atomic<uint32_t> slot{0};    // granted; only the server writes it
  Doorbell bell;                    // something for whose ticket it is
};

// How the server gets on, for who looks from outside.
struct TierReport {
  uint64_t writing = 0;   // chunks, as TierCounters has them; so are the next
  uint64_t waiting = 0;   //
  uint64_t flushing = 0;  //
  uint64_t capacity = 0;
  char folder[kTierText] = {};  // with a zero byte at its end; empty: the area itself
};

struct BackendReport {
  uint64_t chunk_bytes = 0;
  uint64_t checkpoints = 0;  // on their way
  uint64_t journals = 0;
  uint64_t committed = 0;  // checkpoints since it began
  uint64_t failed = 0;
  uint64_t waiting = 0;                 // chunks that wait for a place
  uint64_t flushes = 0;                 // chunks that may be flushed at the same time
  uint64_t flush_bytes_per_second = 0;  // moving average; 0: nothing is known of flushes yet
  uint64_t tiers = 0;                   // the area first; what is beyond the last is not told
  TierReport tier[kMostTiersTold];
};

struct alignas(64) PoolHeader {
  std::atomic<uint64_t> magic{0};  // last: all else is there
  uint32_t version = 0;
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;
  uint64_t bytes = 0;  // of all
  // Slots that are backed by memory: the leading ones. Grows.
  std::atomic<uint32_t> backed{0};
  std::atomic<uint32_t> refused{0};         // the system had no memory for the others
  std::atomic<uint32_t> closed{0};          // the server has gone, and the area with it
  std::atomic<uint64_t> server_started{0};  // ProcessIdentity, as the next
  std::atomic<uint32_t> server{0};          // 0: it has ended
  Doorbell filled;                          // something for the server
  Doorbell freed;                           // something for clients
  std::atomic<uint64_t> next_ticket{0};     // number
  Published<BackendReport> report;          // by the server, now and then
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Where everything lies, in bytes from the start.
struct PoolLayout {
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;

  uint32_t pieces_per_slot() const { return static_cast<uint32_t>(slot_bytes / kSmallestZone); }
  uint64_t clients_at() const { return sizeof(PoolHeader); }
  uint64_t streams_at() const { return clients_at() + kMostClients * sizeof(ClientEntry); }
  uint64_t tickets_at() const { return streams_at() + kMostStreams * sizeof(StreamEntry); }
  uint64_t slots_at() const { return tickets_at() + kMostTickets * sizeof(TicketEntry); }
  uint64_t pieces_at() const { return slots_at() + slots * sizeof(SlotEntry); }
  // At a multiple of 2 MiB, so that large pages can back them.
  uint64_t bytes_at() const {
    const uint64_t end = pieces_at() + uint64_t{slots} * pieces_per_slot() * sizeof(Piece);
    return (end + kLargePage - 1) / kLargePage * kLargePage;
  }
  uint64_t end() const { return bytes_at() + slots * slot_bytes; }

  static constexpr uint64_t kLargePage = 2 << 20;
};

}  // namespace gpusnap
