#include "interpose/services/control.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace gpusnap {
namespace {

constexpr std::string_view kOk = "gpusnap 1 ok ";
constexpr std::string_view kError = "gpusnap 1 error ";

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

bool parse_number(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

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
