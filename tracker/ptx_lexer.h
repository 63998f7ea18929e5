// PTX text cut into tokens. Never allocates; every token is a view into the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpusnap::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kInvalid,     // a character or a literal that PTX does not know
  kIdentifier,  // foo, %r1, $L__BB0_1, _
  kDotWord,     // .reg, .L2::128B
  kInteger,     // value, is_unsigned
  kFloat,       // value holds the bits, is_double
  kString,      // text without the quotes
  kPunctuation,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  bool is_unsigned = false;
  bool is_double = false;
  uint32_t line = 1;      // 1-based
  std::string_view text;  // as written
  uint64_t value = 0;

  bool is(std::string_view punctuation) const {
    return kind == TokenKind::kPunctuation && text == punctuation;
  }
  // Whether this is the dot word that `word` (without its dot) names.
  bool is_word(std::string_view word) const {
    return kind == TokenKind::kDotWord && text.substr(1) == word;
  }
  bool is_identifier(std::string_view name) const {
    return kind == TokenKind::kIdentifier && text == name;
  }
};

// Copyable and small: looking ahead is done on a copy.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  // The next token; kEnd for ever after the last.
  Token next();
  // Moves to the end of the current line.
  void skip_line();

 private:
  void skip_blank();
  bool skip_comment();
  void scan_dot_word(Token& token);
  void scan_number(Token& token);
  void scan_integer(Token& token, size_t digits, uint32_t base);
  void scan_decimal(Token& token);
  bool scan_float_bits(Token& token);
  void scan_string(Token& token);
  void scan_punctuation(Token& token);
  void finish(Token& token, size_t start) const { token.text = text_.substr(start, at_ - start); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_start_ = true;
};

}  // namespace gpusnap::ptx
