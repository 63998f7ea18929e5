#include "interpose/services/control.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstring>
#include <set>
#include <span>

namespace gpusnap {
namespace {

constexpr std::string_view kOk = "gpusnap 1 ok ";
constexpr std::string_view kError = "gpusnap 1 error ";
constexpr std::string_view kStatus = "gpusnap 1 status";
constexpr std::string_view kMemory = "gpusnap 1 memory ";
constexpr std::string_view kLoan = "gpusnap 1 loan ";
// The first bytes of what the program has as a handle.
constexpr std::string_view kHandleMagic = "gpusnapM";
constexpr std::string_view kDigits = "0123456789abcdef";

// The most bytes of each text, before it is escaped: at three times as much, and the numbers, it
// fits into a message.
constexpr size_t kMostPath = 4096;
constexpr size_t kMostText = 512;

constexpr std::array<const char*, 5> kDoings = {"starting", "replaying", "recording", "off",
                                                "ending"};
constexpr std::array<const char*, 4> kDues = {"not", "time", "call", "ranks"};

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char character) {
    const auto byte = static_cast<unsigned char>(character);
    return byte < 0x20 || byte == 0x7f;
  });
}

// The text up to the next space, or all; `text` loses both.
std::string_view take_word(std::string_view& text) {
  const size_t space = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(std::min(space + 1, text.size()));
  return word;
}

template <class Number>
concept Arithmetic = std::integral<Number> || std::floating_point<Number>;

template <Arithmetic Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_escaped(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return byte <= 0x20 || byte == 0x7f || character == '%';
}

std::string escaped(std::string_view value) {
  std::string text;
  for (const char character : value) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_escaped(character)) {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      text += character;
    }
  }
  return text;
}

bool unescape(std::string_view text, std::string& value) {
  value.clear();
  while (!text.empty()) {
    char character = text[0];
    if (character == '%') {
      if (text.size() < 3) return false;
      const size_t high = kDigits.find(text[1]), low = kDigits.find(text[2]);
      if (high == std::string_view::npos || low == std::string_view::npos) return false;
      character = static_cast<char>(high << 4 | low);
      text.remove_prefix(2);
    }
    value += character;
    text.remove_prefix(1);
  }
  return true;
}

// The words of a status, one after the other; those that say nothing new are left out.
class StatusWriter {
 public:
  void text(const char* word, const std::string& value, size_t most = kMostText) {
    if (!value.empty()) add(word, escaped(std::string_view(value).substr(0, most)));
  }
  template <Arithmetic Number>
  void number(const char* word, Number value, Number unsaid = 0) {
    if (value == unsaid) return;
    char digits[32];  // the shortest that is read back as the same number
    add(word, std::string(digits, std::to_chars(digits, std::end(digits), value).ptr));
  }
  template <class Enum, size_t kCount>
  void name(const char* word, Enum value, const std::array<const char*, kCount>& names) {
    if (value != Enum()) add(word, names.at(static_cast<size_t>(value)));
  }
  std::string end() { return line_ + "\n"; }

 private:
  void add(const char* word, const std::string& value) {
    line_ += std::string(" ") + word + "=" + value;
  }
  std::string line_{kStatus};
};

// One word of them, as often as it is asked of which one it is.
class StatusReader {
 public:
  StatusReader(std::string_view word, std::string_view value) : word_(word), value_(value) {}

  void text(const char* word, std::string& value, size_t most = kMostText) {
    if (word == word_) good_ = unescape(value_, value) && value.size() <= most;
  }
  template <Arithmetic Number>
  void number(const char* word, Number& number, Number = 0) {
    if (word == word_) good_ = parse_number(value_, number);
  }
  template <class Enum, size_t kCount>
  void name(const char* word, Enum& value, const std::array<const char*, kCount>& names) {
    if (word != word_) return;
    const auto found = std::ranges::find(names, value_);
    good_ = found != names.end();
    if (good_) value = static_cast<Enum>(found - names.begin());
  }
  bool good() const { return good_; }

 private:
  const std::string_view word_;
  const std::string_view value_;
  bool good_ = true;
};

// All that is said; `Status` is constant where it is written.
template <class Words, class Status>
void for_each_word(Words& words, Status& status) {
  words.text("job", status.job);
  words.text("store", status.store, kMostPath);
  words.text("host", status.host);
  words.text("area", status.area);
  words.number("rank", status.rank);
  words.number("ranks", status.ranks, uint32_t{1});
  words.name("doing", status.doing, kDoings);
  words.text("why", status.why);
  words.number("epoch", status.epoch);
  words.number("cut", status.cut_unix_ns);
  words.number("stall", status.stall_ns);
  words.number("in_memory", status.in_memory);
  words.number("saving", status.saving);
  words.number("saved", status.saved_bytes);
  words.number("bytes", status.bytes);
  words.name("due", status.due, kDues);
  words.number("due_in", status.due_in_ns);
  words.number("auto_interval", status.interval.interval_s);
  words.number("auto_stall", status.interval.stall_s);
  words.number("auto_latency", status.interval.latency_s);
  words.number("auto_mtbf", status.interval.between_failures_s);
  words.number("auto_measured", status.interval.measurements);
  words.number("auto_store_every", status.interval.store_every, uint64_t{1});
  words.number("auto_memory_stall", status.interval.memory_stall_s);
  words.number("auto_memory_latency", status.interval.memory_latency_s);
  words.number("auto_memory_measured", status.interval.memory_measurements);
  words.number("auto_failures", status.interval.failures);
  words.number("auto_run", status.interval.run_s);
}

bool read_words(std::string_view words, ProcessStatus& status) {
  std::set<std::string_view> seen;
  while (!words.empty()) {
    if (!take_word(words).empty()) return false;  // the space before each
    const std::string_view whole = words.substr(0, words.find(' '));
    words.remove_prefix(whole.size());
    const size_t equals = whole.find('=');
    if (equals == 0 || equals == std::string_view::npos) return false;
    StatusReader reader(whole.substr(0, equals), whole.substr(equals + 1));
    if (!seen.insert(whole.substr(0, equals)).second) return false;
    for_each_word(reader, status);
    if (!reader.good()) return false;
  }
  return !status.job.empty() && status.rank < status.ranks && status.interval.is_sound();
}

}  // namespace

const char* name_of(Doing doing) {
  return kDoings.at(static_cast<size_t>(doing));
}

const char* name_of(Due due) {
  return kDues.at(static_cast<size_t>(due));
}

bool is_status_request(std::string_view message) {
  return message == kStatusRequest;
}

std::string encode_status(const ProcessStatus& status) {
  StatusWriter writer;
  for_each_word(writer, status);
  return writer.end();
}

std::optional<StatusReply> decode_status(std::string_view message) {
  if (message.size() > kStatusMessageBytes || !message.ends_with('\n')) return std::nullopt;
  StatusReply reply;
  if (message.starts_with(kError)) {
    const std::optional<CutOutcome> outcome = decode_reply(message);
    if (!outcome) return std::nullopt;
    reply.error = outcome->error;
    return reply;
  }
  message.remove_suffix(1);
  if (!is_one_line(message) || !message.starts_with(kStatus)) return std::nullopt;
  message.remove_prefix(kStatus.size());
  if (!read_words(message, reply.status)) return std::nullopt;
  return reply;
}

bool is_stop_request(std::string_view message) {
  return message == kStopRequest;
}

bool is_checkpoint_request(std::string_view message) {
  return message == kCheckpointRequest;
}

std::string encode_reply(const CutOutcome& outcome) {
  std::string reply;
  if (outcome.ok) {
    reply = std::string(kOk) + outcome.id + " " + std::to_string(outcome.bytes) + " " +
            std::to_string(outcome.stall_ns);
  } else {
    reply = std::string(kError) + outcome.error;
    if (reply.size() >= kControlMessageBytes) reply.resize(kControlMessageBytes - 1);
  }
  std::replace_if(
      reply.begin(), reply.end(), [](char c) { return !is_one_line(std::string_view(&c, 1)); },
      ' ');
  reply += '\n';
  return reply;
}

std::optional<CutOutcome> decode_reply(std::string_view message) {
  if (message.size() > kControlMessageBytes || !message.ends_with('\n')) return std::nullopt;
  message.remove_suffix(1);
  if (!is_one_line(message)) return std::nullopt;
  CutOutcome outcome;
  if (message.starts_with(kError)) {
    outcome.error = message.substr(kError.size());
    if (outcome.error.empty()) return std::nullopt;
    return outcome;
  }
  if (!message.starts_with(kOk)) return std::nullopt;
  message.remove_prefix(kOk.size());
  outcome.ok = true;
  outcome.id = take_word(message);
  const std::string_view bytes = take_word(message);
  const std::string_view stall = take_word(message);
  if (outcome.id.empty() || !parse_number(bytes, outcome.bytes) ||
      !parse_number(stall, outcome.stall_ns) || !message.empty()) {
    return std::nullopt;
  }
  return outcome;
}

HandleBytes encode_handle(const SharedHandle& handle) {
  HandleBytes bytes{};
  char* at = bytes.data();
  const auto put = [&at](const void* from, size_t size) {
    std::memcpy(at, from, size);
    at += size;
  };
  put(kHandleMagic.data(), kHandleMagic.size());
  const int64_t process = handle.process;
  put(&process, sizeof process);
  put(&handle.number, sizeof handle.number);
  put(&handle.id, sizeof handle.id);
  return bytes;
}

std::optional<SharedHandle> decode_handle(const HandleBytes& bytes) {
  const char* at = bytes.data();
  if (!std::string_view(at, kHandleMagic.size()).starts_with(kHandleMagic)) return std::nullopt;
  at += kHandleMagic.size();
  int64_t process = 0;
  SharedHandle handle;
  const auto get = [&at](void* to, size_t size) {
    std::memcpy(to, at, size);
    at += size;
  };
  get(&process, sizeof process);
  get(&handle.number, sizeof handle.number);
  get(&handle.id, sizeof handle.id);
  const bool is_clear = std::all_of(at, bytes.data() + bytes.size(), [](char c) { return c == 0; });
  if (!is_clear || process <= 0 || process > INT32_MAX) return std::nullopt;
  handle.process = static_cast<pid_t>(process);
  return handle;
}

std::string encode_memory_request(const MemoryRequest& request) {
  return std::string(kMemory) + std::to_string(request.number) + " " + std::to_string(request.id) +
         " " + std::to_string(request.job) + "\n";
}

std::optional<MemoryRequest> decode_memory_request(std::string_view message) {
  if (message.size() > kControlMessageBytes || !message.starts_with(kMemory) ||
      !message.ends_with('\n')) {
    return std::nullopt;
  }
  message.remove_prefix(kMemory.size());
  message.remove_suffix(1);
  MemoryRequest request;
  for (uint64_t* number : {&request.number, &request.id, &request.job}) {
    if (!parse_number(take_word(message), *number)) return std::nullopt;
  }
  return message.empty() ? std::optional(request) : std::nullopt;
}

namespace {
std::string digits_of(std::span<const char> bytes) {
  std::string digits;
  for (const char byte : bytes) {
    digits += kDigits[static_cast<unsigned char>(byte) >> 4];
    digits += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return digits;
}
}  // namespace

std::string encode_memory_reply(const MemoryReply& reply) {
  if (!reply.error.empty()) return encode_reply({.error = reply.error});
  std::string text = std::string(kMemory) + std::to_string(reply.address) + " " +
                     std::to_string(reply.size) + (reply.same_job ? " 1" : " 0");
  if (reply.pieces.empty()) {
    text += " driver " + digits_of(reply.driver);
  } else {
    text += " mapped " + std::to_string(reply.first);
    for (const uint64_t bytes : reply.pieces) text += " " + std::to_string(bytes);
  }
  return text + "\n";
}

namespace {
bool read_digits(std::string_view digits, std::span<char> bytes) {
  if (digits.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t high = kDigits.find(digits[2 * i]), low = kDigits.find(digits[2 * i + 1]);
    if (high >= kDigits.size() || low >= kDigits.size()) return false;
    bytes[i] = static_cast<char>(high << 4 | low);
  }
  return true;
}

// Bytes of each, of which `end` becomes the sum and what it was before.
bool read_sizes(std::string_view words, std::vector<uint64_t>& pieces, uint64_t& end) {
  while (!words.empty() && pieces.size() < kMostMemoryPieces) {
    uint64_t bytes = 0;
    if (!parse_number(take_word(words), bytes) || bytes == 0 || end + bytes < end) return false;
    end += bytes;
    pieces.push_back(bytes);
  }
  return words.empty() && !pieces.empty();
}

// The allocation lies in them.
bool read_pieces(std::string_view words, MemoryReply& reply) {
  if (!parse_number(take_word(words), reply.first)) return false;
  uint64_t end = reply.first;
  return read_sizes(words, reply.pieces, end) && reply.address >= reply.first &&
         reply.address < end && reply.size <= end - reply.address;
}

// The words behind `begin` in a message that ends as it should; empty otherwise.
std::string_view words_after(std::string_view begin, std::string_view message) {
  if (message.size() > kControlMessageBytes || !message.starts_with(begin) ||
      !message.ends_with('\n')) {
    return {};
  }
  message.remove_prefix(begin.size());
  message.remove_suffix(1);
  return message;
}
}  // namespace

std::optional<MemoryReply> decode_memory_reply(std::string_view message) {
  MemoryReply reply;
  if (message.starts_with(kError)) {
    const std::optional<CutOutcome> outcome = decode_reply(message);
    if (!outcome) return std::nullopt;
    reply.error = outcome->error;
    return reply;
  }
  if (message.size() > kControlMessageBytes || !message.starts_with(kMemory) ||
      !message.ends_with('\n')) {
    return std::nullopt;
  }
  message.remove_prefix(kMemory.size());
  message.remove_suffix(1);
  int same_job = 0;
  const bool read = parse_number(take_word(message), reply.address) &&
                    parse_number(take_word(message), reply.size) &&
                    parse_number(take_word(message), same_job);
  if (!read || same_job < 0 || same_job > 1 || reply.size == 0) return std::nullopt;
  reply.same_job = same_job == 1;
  const std::string_view kind = take_word(message);
  const bool whole = kind == "driver"   ? read_digits(message, reply.driver)
                     : kind == "mapped" ? read_pieces(message, reply)
                                        : false;
  return whole ? std::optional(reply) : std::nullopt;
}

std::string encode_loan_request(const LoanRequest& request) {
  return std::string(kLoan) + std::to_string(request.bytes) + " " + digits_of(request.device) +
         "\n";
}

std::optional<LoanRequest> decode_loan_request(std::string_view message) {
  std::string_view words = words_after(kLoan, message);
  LoanRequest request;
  if (!parse_number(take_word(words), request.bytes) || request.bytes == 0 ||
      !read_digits(words, request.device)) {
    return std::nullopt;
  }
  return request;
}

std::string encode_loan_reply(const LoanReply& reply) {
  if (!reply.error.empty()) return encode_reply({.error = reply.error});
  std::string text = std::string(kLoan) + std::to_string(reply.bytes) + " " +
                     std::to_string(reply.first) + " " + digits_of(reply.device);
  for (const uint64_t bytes : reply.pieces) text += " " + std::to_string(bytes);
  return text + "\n";
}

std::optional<LoanReply> decode_loan_reply(std::string_view message) {
  LoanReply reply;
  if (message.starts_with(kError)) {
    const std::optional<CutOutcome> outcome = decode_reply(message);
    if (!outcome) return std::nullopt;
    reply.error = outcome->error;
    return reply;
  }
  std::string_view words = words_after(kLoan, message);
  uint64_t end = 0;
  const bool read =
      parse_number(take_word(words), reply.bytes) && reply.bytes != 0 &&
      parse_number(take_word(words), reply.first) && read_digits(take_word(words), reply.device) &&
      read_sizes(words, reply.pieces, end) && reply.first < end && reply.bytes <= end - reply.first;
  return read ? std::optional(reply) : std::nullopt;
}

ControlAddress control_address(uid_t uid, pid_t pid) {
  const std::string name = "gpusnap-" + std::to_string(uid) + "-" + std::to_string(pid);
  ControlAddress control{};
  control.address.sun_family = AF_UNIX;
  // An abstract name begins with a zero byte and needs no file.
  std::memcpy(control.address.sun_path + 1, name.data(), name.size());
  control.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return control;
}

}  // namespace gpusnap
