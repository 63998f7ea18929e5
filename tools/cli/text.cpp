#include "tools/cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

namespace gpusnap {
namespace {

std::string show_time(int64_t unix_ns, bool local, const char* format) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm parts{};
  if ((local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts)) == nullptr) return "?";
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &parts)};
}

// Bytes of the well-formed UTF-8 character at the front; 0 where there is none.
size_t utf8_bytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t count = lead < 0x80   ? 1
                       : lead < 0xc2 ? 0
                       : lead < 0xe0 ? 2
                       : lead < 0xf0 ? 3
                       : lead < 0xf5 ? 4
                                     : 0;
  if (count == 0 || count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (count == 3 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)))
    return 0;
  if (count == 4 && ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)))
    return 0;
  return count;
}

}  // namespace

std::string show_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string show_nanoseconds(uint64_t time) {
  const auto value = static_cast<double>(time);
  if (time < 1'000'000) return fmt::format("{:.0f} us", value / 1e3);
  if (time < 1'000'000'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} s", value / 1e9);
}

std::string show_age(int64_t seconds) {
  seconds = std::max<int64_t>(0, seconds);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 120 * 60) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

std::string show_local_time(int64_t unix_ns) {
  return show_time(unix_ns, true, "%Y-%m-%d %H:%M:%S");
}

std::string show_iso_time(int64_t unix_ns) {
  return show_time(unix_ns, false, "%Y-%m-%dT%H:%M:%S") +
         fmt::format(".{:03}Z", std::max<int64_t>(0, unix_ns) / 1'000'000 % 1000);
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& character : shown) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) character = '?';
  }
  return shown;
}

std::string escaped_markup(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(1, bytes));
    const auto byte = static_cast<unsigned char>(character[0]);
    if (bytes == 0) {
      safe += "\xef\xbf\xbd";
    } else if (byte < 0x20 || byte == 0x7f) {
      safe += '?';
    } else if (character == "<") {
      safe += "&lt;";
    } else if (character == ">") {
      safe += "&gt;";
    } else if (character == "&") {
      safe += "&amp;";
    } else if (character == "\"") {
      safe += "&quot;";
    } else {
      safe += character;
    }
    text.remove_prefix(character.size());
  }
  return safe;
}

void Json::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

Json& Json::begin_object() {
  separate();
  text_ += '{';
  first_ = true;
  return *this;
}
Json& Json::end_object() {
  text_ += '}';
  first_ = false;
  return *this;
}
Json& Json::begin_array() {
  separate();
  text_ += '[';
  first_ = true;
  return *this;
}
Json& Json::end_array() {
  text_ += ']';
  first_ = false;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  first_ = true;  // no comma before its value
  return *this;
}

Json& Json::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}
Json& Json::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}
Json& Json::value(uint64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}
Json& Json::value(int64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}
Json& Json::value(double number) {
  separate();
  text_ += fmt::format("{:.3f}", number);
  return *this;
}

Json& Json::precise(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  text_ += fmt::format("{:.9g}", number);
  return *this;
}

Json& Json::null() {
  separate();
  text_ += "null";
  return *this;
}

// Names of files and arguments may hold any bytes; JSON holds text.
void Json::quote(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (bytes == 0) {
      text_ += "\\ufffd";
    } else if (byte < 0x20) {
      text_ += fmt::format("\\u{:04x}", byte);
    } else {
      if (byte == '"' || byte == '\\') text_ += '\\';
      text_ += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(1, bytes));
  }
  text_ += '"';
}

std::string table(const std::vector<std::vector<std::string>>& rows, std::string_view right) {
  std::vector<size_t> widths(right.size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += right[i] == 'r' ? fmt::format("{:>{}}", row[i], widths[i])
                              : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace gpusnap
