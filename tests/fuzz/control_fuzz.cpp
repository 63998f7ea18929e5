// A message of any content is refused or read; what was read is written as the same message again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "interpose/services/control.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string message(reinterpret_cast<const char*>(data), size);
  const bool asks = gpusnap::is_checkpoint_request(message);
  const auto outcome = gpusnap::decode_reply(message);
  if (!outcome) return 0;
  if (asks) std::abort();
  const auto again = gpusnap::decode_reply(gpusnap::encode_reply(*outcome));
  if (!again || again->ok != outcome->ok || again->id != outcome->id ||
      again->bytes != outcome->bytes || again->stall_ns != outcome->stall_ns ||
      again->error != outcome->error) {
    std::abort();
  }
  return 0;
}
