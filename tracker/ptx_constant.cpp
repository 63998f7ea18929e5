#include "tracker/ptx_constant.h"

#include <array>
#include <functional>

namespace gpusnap::ptx {
namespace {

// Deep enough for anything written by hand or by a compiler; bounds the recursion.
constexpr uint32_t kMostDepth = 64;

struct Operator {
  std::string_view text;
  uint32_t precedence;
};
constexpr std::array<Operator, 18> kOperators = {{{"||", 1},
                                                  {"&&", 2},
                                                  {"|", 3},
                                                  {"^", 4},
                                                  {"&", 5},
                                                  {"==", 6},
                                                  {"!=", 6},
                                                  {"<", 7},
                                                  {">", 7},
                                                  {"<=", 7},
                                                  {">=", 7},
                                                  {"<<", 8},
                                                  {">>", 8},
                                                  {"+", 9},
                                                  {"-", 9},
                                                  {"*", 10},
                                                  {"/", 10},
                                                  {"%", 10}}};

uint32_t precedence_of(const Token& token) {
  if (token.kind != TokenKind::kPunctuation) return 0;
  for (const Operator& candidate : kOperators) {
    if (candidate.text == token.text) return candidate.precedence;
  }
  return 0;
}

Constant integer(uint64_t value, bool is_unsigned) {
  Constant constant;
  constant.value = value;
  constant.is_unsigned = is_unsigned;
  return constant;
}

uint64_t divide(const Constant& left, const Constant& right, bool is_unsigned, bool remainder) {
  if (is_unsigned) return remainder ? left.value % right.value : left.value / right.value;
  // The one signed quotient that does not fit wraps.
  if (right.value == UINT64_MAX) return remainder ? 0 : uint64_t{0} - left.value;
  const auto l = static_cast<int64_t>(left.value);
  const auto r = static_cast<int64_t>(right.value);
  return static_cast<uint64_t>(remainder ? l % r : l / r);
}

uint64_t shift(const Constant& left, uint64_t count, bool to_left) {
  const bool fill = !to_left && left.negative();
  if (count > 63) return fill ? UINT64_MAX : 0;
  if (to_left) return left.value << count;
  const uint64_t shifted = left.value >> count;
  return fill && count > 0 ? shifted | (UINT64_MAX << (64 - count)) : shifted;
}

template <class Compare>
Constant compare(const Constant& left, const Constant& right, bool is_unsigned, Compare holds) {
  const bool result =
      is_unsigned ? holds(left.value, right.value)
                  : holds(static_cast<int64_t>(left.value), static_cast<int64_t>(right.value));
  return integer(result ? 1 : 0, false);
}

Constant evaluate(std::string_view op, const Constant& left, const Constant& right) {
  const bool is_unsigned = left.is_unsigned || right.is_unsigned;
  if (op == "+") return integer(left.value + right.value, is_unsigned);
  if (op == "-") return integer(left.value - right.value, is_unsigned);
  if (op == "*") return integer(left.value * right.value, is_unsigned);
  if (op == "/") return integer(divide(left, right, is_unsigned, false), is_unsigned);
  if (op == "%") return integer(divide(left, right, is_unsigned, true), is_unsigned);
  if (op == "&") return integer(left.value & right.value, is_unsigned);
  if (op == "|") return integer(left.value | right.value, is_unsigned);
  if (op == "^") return integer(left.value ^ right.value, is_unsigned);
  if (op == "<<") return integer(shift(left, right.value, true), left.is_unsigned);
  if (op == ">>") return integer(shift(left, right.value, false), left.is_unsigned);
  if (op == "&&") return integer(left.value != 0 && right.value != 0 ? 1 : 0, false);
  if (op == "||") return integer(left.value != 0 || right.value != 0 ? 1 : 0, false);
  if (op == "==") return integer(left.value == right.value ? 1 : 0, false);
  if (op == "!=") return integer(left.value != right.value ? 1 : 0, false);
  if (op == "<") return compare(left, right, is_unsigned, std::less<>{});
  if (op == ">") return compare(left, right, is_unsigned, std::greater<>{});
  if (op == "<=") return compare(left, right, is_unsigned, std::less_equal<>{});
  return compare(left, right, is_unsigned, std::greater_equal<>{});
}

class ExpressionParser {
 public:
  explicit ExpressionParser(Cursor& cursor) : cursor_(cursor) {}

  bool parse(Constant& constant) { return parse_conditional(constant); }

 private:
  bool parse_conditional(Constant& constant);
  bool parse_binary(Constant& left, uint32_t lowest);
  bool parse_unary(Constant& constant);
  bool parse_parenthesis(Constant& constant);
  bool apply_unary(std::string_view op, Constant& constant);
  bool enter() {
    return ++depth_ <= kMostDepth || cursor_.fail("the expression is nested too deeply");
  }

  Cursor& cursor_;
  uint32_t depth_ = 0;
};

bool ExpressionParser::parse_conditional(Constant& constant) {
  if (!enter() || !parse_binary(constant, 1)) return false;
  if (cursor_.accept("?")) {
    if (constant.is_float) return cursor_.fail("a condition must be an integer");
    Constant yes;
    Constant no;
    if (!parse_conditional(yes) || !cursor_.expect(":") || !parse_conditional(no)) return false;
    constant = constant.value != 0 ? yes : no;
  }
  --depth_;
  return true;
}

bool ExpressionParser::parse_binary(Constant& left, uint32_t lowest) {
  if (!enter() || !parse_unary(left)) return false;
  for (uint32_t level = precedence_of(cursor_.peek()); level >= lowest && level != 0;
       level = precedence_of(cursor_.peek())) {
    const Token op = cursor_.take();
    Constant right;
    if (!parse_binary(right, level + 1)) return false;
    if (left.is_float || right.is_float) {
      return cursor_.fail_at(op.line, op.text, "float literals take no operator but a sign");
    }
    if ((op.text == "/" || op.text == "%") && right.value == 0) {
      return cursor_.fail_at(op.line, op.text, "division by zero");
    }
    left = evaluate(op.text, left, right);
  }
  --depth_;
  return true;
}

bool ExpressionParser::apply_unary(std::string_view op, Constant& constant) {
  if (constant.is_float) {
    if (op == "-") constant.value ^= uint64_t{1} << (constant.is_double ? 63 : 31);
    return op == "-" || op == "+" || cursor_.fail("float literals take no operator but a sign");
  }
  if (op == "-") constant = integer(uint64_t{0} - constant.value, false);
  if (op == "!") constant = integer(constant.value == 0 ? 1 : 0, false);
  if (op == "~") constant.value = ~constant.value;
  return true;
}

bool ExpressionParser::parse_unary(Constant& constant) {
  const Token& token = cursor_.peek();
  if (token.is("-") || token.is("+") || token.is("!") || token.is("~")) {
    const Token op = cursor_.take();
    if (!enter() || !parse_unary(constant)) return false;
    --depth_;
    return apply_unary(op.text, constant);
  }
  if (token.is("(")) return parse_parenthesis(constant);
  if (token.kind != TokenKind::kInteger && token.kind != TokenKind::kFloat) {
    return cursor_.fail("expected a constant");
  }
  const Token literal = cursor_.take();
  constant.is_float = literal.kind == TokenKind::kFloat;
  constant.is_double = literal.is_double;
  constant.is_unsigned = literal.is_unsigned;
  constant.value = literal.value;
  return true;
}

// A parenthesised expression, or a cast: (.u64) 1.
bool ExpressionParser::parse_parenthesis(Constant& constant) {
  cursor_.take();
  if (cursor_.peek().kind != TokenKind::kDotWord) {
    return parse_conditional(constant) && cursor_.expect(")");
  }
  const bool is_unsigned = cursor_.peek().is_word("u64");
  if (!is_unsigned && !cursor_.peek().is_word("s64")) {
    return cursor_.fail("constants are cast to .s64 or .u64 only");
  }
  cursor_.take();
  if (!cursor_.expect(")") || !enter() || !parse_unary(constant)) return false;
  --depth_;
  if (constant.is_float) return cursor_.fail("float literals are not cast");
  constant.is_unsigned = is_unsigned;
  return true;
}

}  // namespace

bool parse_constant(Cursor& cursor, Constant& constant) {
  return ExpressionParser(cursor).parse(constant);
}

bool parse_integer(Cursor& cursor, int64_t& value) {
  Constant constant;
  if (!parse_constant(cursor, constant)) return false;
  if (constant.is_float) return cursor.fail("expected an integer");
  value = static_cast<int64_t>(constant.value);
  return true;
}

}  // namespace gpusnap::ptx
