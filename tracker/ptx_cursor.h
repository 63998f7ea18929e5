// The place of the parser in the text, and the first thing that went wrong there.
#pragma once

#include <string>
#include <string_view>

#include "tracker/ptx.h"
#include "tracker/ptx_lexer.h"

namespace gpusnap::ptx {

// Every parsing function answers false once fail() has been called, and its caller passes that on.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : lexer_(text) { token_ = lexer_.next(); }

  const Token& peek() const { return token_; }
  Token second() const {
    Lexer ahead = lexer_;
    return ahead.next();
  }
  Token take() {
    Token taken = token_;
    token_ = lexer_.next();
    return taken;
  }
  // Drops what is left of the line on which the last taken token stands.
  void skip_line(uint32_t line) {
    if (token_.line != line) return;
    lexer_.skip_line();
    token_ = lexer_.next();
  }

  bool accept(std::string_view punctuation) {
    if (!token_.is(punctuation)) return false;
    take();
    return true;
  }
  bool accept_word(std::string_view word) {
    if (!token_.is_word(word)) return false;
    take();
    return true;
  }
  bool expect(std::string_view punctuation) {
    return accept(punctuation) || fail("expected '" + std::string(punctuation) + "'");
  }
  // Sets `text` to the identifier that must stand here.
  bool expect_identifier(std::string_view& text) {
    if (token_.kind != TokenKind::kIdentifier) return fail("expected a name");
    text = take().text;
    return true;
  }

  // Records an error at the current token, or at a given place. Always false.
  bool fail(std::string reason) { return fail_at(token_.line, token_.text, std::move(reason)); }
  bool fail_at(uint32_t line, std::string_view near_text, std::string reason) {
    if (failed_) return false;
    failed_ = true;
    // Messages are one line of bounded length, whatever the text holds.
    constexpr size_t kMost = 120;
    error_ = {line, std::string(near_text.substr(0, kMost)), std::move(reason)};
    return false;
  }
  bool failed() const { return failed_; }
  const Error& error() const { return error_; }

 private:
  Lexer lexer_;
  Token token_;
  Error error_;
  bool failed_ = false;
};

}  // namespace gpusnap::ptx
