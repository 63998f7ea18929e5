// Variables and parameters: qualifiers, names, array dimensions, initialisers, layout.
#pragma once

#include <cstdint>
#include <vector>

#include "tracker/ptx.h"
#include "tracker/ptx_cursor.h"

namespace gpusnap::ptx {

// Bounds the memory for the initial values of a module. A sized array with one initial value takes
// its whole size, so that a short text could ask for any amount.
class InitialBudget {
 public:
  explicit InitialBudget(uint64_t text_bytes) : left_(kBase + kPerByte * text_bytes) {}
  bool take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  static constexpr uint64_t kBase = uint64_t{64} << 20;
  static constexpr uint64_t kPerByte = 16;
  uint64_t left_;
};

// Parses the words before a name (".global .align 4 .u32") into `variable`.
bool parse_qualifiers(Cursor& cursor, Variable& variable);

// Parses what follows the word .attribute.
bool parse_attributes(Cursor& cursor, Variable& variable);

// Parses name, dimensions and initialiser. `view` is the name as a view into the text. `budget`
// is null where no initialiser may stand.
bool parse_declarator(Cursor& cursor, Variable& variable, std::string_view& view,
                      InitialBudget* budget);

// Parses "(.param .u64 a, .param .u32 b)"; parameters get their offsets. `names` gets the names
// as views into the text, "_" for the nameless, and `bytes` the size of the block.
bool parse_parameters(Cursor& cursor, std::vector<Variable>& parameters,
                      std::vector<std::string_view>& names, uint64_t& bytes);

// Sets `linkage` to what the word says; false when it is no linkage word.
bool linkage_from_word(const Token& token, Linkage& linkage);

}  // namespace gpusnap::ptx
