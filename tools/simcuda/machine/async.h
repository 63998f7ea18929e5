// Copies that go on by themselves, which are made at once here, and the barriers that count them.
#pragma once

#include "tools/simcuda/machine/op.h"

namespace simcuda {

enum class MessageOp : uint8_t {
  kInit,
  kInvalidate,
  kLook,  // nothing but that it must be there
  kExpect,
  kComplete,
  kArrive,
  kDrop,
  kArriveExpecting,
  kDropExpecting,
  kTestState,
  kTestParity,
};

// slots: result (a state, or a predicate; or none), operand; the address as for load.
Handler message_barrier_handler(MessageOp op);
// slots: count, state.
Handler pending_count_handler();
// slots: generic addresses of target and source, bytes of the source that count (or none: all; the
// rest is zero) and a predicate under which none do (or none; Op::code 1: negated). Op::vector
// bytes are written. The hint, and the one after it, are of the two sides.
Handler copy_handler();
// slots: generic addresses of target and source, bytes, and of the barrier that counts them or
// none.
Handler bulk_copy_handler();

}  // namespace simcuda
