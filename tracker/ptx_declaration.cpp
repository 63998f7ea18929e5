#include "tracker/ptx_declaration.h"

#include <bit>

#include "tracker/ptx_initialiser.h"

namespace gpusnap::ptx {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // of one variable: beyond any device
constexpr uint64_t kMostParameterBytes = uint64_t{1} << 30;
constexpr uint64_t kMostAlign = 1 << 16;
constexpr size_t kMostDimensions = 8;

bool space_from_word(const Token& token, Space& space) {
  for (const Space candidate :
       {Space::kReg, Space::kParam, Space::kLocal, Space::kShared, Space::kGlobal, Space::kConst}) {
    if (token.is_word(name_of(candidate))) {
      space = candidate;
      return true;
    }
  }
  return false;
}

bool parse_align(Cursor& cursor, uint64_t& align) {
  const Token token = cursor.take();
  if (token.kind != TokenKind::kInteger || !std::has_single_bit(token.value) ||
      token.value > kMostAlign) {
    return cursor.fail_at(token.line, token.text, "an alignment must be a power of two");
  }
  align = token.value;
  return true;
}

// Skips the words about the memory that a kernel parameter points to: they say nothing about the
// parameter itself.
bool skip_pointee(Cursor& cursor) {
  Space space = Space::kGeneric;
  if (space_from_word(cursor.peek(), space)) cursor.take();
  uint64_t align = 0;
  return !cursor.accept_word("align") || parse_align(cursor, align);
}

bool parse_qualifier(Cursor& cursor, Variable& variable) {
  const Token& token = cursor.peek();
  if (space_from_word(token, variable.space)) {
    cursor.take();
    return true;
  }
  const Type type = type_from_name(token.text.substr(1));
  if (type != Type::kNone) {
    if (variable.type != Type::kNone) return cursor.fail("a second type");
    variable.type = type;
    cursor.take();
    return true;
  }
  if (token.is_word("samplerref")) return cursor.fail("sampler references are not supported");
  const Token word = cursor.take();
  if (word.is_word("texref") || word.is_word("surfref")) {
    variable.reference = word.is_word("texref") ? Reference::kTexture : Reference::kSurface;
    variable.type = Type::kB64;
    return true;
  }
  if (word.is_word("v2") || word.is_word("v4")) {
    variable.vector = word.is_word("v2") ? 2 : 4;
    return true;
  }
  if (word.is_word("align")) return parse_align(cursor, variable.align);
  if (word.is_word("ptr")) return skip_pointee(cursor);
  if (word.is_word("attribute")) return parse_attributes(cursor, variable);
  return cursor.fail_at(word.line, word.text, "not a word that may stand in a declaration");
}

bool parse_dimensions(Cursor& cursor, std::vector<uint64_t>& dimensions) {
  while (cursor.accept("[")) {
    int64_t count = 0;
    const bool unsized = cursor.peek().is("]");
    if (!unsized && !parse_integer(cursor, count)) return false;
    if (count < 0 || (unsized && !dimensions.empty())) return cursor.fail("bad array dimension");
    dimensions.push_back(static_cast<uint64_t>(count));
    if (!cursor.expect("]")) return false;
    if (dimensions.size() > kMostDimensions) return cursor.fail("too many array dimensions");
  }
  return true;
}

bool parse_array_and_value(Cursor& cursor, Variable& variable, InitialBudget* budget) {
  std::vector<uint64_t> dimensions;
  if (!parse_dimensions(cursor, dimensions)) return false;
  const uint64_t element = uint64_t{size_of(variable.type)} * variable.vector;
  if (element == 0 && variable.space != Space::kReg) {
    return cursor.fail("a variable in memory needs a type with a size");
  }
  uint64_t inner = 1;  // elements of all dimensions but the first
  for (size_t i = dimensions.size(); i-- > 0;) {
    const uint64_t most = kMostBytes / (element == 0 ? 1 : element) / (inner == 0 ? 1 : inner);
    if (dimensions[i] > most) return cursor.fail("the array is too large");
    if (i > 0) inner *= dimensions[i];
  }
  variable.elements = dimensions.empty() ? 1 : dimensions[0] * inner;
  variable.size = variable.elements * element;
  if (!cursor.peek().is("=")) return true;
  if (budget == nullptr) return cursor.fail("no initial value may stand here");
  cursor.take();
  return parse_initialiser(cursor, variable, dimensions, *budget);
}

}  // namespace

bool parse_attributes(Cursor& cursor, Variable& variable) {
  if (!cursor.expect("(")) return false;
  do {
    if (cursor.accept_word("managed")) {
      variable.managed = true;
    } else if (cursor.accept_word("unified")) {
      if (!cursor.expect("(")) return false;
      while (cursor.peek().kind == TokenKind::kInteger || cursor.peek().is(",")) cursor.take();
      if (!cursor.expect(")")) return false;
    } else {
      return cursor.fail("unknown attribute");
    }
  } while (cursor.accept(","));
  return cursor.expect(")");
}

bool linkage_from_word(const Token& token, Linkage& linkage) {
  if (token.is_word("visible")) {
    linkage = Linkage::kVisible;
  } else if (token.is_word("extern")) {
    linkage = Linkage::kExtern;
  } else if (token.is_word("weak")) {
    linkage = Linkage::kWeak;
  } else if (token.is_word("common")) {
    linkage = Linkage::kCommon;
  } else {
    return false;
  }
  return true;
}

bool parse_qualifiers(Cursor& cursor, Variable& variable) {
  variable.align = 0;
  variable.line = cursor.peek().line;
  while (cursor.peek().kind == TokenKind::kDotWord) {
    if (!parse_qualifier(cursor, variable)) return false;
  }
  if (variable.type == Type::kNone) return cursor.fail("a declaration needs a type");
  if (variable.reference != Reference::kNone && variable.space != Space::kGlobal) {
    return cursor.fail("a texture or surface reference must be .global");
  }
  if (variable.align == 0) {
    const uint64_t natural = uint64_t{size_of(variable.type)} * variable.vector;
    variable.align = natural == 0 ? 1 : natural;
  }
  return true;
}

bool parse_declarator(Cursor& cursor, Variable& variable, std::string_view& view,
                      InitialBudget* budget) {
  variable.line = cursor.peek().line;
  if (!cursor.expect_identifier(view)) return false;
  variable.name = view;
  return parse_array_and_value(cursor, variable, budget);
}

bool parse_parameters(Cursor& cursor, std::vector<Variable>& parameters,
                      std::vector<std::string_view>& names, uint64_t& bytes) {
  bytes = 0;
  if (!cursor.expect("(")) return false;
  if (cursor.accept(")")) return true;
  do {
    Variable parameter;
    parameter.space = Space::kGeneric;
    std::string_view name;
    if (!parse_qualifiers(cursor, parameter)) return false;
    if (parameter.space != Space::kParam && parameter.space != Space::kReg) {
      return cursor.fail("a parameter must be .param or .reg");
    }
    if (!parse_declarator(cursor, parameter, name, nullptr)) return false;
    if (parameter.space == Space::kParam) {
      parameter.offset = (bytes + parameter.align - 1) & ~(parameter.align - 1);
      bytes = parameter.offset + parameter.size;
      if (bytes > kMostParameterBytes) return cursor.fail("the parameters are too large");
    }
    parameters.push_back(std::move(parameter));
    names.push_back(name);
  } while (cursor.accept(","));
  return cursor.expect(")");
}

}  // namespace gpusnap::ptx
