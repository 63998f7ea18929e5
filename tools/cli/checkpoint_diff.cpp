// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/checkpoint_diff.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/cli/shared_pieces.h"

namespace gpusnap {
namespace {

constexpr uint64_t kUnit = 64;  // of positions: no element lies in two windows

}  // namespace

RankDiff::RankDiff(const DiffSide& one, const DiffSide& other, ComparedRank& rank,
                   std::function<void(uint64_t)> advance, uint64_t window)
    : rank_(rank),
      advance_(std::move(advance)),
      window_(window),
      one_{one, {}, std::vector<std::optional<size_t>>(rank.one->ranges.size())},
      other_{other, {}, std::vector<std::optional<size_t>>(rank.other->ranges.size())},
      buffers_(PartReaderOptions().reads) {
  for (size_t i = 0; i < rank_.pairs.size(); ++i) {
    const ComparedPair& pair = rank_.pairs[i];
    one_.pair_of[pair.ranges.one] = i;
    other_.pair_of[pair.ranges.other] = i;
    starts_.push_back(end_);
    end_ += (pair.bytes + kUnit - 1) / kUnit * kUnit;
  }
}

Status RankDiff::run() {
  if (Status ready = prepare(one_, rank_.one->rank); !ready.ok()) return ready;
  if (Status ready = prepare(other_, rank_.other->rank); !ready.ok()) return ready;
  const bool may_share = one_.of.store.folder() == other_.of.store.folder() &&
                         one_.of.checkpoint.job == other_.of.checkpoint.job;
  for (size_t window = 0; window < one_.windows.size(); ++window) {
    if (may_share) leave_out_shared(window);
    const bool is_equal = one_.windows[window].empty() && other_.windows[window].empty();
    if (!is_equal) {
      if (Status got = read(one_, window); !got.ok()) return got;
      if (Status got = read(other_, window); !got.ok()) return got;
    }
    compare(window, is_equal);
  }
  return {};
}

Status RankDiff::prepare(Side& side, uint32_t rank) {
  Result<Contents> contents = side.of.store.resolve(side.of.checkpoint, rank);
  if (!contents.ok()) return contents.status();
  side.contents = std::move(contents.value());
  side.windows.resize((end_ + window_ - 1) / window_);
  side.memory.resize(std::min(end_, window_));
  share_out(side);
  return {};
}

uint64_t RankDiff::position(const Side& side, uint32_t range, uint64_t offset) const {
  return starts_[*side.pair_of[range]] + offset;
}

// Gives each window its pieces.
void RankDiff::share_out(Side& side) {
  const std::vector<PlacedExtent> pieces = std::exchange(side.contents.pieces, {});
  for (const PlacedExtent& piece : pieces) {
    const std::optional<size_t>& pair = side.pair_of[piece.range];
    if (!pair) continue;
    const uint64_t end = std::min(piece.offset + piece.size, rank_.pairs[*pair].bytes);
    for (uint64_t offset = piece.offset; offset < end;) {
      const uint64_t at = position(side, piece.range, offset);
      PlacedExtent part = piece;
      part.offset = offset;
      part.within += offset - piece.offset;
      part.size = std::min(end - offset, window_ - at % window_);
      side.windows[at / window_].push_back(part);
      offset += part.size;
    }
  }
}

void RankDiff::leave_out_shared(size_t window) {
  const auto described = [this, window](const Side& side) {
    return PiecesOfChain{
        side.contents.chain, side.windows[window],
        [this, &side](uint32_t range, uint64_t offset) { return position(side, range, offset); }};
  };
  const PiecesOfChain of_one = described(one_), of_other = described(other_);
  std::vector<PlacedExtent> left_of_one = without_shared(of_one, of_other);
  std::vector<PlacedExtent> left_of_other = without_shared(of_other, of_one);
  one_.windows[window] = std::move(left_of_one);
  other_.windows[window] = std::move(left_of_other);
}

// Bytes that are not read are zero on both sides.
Status RankDiff::read(Side& side, size_t window) {
  std::ranges::fill(side.memory, std::byte{0});
  side.contents.pieces = std::exchange(side.windows[window], {});
  Status got = side.of.store.read_all(
      side.of.checkpoint, side.contents, buffers_,
      [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) {
          const uint64_t at = position(side, piece.range, piece.offset) - window * window_;
          std::memcpy(side.memory.data() + at, bytes.data() + piece.at, piece.size);
        }
        return Status();
      });
  if (got.ok()) return got;
  return {got.code(), "checkpoint " + side.of.checkpoint.id + " cannot be used: " + got.message()};
}

void RankDiff::compare(size_t window, bool is_equal) {
  const uint64_t begin = window * window_;
  const uint64_t end = std::min(begin + window_, end_);
  for (size_t i = first_pair_; i < rank_.pairs.size() && starts_[i] < end; ++i) {
    ComparedPair& pair = rank_.pairs[i];
    const uint64_t from = std::max(starts_[i], begin);
    const uint64_t to = std::min(starts_[i] + pair.bytes, end);
    first_pair_ = i;
    if (from >= to) continue;
    if (is_equal) {
      pair.result.skip(to - from);
    } else {
      pair.result.add(std::span(one_.memory).subspan(from - begin, to - from),
                      std::span(other_.memory).subspan(from - begin, to - from));
    }
    advance_(to - from);
  }
}

}  // namespace gpusnap
