#include "tracker/ptx_lexer.h"

#include <bit>
#include <charconv>
#include <system_error>

namespace gpusnap::ptx {
namespace {

// The C locale's classes, whatever locale the program that we are loaded into has set.
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_name_start(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool is_name_char(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

uint32_t digit_value(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint32_t>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<uint32_t>(c - 'A') + 10;
  return 16;
}

}  // namespace

bool Lexer::skip_comment() {
  if (peek() != '/' || (peek(1) != '/' && peek(1) != '*')) return false;
  if (peek(1) == '/') {
    skip_line();
    return true;
  }
  at_ += 2;
  while (at_ < text_.size() && !(peek() == '*' && peek(1) == '/')) {
    if (text_[at_++] == '\n') ++line_;
  }
  at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
  return true;
}

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = true;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (line_start_ && (c == '#' || (c == '@' && peek(1) == '@'))) {
      // Line marks of a preprocessor, and the debug lines of the first PTX versions.
      skip_line();
    } else if (!skip_comment()) {
      return;
    }
  }
}

void Lexer::skip_line() {
  while (at_ < text_.size() && text_[at_] != '\n') ++at_;
}

Token Lexer::next() {
  skip_blank();
  line_start_ = false;
  Token token;
  token.line = line_;
  if (at_ == text_.size()) return token;
  const char c = peek();
  if (is_name_start(c)) {
    const size_t start = at_++;
    while (is_name_char(peek())) ++at_;
    finish(token, start);
    // A lone percent sign is the remainder operator.
    token.kind = token.text == "%" ? TokenKind::kPunctuation : TokenKind::kIdentifier;
  } else if (is_digit(c)) {
    scan_number(token);
  } else if (c == '.') {
    scan_dot_word(token);
  } else if (c == '"') {
    scan_string(token);
  } else {
    scan_punctuation(token);
  }
  return token;
}

void Lexer::scan_dot_word(Token& token) {
  const size_t start = at_++;
  while (is_name_char(peek()) || (peek() == ':' && peek(1) == ':' && is_name_char(peek(2)))) {
    at_ += peek() == ':' ? 3 : 1;
  }
  finish(token, start);
  token.kind = token.text.size() > 1 ? TokenKind::kDotWord : TokenKind::kInvalid;
}

void Lexer::scan_string(Token& token) {
  const size_t start = ++at_;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
  finish(token, start);
  token.kind = peek() == '"' ? TokenKind::kString : TokenKind::kInvalid;
  if (peek() == '"') ++at_;
}

void Lexer::scan_punctuation(Token& token) {
  static constexpr std::string_view kPairs[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
  static constexpr std::string_view kSingles = "{}[]()<>,;:=+-*/&|^!~?@";
  const size_t start = at_;
  const std::string_view two = text_.substr(at_, 2);
  for (const std::string_view pair : kPairs) {
    if (two == pair) at_ += 2;
  }
  if (at_ != start) {
    token.kind = TokenKind::kPunctuation;
  } else {
    const bool known = kSingles.find(text_[at_++]) != std::string_view::npos;
    token.kind = known ? TokenKind::kPunctuation : TokenKind::kInvalid;
  }
  finish(token, start);
}

void Lexer::scan_number(Token& token) {
  const size_t start = at_;
  const char second = peek(1);
  if (peek() == '0' && (second == 'x' || second == 'X')) {
    scan_integer(token, 2, 16);
  } else if (peek() == '0' && (second == 'b' || second == 'B')) {
    scan_integer(token, 2, 2);
  } else if (!scan_float_bits(token)) {
    size_t digits = 0;
    while (is_digit(peek(digits))) ++digits;
    const char after = peek(digits);
    if (after == '.' || after == 'e' || after == 'E') {
      scan_decimal(token);
    } else {
      scan_integer(token, 0, peek() == '0' ? 8 : 10);
    }
  }
  // Letters that hang on to a number ("12abc") make all of it one wrong token.
  if (is_name_char(peek())) {
    token.kind = TokenKind::kInvalid;
    while (is_name_char(peek())) ++at_;
  }
  finish(token, start);
}

// 0f and eight, or 0d and sixteen hexadecimal digits.
bool Lexer::scan_float_bits(Token& token) {
  if (peek() != '0') return false;
  const char mark = peek(1);
  const bool single = mark == 'f' || mark == 'F';
  if (!single && mark != 'd' && mark != 'D') return false;
  const size_t digits = single ? 8 : 16;
  at_ += 2;
  token.kind = TokenKind::kFloat;
  token.is_double = !single;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const uint32_t digit = digit_value(peek());
    if (digit >= 16) {
      token.kind = TokenKind::kInvalid;
      break;
    }
    token.value = token.value << 4 | digit;
  }
  return true;
}

void Lexer::scan_integer(Token& token, size_t prefix, uint32_t base) {
  at_ += prefix;
  token.kind = TokenKind::kInteger;
  const size_t first = at_;
  for (uint32_t digit = digit_value(peek()); digit < base; digit = digit_value(peek())) {
    if (token.value > (UINT64_MAX - digit) / base) token.kind = TokenKind::kInvalid;
    token.value = token.value * base + digit;
    ++at_;
  }
  if (at_ == first) token.kind = TokenKind::kInvalid;
  if (peek() == 'U') {
    token.is_unsigned = true;
    ++at_;
  }
  // A value that does not fit the signed type is unsigned, as in PTX.
  if (token.value > static_cast<uint64_t>(INT64_MAX)) token.is_unsigned = true;
}

void Lexer::scan_decimal(Token& token) {
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), value);
  at_ += static_cast<size_t>(end - begin);
  token.kind = status == std::errc{} ? TokenKind::kFloat : TokenKind::kInvalid;
  token.is_double = true;
  token.value = std::bit_cast<uint64_t>(value);
}

}  // namespace gpusnap::ptx
