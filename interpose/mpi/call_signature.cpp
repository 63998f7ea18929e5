#include "interpose/mpi/call_signature.h"

#include <algorithm>

namespace gpusnap::mpi {

namespace {
size_t peers_of(Peers peers, Handle communicator) {
  Process& process = Process::get();
  int count = 0;
  switch (peers) {
    case Peers::kRanks:
      count = process.size_of(communicator);
      break;
    case Peers::kSources:
      count = process.degrees_of(communicator).in;
      break;
    case Peers::kDestinations:
      count = process.degrees_of(communicator).out;
      break;
  }
  return static_cast<size_t>(std::max(count, 0));
}
}  // namespace

Buffer buffer_of(const MpiCall& given, const Side& side, Handle communicator) {
  Buffer buffer{.start = given.buffer(side.buffer)};
  if (side.layout != Layout::kBlocksOfTypes) buffer.type = given.type(side.type);
  switch (side.layout) {
    case Layout::kNone:
      break;
    case Layout::kItems:
      buffer.count = given.count(side.count);
      break;
    case Layout::kItemsOfEach:
      buffer.count =
          given.count(side.count) * static_cast<int64_t>(peers_of(side.peers, communicator));
      break;
    case Layout::kBlocksOfTypes:
      buffer.blocks.types = given.types(side.type);
      [[fallthrough]];
    case Layout::kBlocks:
      buffer.blocks.number = peers_of(side.peers, communicator);
      buffer.blocks.counts = given.numbers(side.count, false);
      buffer.blocks.displacements = given.numbers(side.displacements, side.wide_displacements);
      break;
    case Layout::kItemsOfAll: {
      const Numbers counts = given.numbers(side.count, false);
      for (size_t i = 0; i < peers_of(side.peers, communicator); ++i) buffer.count += counts[i];
      break;
    }
    case Layout::kItemsOfOwn: {
      const int rank = Process::get().rank_in(communicator);
      if (rank >= 0) buffer.count = given.numbers(side.count, false)[static_cast<size_t>(rank)];
      break;
    }
  }
  return buffer;
}

}  // namespace gpusnap::mpi
