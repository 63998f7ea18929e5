// The names that are visible at a place in a function body: scopes nest, registers come in ranges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracker/ptx.h"

namespace gpusnap::ptx {

struct Name {
  enum class Kind : uint8_t { kRegister, kSymbol } kind = Kind::kRegister;
  RegisterIndex first = kNoIndex;  // kRegister
  uint32_t width = 1;              // kRegister: 2 or 4 for a vector, in registers that follow
  Symbol symbol;                   // kSymbol
};

// Registers of a range are made when they are first used: `.reg .b32 %r<1000000>` costs nothing.
class Scopes {
 public:
  explicit Scopes(Function& function) : function_(function) {}

  void push();
  void pop() { open_.pop_back(); }
  size_t depth() const { return open_.size(); }
  uint32_t current() const { return open_.back().id; }
  // The scope around scope `id`, kNoIndex for the outermost.
  uint32_t parent(uint32_t id) const { return parents_[id]; }

  // In the current scope; false when the name is taken there.
  bool declare_symbol(std::string_view name, Symbol symbol);
  bool declare_register(std::string_view name, Type type, uint32_t width);
  bool declare_range(std::string_view prefix, Type type, uint32_t width, uint64_t count);

  std::optional<Name> find(std::string_view name);

 private:
  struct Range {
    Type type = Type::kNone;
    uint32_t width = 1;
    uint64_t count = 0;
  };
  struct Scope {
    uint32_t id = 0;
    std::unordered_map<std::string_view, Name> names;
    std::unordered_map<std::string_view, Range> ranges;  // by prefix
  };

  static const Range* find_range(const Scope& scope, std::string_view name);
  Name make_register(std::string_view name, Type type, uint32_t width);

  Function& function_;
  std::vector<Scope> open_;        // innermost last
  std::vector<uint32_t> parents_;  // by scope id, also of scopes that are closed
};

// Labels of a function: of instructions, of branch target lists and of call prototypes.
class Labels {
 public:
  enum class Kind : uint8_t { kInstruction, kTargets, kPrototype };
  struct Label {
    Kind kind = Kind::kInstruction;
    uint32_t index = kNoIndex;
  };

  // False when that scope has the label already.
  bool declare(uint32_t scope, std::string_view name, Label label) {
    return labels_.emplace(std::pair(scope, name), label).second;
  }
  // As seen from scope `scope`.
  const Label* find(const Scopes& scopes, uint32_t scope, std::string_view name) const;

 private:
  std::map<std::pair<uint32_t, std::string_view>, Label> labels_;
};

}  // namespace gpusnap::ptx
