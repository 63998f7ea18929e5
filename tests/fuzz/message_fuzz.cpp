// A message of any content is refused in one line, or is written again as it was read.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tiers/backend/message.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

template <class Message>
void try_message(const gpusnap::Result<Message>& message, const std::string& text) {
  if (message.ok()) return check(gpusnap::encode(message.value()) == text);
  const std::string& why = message.status().message();
  check(!why.empty() && why.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_message(gpusnap::parse_checkpoint(text), text);
  try_message(gpusnap::parse_journal(text), text);
  size_t bytes = 0;
  const auto manifest = gpusnap::parse_manifest_text(text, bytes);
  check(bytes <= text.size());
  try_message(manifest, text.substr(0, manifest.ok() ? bytes : text.size()));
  return 0;
}
