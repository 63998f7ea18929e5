// The kinds of instructions that the write-set analysis tells apart.
#pragma once

#include <cstdint>
#include <string_view>

#include "tracker/ptx.h"

namespace gpusnap::ptx {

enum class Effect : uint8_t {
  kNone,     // control flow, barriers, fences, prefetches: no value, nothing written
  kLoad,     // the first operand from the second, an address
  kStore,    // to the first operand, an address
  kAtomic,   // to the second operand, an address; what was there goes to the first
  kMove,     // mov
  kConvert,  // cvt
  kAddress,  // cvta
  kSum,      // adds, or selects among, its operands
  kProduct,  // mad: the product of two and a third
  kBits,     // and, or, xor
  kNumber,   // computes from its operands what is no address any more
  kScratch,  // gives an address in shared memory or on the stack
  kCall,
  kOther,  // not known
};

// `space` of what a store, load or atomic is about: kGeneric where it says none, kShared for all
// forms of it.
struct Meaning {
  Effect effect = Effect::kOther;
  Space space = Space::kGeneric;
  const char* refused = nullptr;  // why a store cannot be followed whatever its address is
};

Meaning meaning_of(const Instruction& instruction);

// The last type among the modifiers: what is loaded or stored, what cvt converts from.
Type last_type(const Instruction& instruction);
bool has_modifier(const Instruction& instruction, std::string_view word);

}  // namespace gpusnap::ptx
