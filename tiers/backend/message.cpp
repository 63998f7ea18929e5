// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/message.h"

#include <charconv>
#include <limits>
#include <system_error>

#include "tiers/names.h"

namespace gpusnap {

namespace {

constexpr uint32_t kVersion = 1;
constexpr char kDigits[] = "0123456789abcdef";
constexpr char kMemoryLevel[] = "memory";
constexpr uint64_t kMostEpoch = 999'999'999'999'999'999;

// Bounds of a segment's size. The upper one is more than any file system holds in a file, and less
// than what overflows.
constexpr uint64_t kMostSegmentBytes = 1ULL << 60;
constexpr uint64_t kLeastSegmentBytes = 8192;

bool is_escaped(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f || c == '%';
}

std::string escaped(std::string_view value) {
  std::string text;
  text.reserve(value.size());
  for (const char c : value) {
    if (!is_escaped(c)) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

std::optional<unsigned> digit_of(char c) {
  const size_t digit = std::string_view(kDigits, 16).find(c);
  return digit == std::string_view::npos ? std::nullopt
                                         : std::optional(static_cast<unsigned>(digit));
}

// Empty if `text` is not a result of escaped().
std::optional<std::string> plain(std::string_view text) {
  std::string value;
  value.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (is_escaped(text[i])) return std::nullopt;
      value += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const auto high = digit_of(text[i + 1]);
    const auto low = digit_of(text[i + 2]);
    if (!high || !low) return std::nullopt;
    const auto byte = static_cast<char>(*high << 4 | *low);
    if (byte == 0 || !is_escaped(byte)) return std::nullopt;
    value += byte;
    i += 2;
  }
  return value;
}

std::string first_line(const char* kind) {
  return std::string("gpusnap ") + kind + " " + std::to_string(kVersion) + "\n";
}

std::string line(const char* key, std::string_view value) {
  return std::string(key) + "=" + escaped(value) + "\n";
}
std::string line(const char* key, uint64_t value) {
  return line(key, std::to_string(value));
}

// Parses all of the text as a decimal number without leading zeros.
std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  return value;
}

// Takes the lines of a text one by one. After the first invalid line all values are empty.
class Reader {
 public:
  Reader(const char* kind, std::string_view text) : kind_(kind), text_(text), left_(text) {
    const std::string begin = std::string("gpusnap ") + kind + " ";
    const std::string_view first = take_line();
    if (!status_.ok()) return;
    if (!first.starts_with(begin)) {
      fail("its first line is not that of such a message");
      return;
    }
    const auto version = number_of(first.substr(begin.size()));
    if (!version || *version == 0) {
      fail("its version cannot be read");
    } else if (*version > kVersion) {
      status_ = {Code::kNewer, "a " + std::string(kind_) +
                                   " message is of a later version of gpusnap: end the programs "
                                   "that use the earlier one"};
    }
  }

  std::string string(const char* key) {
    const std::string_view raw = take(key);
    const std::optional<std::string> value = plain(raw);
    if (!value) fail("the value of '" + std::string(key) + "' is not escaped as it has to be");
    return value.value_or("");
  }

  template <class Number>
  Number number(const char* key, uint64_t least = 0,
                uint64_t most = std::numeric_limits<Number>::max()) {
    const auto value = number_of(take(key));
    if (!value || *value < least || *value > most) {
      fail("'" + std::string(key) + "' is no number that it can be");
      return {};
    }
    return static_cast<Number>(*value);
  }

  // Returns whether the next line has that key.
  bool has(const char* key) const {
    return status_.ok() && left_.starts_with(std::string(key) + "=");
  }

  void check(bool holds, const char* why) {
    if (!holds) fail(why);
  }

  // Returns how many bytes have been parsed. Bytes after the text are not looked at.
  size_t taken() const { return text_.size() - left_.size(); }
  Status end() {
    check(left_.empty(), "something follows its last line");
    return status_;
  }
  const Status& status() const { return status_; }

 private:
  void fail(const std::string& why) {
    if (!status_.ok()) return;
    status_ = {Code::kInvalid, "a " + std::string(kind_) + " message makes no sense: " + why};
  }

  std::string_view take_line() {
    // A line of a value that fills a stream's text, escaped; what follows may be anything.
    constexpr size_t kMostLine = 64 << 10;
    const size_t end = left_.substr(0, kMostLine).find('\n');
    if (end == std::string_view::npos) {
      fail("it ends too early");
      return {};
    }
    const std::string_view line = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return line;
  }

  std::string_view take(const char* key) {
    if (!status_.ok()) return {};
    const std::string begin = std::string(key) + "=";
    const std::string_view line = take_line();
    if (line.starts_with(begin)) return line.substr(begin.size());
    fail("there is no '" + std::string(key) + "' where it has to be");
    return {};
  }

  const char* const kind_;
  const std::string_view text_;
  std::string_view left_;
  Status status_;
};

bool is_absolute(const std::string& path) {
  return path.starts_with('/');
}

CompressionSetting compression_of(Reader& reader, const std::string& text) {
  const Result<CompressionSetting> setting = parse_compression(text);
  reader.check(setting.ok() && text_of(setting.value()) == text, "'compress' is no setting of it");
  return setting.ok() ? setting.value() : CompressionSetting();
}

std::string text_of(const std::optional<ManifestText::Journal>& journal) {
  if (!journal) return "none";
  return std::to_string(journal->stream) + "." + std::to_string(journal->life) + "." +
         std::to_string(journal->slots);
}

std::optional<ManifestText::Journal> journal_of(Reader& reader, const std::string& text) {
  if (text == "none") return std::nullopt;
  const std::string_view view = text;
  const size_t first = view.find('.');
  const size_t second = first == std::string_view::npos ? first : view.find('.', first + 1);
  if (second != std::string_view::npos) {
    const auto stream = number_of(view.substr(0, first));
    const auto life = number_of(view.substr(first + 1, second - first - 1));
    const auto slots = number_of(view.substr(second + 1));
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    if (stream && life && slots && *stream <= kMost && *life <= kMost) {
      return ManifestText::Journal{static_cast<uint32_t>(*stream), static_cast<uint32_t>(*life),
                                   *slots};
    }
  }
  reader.check(false, "'journal' names no stream");
  return std::nullopt;
}

}  // namespace

std::string encode(const CheckpointText& text) {
  return first_line("checkpoint") + line("store", text.store) + line("job", text.job) +
         line("run", text.run) + line("epoch", text.epoch) + line("rank", text.rank) +
         line("segment", text.segment_bytes) + line("compress", text_of(text.compression)) +
         line("keep", text.keep) + line("chain", text.chain) +
         (text.in_memory ? line("level", kMemoryLevel) : "") +
         (text.complete != 0 ? line("complete", text.complete) : "");
}

std::string encode(const JournalText& text) {
  return first_line("journal") + line("file", text.file);
}

std::string encode(const ManifestText& text) {
  return first_line("manifest") + line("journal", text_of(text.journal)) +
         line("bytes", text.bytes);
}

Result<CheckpointText> parse_checkpoint(std::string_view text) {
  Reader reader("checkpoint", text);
  CheckpointText checkpoint;
  checkpoint.store = reader.string("store");
  checkpoint.job = reader.string("job");
  checkpoint.run = reader.string("run");
  checkpoint.epoch = reader.number<uint64_t>("epoch", 1, kMostEpoch);
  checkpoint.rank = reader.number<uint32_t>("rank");
  checkpoint.segment_bytes =
      reader.number<uint64_t>("segment", kLeastSegmentBytes, kMostSegmentBytes);
  checkpoint.compression = compression_of(reader, reader.string("compress"));
  checkpoint.keep = reader.number<uint32_t>("keep");
  checkpoint.chain = reader.number<uint32_t>("chain");
  if (reader.has("level")) {
    reader.check(reader.string("level") == kMemoryLevel, "there is no such level");
    checkpoint.in_memory = true;
  }
  if (reader.has("complete")) {
    checkpoint.complete = reader.number<uint64_t>("complete", 1, kMostEpoch);
  }
  reader.check(is_absolute(checkpoint.store), "the store's folder is not absolute");
  reader.check(!checkpoint.job.empty(), "the job has no name");
  reader.check(is_run(checkpoint.run), "'run' is no run: 1 to 64 letters and digits");
  if (Status good = reader.end(); !good.ok()) return good;
  return checkpoint;
}

Result<JournalText> parse_journal(std::string_view text) {
  Reader reader("journal", text);
  JournalText journal;
  journal.file = reader.string("file");
  reader.check(is_absolute(journal.file), "its file's path is not absolute");
  reader.check(is_journal_name(journal.file.substr(journal.file.rfind('/') + 1)),
               "its file is not called as a journal part is");
  if (Status good = reader.end(); !good.ok()) return good;
  return journal;
}

Result<ManifestText> parse_manifest_text(std::string_view bytes, size_t& text_bytes) {
  Reader reader("manifest", bytes);
  ManifestText manifest;
  manifest.journal = journal_of(reader, reader.string("journal"));
  manifest.bytes = reader.number<uint64_t>("bytes", 1, 3ULL << 30);
  if (!reader.status().ok()) return reader.status();
  text_bytes = reader.taken();
  return manifest;
}

}  // namespace gpusnap
