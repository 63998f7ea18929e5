// Tiles that streams bring to page-locked memory, where a host function changes them in the
// stream's order before they go back, while the program synchronises with other streams. The bytes
// that the functions see decide the program's later requests.
#include <unistd.h>

#include "tests/random/caller.h"

namespace calls {

namespace {
constexpr size_t kMostTiles = 2;
}  // namespace

// Slow enough in between that other calls of the program come meanwhile.
void Caller::change_tile(void* argument) {
  Tile& tile = *static_cast<Tile*>(argument);
  for (uint64_t i = 0; i < tile.size; ++i) {
    if (i == tile.size / 2) usleep(tile.pause_us);
    tile.sum = tile.sum * 31 + tile.bytes[i];
    tile.bytes[i] = static_cast<unsigned char>(tile.bytes[i] * 5 + i);
  }
}

void Caller::tile_step() {
  if (!exchange_.shared || exchange_.guesses) return;
  if (tiles_.size() == kMostTiles || (!tiles_.empty() && draw_.chance(30))) return take_tile();
  bring_tile();
  // Not the one that the function runs in, by most chances.
  if (draw_.chance(70)) wait_for(pick_stream());
}

void Caller::bring_tile() {
  const CUstream bringing = pick_stream(), working = draw_.chance(70) ? bringing : pick_stream();
  const Part from = pick_part(pick_memory());
  touch(*from.memory, bringing);
  Tile& tile = tiles_.emplace_back();
  tile.size = from.size;
  tile.pause_us = static_cast<unsigned>(draw_.below(4) * 300);
  void* bytes = nullptr;
  CHECK(cuMemAllocHost_v2(&bytes, tile.size));
  tile.bytes = static_cast<unsigned char*>(bytes);
  oracle::trace("  actor %u: tile of %llu bytes at %p\n", number_,
                static_cast<unsigned long long>(tile.size), bytes);
  IN_STREAM(cuMemcpyDtoHAsync_v2, bringing, tile.bytes, from.address, from.size);
  CHECK(cuEventCreate(&tile.ready, CU_EVENT_DISABLE_TIMING));
  if (working != bringing) {
    IN_STREAM(cuEventRecord, bringing, tile.ready);
    const auto [use_ptsz, given] = given_as(working);
    CHECK((use_ptsz ? cuStreamWaitEvent_ptsz : cuStreamWaitEvent)(given, tile.ready, 0));
  }
  const auto [use_ptsz, given] = given_as(working);
  CHECK((use_ptsz ? cuLaunchHostFunc_ptsz : cuLaunchHostFunc)(given, change_tile, &tile));
  const Part to = pick_part(pick_memory());
  touch(*to.memory, working);
  IN_STREAM(cuMemcpyHtoDAsync_v2, working, to.address, tile.bytes, std::min(to.size, tile.size));
  IN_STREAM(cuEventRecord, working, tile.ready);
}

// Also makes memory of a size that its sum decides.
void Caller::take_tile() {
  Tile& tile = tiles_.front();
  CHECK(cuEventSynchronize(tile.ready));
  see(&tile.sum, sizeof tile.sum);
  see(tile.bytes, tile.size);
  CHECK(cuEventDestroy_v2(tile.ready));
  CHECK(cuMemFreeHost(tile.bytes));
  const uint64_t words = 1 + tile.sum % 2000;
  tiles_.pop_front();
  fill(allocate(4 * words));
  if (memories_.size() > 6) release(draw_.below(memories_.size()));
}

}  // namespace calls
