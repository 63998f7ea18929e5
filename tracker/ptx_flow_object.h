// Memory that a thread of a kernel keeps to itself: a local variable, the arguments and results of
// a call. Whether a pointer that was put there comes out again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tracker/ptx_value.h"

namespace gpusnap::ptx {

class Object {
 public:
  // `size` in bytes; an empty offset: anywhere. Both return whether anything was new.
  bool store(std::optional<int64_t> offset, uint32_t size, const Value& value);
  bool store_all(const Object& other);
  // Not assigned where nothing was stored.
  Value load(std::optional<int64_t> offset, uint32_t size, uint32_t line) const;

 private:
  static constexpr size_t kMostPieces = 1024;
  struct Piece {
    uint32_t size = 0;
    Value value;
  };
  // The bytes of the parameter block that lie at the place, where they were copied in pieces.
  std::optional<Value> copied_bytes(int64_t offset, uint32_t size) const;
  Piece* find(int64_t offset, uint32_t size);

  std::multimap<int64_t, Piece> pieces_;  // by offset; they may overlap
  std::map<uint32_t, Value> anywhere_;    // by size
};

}  // namespace gpusnap::ptx
