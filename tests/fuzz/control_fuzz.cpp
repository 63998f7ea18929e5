// A message of any content is refused or read; what was read is written as the same message again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "interpose/services/control.h"

namespace {

void check_reply(const std::string& message, bool asks) {
  const auto outcome = gpusnap::decode_reply(message);
  if (!outcome) return;
  if (asks) std::abort();
  const auto again = gpusnap::decode_reply(gpusnap::encode_reply(*outcome));
  if (!again || again->ok != outcome->ok || again->id != outcome->id ||
      again->bytes != outcome->bytes || again->stall_ns != outcome->stall_ns ||
      again->error != outcome->error) {
    std::abort();
  }
}

void check_status(const std::string& message, bool asks) {
  const auto reply = gpusnap::decode_status(message);
  if (!reply || !reply->error.empty()) return;
  if (asks || gpusnap::decode_reply(message)) std::abort();
  const std::string written = gpusnap::encode_status(reply->status);
  const auto again = gpusnap::decode_status(written);
  if (written.size() > gpusnap::kStatusMessageBytes || !again || !again->error.empty() ||
      !(again->status == reply->status)) {
    std::abort();
  }
}

void check_memory(const std::string& message) {
  const auto request = gpusnap::decode_memory_request(message);
  if (request &&
      gpusnap::decode_memory_request(gpusnap::encode_memory_request(*request)) != request) {
    std::abort();
  }
  const auto reply = gpusnap::decode_memory_reply(message);
  if (reply && gpusnap::decode_memory_reply(gpusnap::encode_memory_reply(*reply)) != reply) {
    std::abort();
  }
  gpusnap::HandleBytes bytes{};
  message.copy(bytes.data(), bytes.size());
  const auto handle = gpusnap::decode_handle(bytes);
  if (handle && gpusnap::encode_handle(*handle) != bytes) std::abort();
}

void check_loan(const std::string& message) {
  const auto request = gpusnap::decode_loan_request(message);
  if (request && gpusnap::decode_loan_request(gpusnap::encode_loan_request(*request)) != request) {
    std::abort();
  }
  const auto reply = gpusnap::decode_loan_reply(message);
  if (reply && gpusnap::decode_loan_reply(gpusnap::encode_loan_reply(*reply)) != reply) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string message(reinterpret_cast<const char*>(data), size);
  const bool asks = gpusnap::is_checkpoint_request(message) || gpusnap::is_stop_request(message) ||
                    gpusnap::is_status_request(message);
  check_reply(message, asks);
  check_status(message, asks);
  check_memory(message);
  check_loan(message);
  return 0;
}
