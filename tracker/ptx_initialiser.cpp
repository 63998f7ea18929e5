#include "tracker/ptx_initialiser.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpusnap::ptx {
namespace {

bool is_real(Type type) {
  return type == Type::kF32 || type == Type::kF64;
}
bool is_untyped(Type type) {
  return type == Type::kB32 || type == Type::kB64;
}

double as_double(const Constant& constant) {
  if (!constant.is_float) {
    return constant.is_unsigned ? static_cast<double>(constant.value)
                                : static_cast<double>(static_cast<int64_t>(constant.value));
  }
  if (constant.is_double) return std::bit_cast<double>(constant.value);
  return std::bit_cast<float>(static_cast<uint32_t>(constant.value));
}

class InitialiserParser {
 public:
  InitialiserParser(Cursor& cursor, Variable& variable, std::vector<uint64_t> dimensions,
                    InitialBudget& budget)
      : cursor_(cursor),
        variable_(variable),
        dimensions_(std::move(dimensions)),
        budget_(budget),
        element_(size_of(variable.type)) {
    if (variable.vector > 1) dimensions_.push_back(variable.vector);
    unsized_ = variable.elements == 0 && !dimensions_.empty() && dimensions_[0] == 0;
  }

  bool parse();

 private:
  bool parse_braces(size_t level, uint64_t base);
  bool parse_element(uint64_t index);
  bool parse_address(uint64_t offset);
  bool parse_masked_address(uint64_t offset);
  bool parse_symbol(Relocation& relocation);
  bool add_masked(const Relocation& relocation, uint64_t byte);
  bool store(uint64_t offset, const Constant& constant);
  bool reach(uint64_t bytes);
  // How many scalars one step of this level of braces spans.
  uint64_t stride(size_t level) const {
    uint64_t scalars = 1;
    for (size_t i = level + 1; i < dimensions_.size(); ++i) scalars *= dimensions_[i];
    return scalars;
  }

  Cursor& cursor_;
  Variable& variable_;
  std::vector<uint64_t> dimensions_;
  InitialBudget& budget_;
  uint64_t element_;
  bool unsized_ = false;
  bool last_was_masked_ = false;
};

// Makes sure that `initial` holds that many bytes; false when they are more than may be had.
bool InitialiserParser::reach(uint64_t bytes) {
  if (bytes <= variable_.initial.size()) return true;
  if (!budget_.take(bytes - variable_.initial.size())) {
    return cursor_.fail("the initial values of the module are too large");
  }
  variable_.initial.resize(bytes);
  return true;
}

bool InitialiserParser::parse() {
  if (unsized_ && stride(0) == 0) return cursor_.fail("an array of nothing has no values");
  if (!unsized_ && !reach(variable_.size)) return false;
  if (dimensions_.empty()) return parse_element(0);
  if (!parse_braces(0, 0)) return false;
  if (unsized_) {
    const uint64_t step = stride(0) * element_;
    const uint64_t used = variable_.initial.size();
    const uint64_t rows = step == 0 ? 0 : (used + step - 1) / step;
    if (!reach(rows * step)) return false;
    variable_.size = variable_.initial.size();
    variable_.elements = variable_.size / element_ / variable_.vector;
  }
  return true;
}

bool InitialiserParser::parse_braces(size_t level, uint64_t base) {
  if (!cursor_.expect("{")) return false;
  const uint64_t step = stride(level);
  const uint64_t room = level == 0 && unsized_ ? UINT64_MAX : dimensions_[level] * step;
  uint64_t position = 0;
  while (!cursor_.peek().is("}")) {
    if (position >= room) return cursor_.fail("more initial values than elements");
    if (cursor_.peek().is("{")) {
      if (level + 1 >= dimensions_.size()) return cursor_.fail("too many braces");
      if (position % step != 0) return cursor_.fail("braces in the middle of a row");
      if (!parse_braces(level + 1, base + position)) return false;
      position += step;
      if (!reach(unsized_ ? (base + position) * element_ : 0)) return false;
    } else {
      if (!parse_element(base + position)) return false;
      ++position;
    }
    if (!cursor_.accept(",")) break;
  }
  return cursor_.expect("}");
}

bool InitialiserParser::parse_element(uint64_t index) {
  const uint64_t offset = index * element_;
  if (!reach(offset + element_)) return false;
  const Token& token = cursor_.peek();
  if (token.kind == TokenKind::kIdentifier) {
    last_was_masked_ = false;
    return parse_address(offset);
  }
  if (token.kind == TokenKind::kInteger && cursor_.second().is("(")) {
    return parse_masked_address(offset);
  }
  last_was_masked_ = false;
  Constant constant;
  return parse_constant(cursor_, constant) && store(offset, constant);
}

bool InitialiserParser::parse_symbol(Relocation& relocation) {
  std::string_view name;
  if (cursor_.peek().is_identifier("generic") && cursor_.second().is("(")) {
    cursor_.take();
    cursor_.take();
    relocation.generic = true;
  }
  if (!cursor_.expect_identifier(name)) return false;
  relocation.symbol = name;
  // The addend may stand inside generic() or after it.
  const auto addend = [&] {
    if (!cursor_.peek().is("+") && !cursor_.peek().is("-")) return true;
    int64_t value = 0;
    if (!parse_integer(cursor_, value)) return false;
    relocation.addend = static_cast<int64_t>(static_cast<uint64_t>(relocation.addend) +
                                             static_cast<uint64_t>(value));
    return true;
  };
  if (!addend()) return false;
  return !relocation.generic || (cursor_.expect(")") && addend());
}

bool InitialiserParser::parse_address(uint64_t offset) {
  if (element_ != 4 && element_ != 8) {
    return cursor_.fail("an address needs an element of 4 or 8 bytes");
  }
  Relocation relocation;
  relocation.offset = offset;
  relocation.bytes = static_cast<uint32_t>(element_);
  if (!parse_symbol(relocation)) return false;
  variable_.relocations.push_back(std::move(relocation));
  return true;
}

// 0xFF(symbol), 0xFF00(symbol), ...: one byte of an address.
bool InitialiserParser::parse_masked_address(uint64_t offset) {
  const Token mask = cursor_.take();
  const auto shift = static_cast<uint32_t>(std::countr_zero(mask.value));
  if (shift % 8 != 0 || shift > 56 || mask.value != uint64_t{0xFF} << shift || element_ != 1) {
    return cursor_.fail_at(mask.line, mask.text, "the mask of an address must select one byte");
  }
  Relocation relocation;
  relocation.offset = offset;
  relocation.bytes = 1;
  cursor_.take();
  if (!parse_symbol(relocation) || !cursor_.expect(")")) return false;
  return add_masked(relocation, shift / 8);
}

// The bytes of an address come one after the other, lowest first; together they are one relocation.
bool InitialiserParser::add_masked(const Relocation& relocation, uint64_t byte) {
  if (byte == 0) {
    variable_.relocations.push_back(relocation);
    last_was_masked_ = true;
    return true;
  }
  if (!last_was_masked_) return cursor_.fail("the bytes of an address must start with the lowest");
  Relocation& whole = variable_.relocations.back();
  if (whole.bytes != byte || whole.offset + byte != relocation.offset ||
      whole.symbol != relocation.symbol || whole.addend != relocation.addend ||
      whole.generic != relocation.generic) {
    return cursor_.fail("the bytes of an address must follow each other");
  }
  ++whole.bytes;
  return true;
}

bool InitialiserParser::store(uint64_t offset, const Constant& constant) {
  uint64_t bits = constant.value;
  if (variable_.type == Type::kF32) {
    // Bits of a single are kept as they are, NaN payload and all.
    if (!constant.is_float || constant.is_double) {
      bits = std::bit_cast<uint32_t>(static_cast<float>(as_double(constant)));
    }
  } else if (variable_.type == Type::kF64) {
    if (!constant.is_float || !constant.is_double) {
      bits = std::bit_cast<uint64_t>(as_double(constant));
    }
  } else if (constant.is_float &&
             (!is_untyped(variable_.type) || element_ != (constant.is_double ? 8U : 4U))) {
    return cursor_.fail("a float does not fit the type of the variable");
  }
  uint8_t bytes[16];
  const uint8_t fill = !is_real(variable_.type) && constant.negative() ? 0xFF : 0;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    bytes[i] = i < 8 ? static_cast<uint8_t>(bits >> (8 * i)) : fill;
  }
  std::memcpy(variable_.initial.data() + offset, bytes, element_);
  return true;
}

}  // namespace

bool parse_initialiser(Cursor& cursor, Variable& variable, std::vector<uint64_t> dimensions,
                       InitialBudget& budget) {
  return InitialiserParser(cursor, variable, std::move(dimensions), budget).parse();
}

}  // namespace gpusnap::ptx
