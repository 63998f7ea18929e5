// SPDX-License-Identifier: Apache-2.0
#include "interpose/journal/call_text.h"

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/services/text.h"

namespace gpusnap {

std::string describe(uint16_t hook, const uint64_t* words, size_t count, std::string_view name) {
  std::string text = hook < kHookCount ? name_of(static_cast<HookId>(hook)) : "an unknown call";
  text += '(';
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) text += ", ";
    text += words[i] < 1'000'000 ? std::to_string(words[i]) : hex_text(words[i]);
  }
  if (!name.empty()) {
    if (count != 0) text += ", ";
    text += '"';
    text += name;
    text += '"';
  }
  return text + ')';
}

}  // namespace gpusnap
