#include "tracker/ptx_flow_object.h"

#include <algorithm>

namespace gpusnap::ptx {
namespace {

constexpr int64_t kMostPieceBytes = 16;
constexpr int64_t kFarthest = int64_t{1} << 40;

// Places beyond any memory of a thread count as unknown ones.
std::optional<int64_t> sane(std::optional<int64_t> offset) {
  if (offset && (*offset > kFarthest || *offset < -kFarthest)) return std::nullopt;
  return offset;
}

// Returns what a read of `size` bytes may give if it gets a part of `value`, or more than it.
Value fragment(const Value& value, uint32_t size, uint32_t line) {
  Value part = value.as_number(0);
  if (size < kPointerBytes) return part;
  part.add_doubt(value.doubt, value.doubt_line);
  if (value.exact && value.exact->size < kPointerBytes) {
    // Half of a word of the parameter block: together with its other half it is that word.
    for (const uint32_t word : value.numbers) part.add_source({Source::Kind::kWord, word, {}});
  } else if (!value.sources.empty()) {
    part.add_doubt(Doubt::kAssembled, line);
  }
  return part;
}

}  // namespace

Object::Piece* Object::find(int64_t offset, uint32_t size) {
  auto [at, end] = pieces_.equal_range(offset);
  for (; at != end; ++at) {
    if (at->second.size == size) return &at->second;
  }
  return nullptr;
}

bool Object::store(std::optional<int64_t> offset, uint32_t size, const Value& value) {
  if (!value.assigned) return false;
  offset = sane(offset);
  Piece* piece = offset ? find(*offset, size) : nullptr;
  if (piece != nullptr) return piece->value.join(value);
  if (!offset || pieces_.size() == kMostPieces) return anywhere_[size].join(value);
  pieces_.emplace(*offset, Piece{size, value});
  return true;
}

bool Object::store_all(const Object& other) {
  bool changed = false;
  for (const auto& [offset, piece] : other.pieces_) {
    changed |= store(offset, piece.size, piece.value);
  }
  for (const auto& [size, value] : other.anywhere_) changed |= store({}, size, value);
  return changed;
}

std::optional<Value> Object::copied_bytes(int64_t offset, uint32_t size) const {
  if (!anywhere_.empty()) return std::nullopt;
  std::optional<int64_t> shift;  // from here to the parameter block
  int64_t covered = offset;
  Value numbers = Value::number();
  for (auto at = pieces_.lower_bound(offset - kMostPieceBytes);
       at != pieces_.end() && at->first < offset + size; ++at) {
    const Piece& piece = at->second;
    if (at->first + piece.size <= offset) continue;
    if (!piece.value.exact || piece.value.exact->size != piece.size) return std::nullopt;
    const int64_t by = piece.value.exact->offset - at->first;
    if ((shift && *shift != by) || at->first > covered) return std::nullopt;
    shift = by;
    covered = std::max(covered, at->first + piece.size);
    numbers.absorb(piece.value.as_number(0));
  }
  if (!shift || covered < offset + size) return std::nullopt;
  const auto from = static_cast<uint32_t>(offset + *shift);
  if (size == kPointerBytes) {
    numbers = Value::of({Source::Kind::kWord, from, {}});
  }
  numbers.exact = Value::Bytes{from, size};
  return numbers;
}

Value Object::load(std::optional<int64_t> offset, uint32_t size, uint32_t line) const {
  offset = sane(offset);
  Value result;
  const auto add = [&](uint32_t stored, const Value& value) {
    result.join(stored == size ? value : fragment(value, size, line));
  };
  if (offset) {
    bool whole = true;
    const auto begin = pieces_.lower_bound(*offset - kMostPieceBytes);
    for (auto at = begin; at != pieces_.end() && at->first < *offset + size; ++at) {
      if (at->first + at->second.size <= *offset) continue;
      whole = whole && at->first == *offset && at->second.size == size;
    }
    if (!whole) {
      if (std::optional<Value> bytes = copied_bytes(*offset, size)) return *bytes;
    }
    for (auto at = begin; at != pieces_.end() && at->first < *offset + size; ++at) {
      if (at->first + at->second.size <= *offset) continue;
      // A piece of the same size that begins elsewhere is only partly here.
      const bool same = at->first == *offset;
      add(same ? at->second.size : 0, at->second.value);
    }
  } else {
    for (const auto& [at, piece] : pieces_) add(piece.size, piece.value);
  }
  for (const auto& [stored, value] : anywhere_) add(stored, value);
  return result;
}

}  // namespace gpusnap::ptx
