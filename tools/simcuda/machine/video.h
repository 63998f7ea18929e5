// Video instructions: arithmetic on words, half-words and bytes, which are picked from registers
// and put into them.
#pragma once

#include <cstdint>

#include "tools/simcuda/machine/handlers.h"
#include "tools/simcuda/machine/op.h"

namespace simcuda {

// One such instruction: more than an Op can say.
struct VideoSite {
  enum class Code : uint8_t {
    kAdd,
    kSub,
    kApart,
    kMin,
    kMax,
    kAverage,
    kShiftLeft,
    kShiftRight,
    kCompare,
    kMad,
  };
  // The operation on the result and c.
  enum class Second : uint8_t { kMerge, kAdd, kMin, kMax };
  // Where the elements of one source are, in bits from the beginning of a; b follows a.
  struct Source {
    bool is_signed = false;
    uint32_t bits = 32;  // of one
    uint32_t at[4] = {};
  };

  Code code = Code::kAdd;
  Compare compare = Compare::kEq;
  int32_t d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot;  // c: or none
  Source x, y;
  uint32_t elements = 1;
  uint32_t mask = 1;  // of the elements that count
  // The elements of the destination; c gives the elements that are left out.
  uint32_t bits = 32;
  uint32_t at[4] = {};
  bool is_signed = false;
  bool saturates = false;
  Second second = Second::kMerge;
  bool wraps = false;  // a shift counts modulo 32
  // vmad: whether a * b and c count as signed, and what is done with them.
  bool negates_product = false, negates_sum = false, plus_one = false;
  uint32_t scale = 0;  // bits that the sum is shifted to the right
};

// Op::immediate is the address of a VideoSite that lives as long as the code.
Handler video_handler();

}  // namespace simcuda
