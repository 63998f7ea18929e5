// How numbers and times are shown, and JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnap {

std::string show_bytes(uint64_t bytes);        // "0 B", "1.5 GiB"
std::string show_nanoseconds(uint64_t time);   // "870 us", "12.3 ms", "4.0 s"
std::string show_age(int64_t seconds);         // "5 s", "12 min", "3 h", "4 d"
std::string show_local_time(int64_t unix_ns);  // "2026-11-21 08:07:13"
std::string show_iso_time(int64_t unix_ns);    // "2026-11-21T08:07:13.123Z"
// Makes text from a store fit for a terminal: control characters become '?'.
std::string printable(std::string_view text);

// Makes text from a store fit for XML and HTML: what is no character there becomes '?' or U+FFFD.
std::string escaped_markup(std::string_view text);

// A JSON value put together piece by piece; commas are its business.
class Json {
 public:
  Json& begin_object();
  Json& end_object();
  Json& begin_array();
  Json& end_array();
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool truth);
  Json& value(uint64_t number);
  Json& value(int64_t number);
  Json& value(double number);
  Json& null();
  // Nine significant digits; null where it is not finite.
  Json& precise(double number);
  const std::string& text() const { return text_; }

 private:
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool first_ = true;
};

// Columns as wide as they need be. `right`: one letter a column, 'r' where it is set to the right.
std::string table(const std::vector<std::vector<std::string>>& rows, std::string_view right);

}  // namespace gpusnap
