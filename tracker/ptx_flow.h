// Where one kernel may write: a data flow over its PTX and that of the functions that it calls.
//
// It does not look at the order of instructions: a register holds what any of its assignments gives
// it, which is nearly exact for compilers' output, where each register is assigned once. Functions
// are looked at once for all of their callers. The content of memory is not known, but for memory
// that a thread keeps to itself (its local variables, arguments and results of calls), by place.
//
// It stands on what C++ says of pointers: arithmetic on a pointer stays in the object that it
// points to. A value therefore carries the set of pointers that it was made of (ptx_value.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracker/ptx.h"
#include "tracker/ptx_value.h"

namespace gpusnap::ptx {

// The sources of one store or more that are the same.
struct Target {
  std::vector<uint32_t> words;     // byte offsets in the parameter block
  std::vector<uint32_t> any_word;  // parameters of which any word may be meant
  bool hidden = false;             // the address may be none of these (ptx_value.h)
  auto operator<=>(const Target&) const = default;
};

struct Writes {
  std::map<Target, uint32_t> targets;         // and the line of the first such store
  std::map<std::string, uint32_t> variables;  // of the module, likewise
  std::vector<uint32_t> numbers;  // words that went into those addresses otherwise than by addition
  // Not empty: at least one store could not be followed; the first, and why.
  std::string unresolved;
};

// `kernel` is the index in module.functions of one with a body. Bounded in time and memory whatever
// the text is.
Writes analyse(const Module& module, uint32_t kernel);

}  // namespace gpusnap::ptx
