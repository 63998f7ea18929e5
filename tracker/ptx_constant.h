// Constant expressions of PTX (section "Constant Expressions" of the PTX manual).
#pragma once

#include <cstdint>

#include "tracker/ptx_cursor.h"

namespace gpusnap::ptx {

struct Constant {
  bool is_float = false;
  bool is_double = false;    // floats: the width of `value`
  bool is_unsigned = false;  // integers: .u64 rather than .s64
  uint64_t value = 0;        // two's complement, or the bits of the float

  bool negative() const { return !is_float && !is_unsigned && static_cast<int64_t>(value) < 0; }
};

// Parses and evaluates a whole expression: literals, unary and binary operators, casts, the
// conditional operator. Float literals take a sign and parentheses only.
bool parse_constant(Cursor& cursor, Constant& constant);

// The same, and it must be an integer.
bool parse_integer(Cursor& cursor, int64_t& value);

}  // namespace gpusnap::ptx
