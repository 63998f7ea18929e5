// The use that an MPI call makes of the program's memory: which of its arguments say what is sent
// and filled, and which of the ranks does so. The same for all forms of the call (mpi_call.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/mpi/buffers.h"
#include "interpose/mpi/mpi_call.h"

namespace gpusnap::mpi {

inline constexpr int kNowhere = -1;

// How arguments describe a buffer.
enum class Layout : uint8_t {
  kNone,           // there is none
  kItems,          // a count of items
  kItemsOfEach,    // as many for each peer
  kBlocks,         // counts and displacements in extents of one type
  kBlocksOfTypes,  // counts, displacements in bytes, and types
  kItemsOfAll,     // all counts of an array together
  kItemsOfOwn,     // the count of this rank in such an array
};

// To whom the blocks of a buffer belong.
enum class Peers : uint8_t { kRanks, kSources, kDestinations };

// Places of arguments.
struct Side {
  Layout layout = Layout::kNone;
  int buffer = kNowhere, count = kNowhere, displacements = kNowhere, type = kNowhere;
  Peers peers = Peers::kRanks;
  bool wide_displacements = false;  // addresses in every form of the call

  constexpr Side of(Peers whose) const {
    Side side = *this;
    side.peers = whose;
    return side;
  }
  constexpr Side with_addresses() const {
    Side side = *this;
    side.wide_displacements = true;
    return side;
  }
};
constexpr Side items(int buffer, int count, int type) {
  return {.layout = Layout::kItems, .buffer = buffer, .count = count, .type = type};
}
constexpr Side of_each(int buffer, int count, int type) {
  return {.layout = Layout::kItemsOfEach, .buffer = buffer, .count = count, .type = type};
}
constexpr Side blocks(int buffer, int counts, int displacements, int type) {
  return {.layout = Layout::kBlocks,
          .buffer = buffer,
          .count = counts,
          .displacements = displacements,
          .type = type};
}
constexpr Side blocks_of_types(int buffer, int counts, int displacements, int types) {
  Side side = blocks(buffer, counts, displacements, types);
  side.layout = Layout::kBlocksOfTypes;
  return side;
}
constexpr Side of_all(int buffer, int counts, int type) {
  return {.layout = Layout::kItemsOfAll, .buffer = buffer, .count = counts, .type = type};
}
constexpr Side of_own(int buffer, int counts, int type) {
  return {.layout = Layout::kItemsOfOwn, .buffer = buffer, .count = counts, .type = type};
}

// The part of a call that only one of the ranks does.
enum class Root : uint8_t {
  kNone,
  kSends,     // only there is something sent
  kFills,     // only there is something filled
  kSendsOut,  // the one buffer is sent there, and filled elsewhere
};

struct CallSignature {
  size_t arguments = 0;  // without Fortran's error
  int (*body)(MpiCall&, const CallSignature&) = nullptr;
  Side sent{}, filled{};
  Side in_place{};                   // both in one, where it is not what is filled otherwise
  bool fills_what_it_sends = false;  // the buffer that is filled is sent, too
  int communicator = kNowhere;       // of a collective
  Root root_does = Root::kNone;
  int root = kNowhere;
  bool synchronises = false;  // no rank leaves it before all have entered it
  int source = kNowhere;      // of a receive; its tag is the argument behind it
  int status = kNowhere;
  int request = kNowhere;  // it returns before it is done

  // The form that returns at once: the request is its last argument, in the place of a status if
  // there is one.
  constexpr CallSignature later() const {
    CallSignature data = *this;
    data.synchronises = false;
    if (status != kNowhere) --data.arguments;
    data.status = kNowhere;
    data.request = static_cast<int>(data.arguments++);
    return data;
  }
  constexpr CallSignature does(int (*what)(MpiCall&, const CallSignature&)) const {
    CallSignature data = *this;
    data.body = what;
    return data;
  }
};

// The buffer that these arguments describe.
Buffer buffer_of(const MpiCall& given, const Side& side, Handle communicator);

}  // namespace gpusnap::mpi
