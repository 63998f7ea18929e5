// SPDX-License-Identifier: Apache-2.0
// The user's setting of compression.
#pragma once

#include <string>
#include <string_view>

#include "tiers/compression/codec.h"
#include "tiers/status.h"

namespace gpusnap {

// GPUSNAP_COMPRESS.
struct CompressionSetting {
  enum class Mode {
    kOff,
    kAuto,   // what is estimated to end no later, at level 1
    kLevel,  // all that shrinks, however long it takes
  };
  Mode mode = Mode::kAuto;
  int level = kLeastLevel;
  int window_log = 0;  // zstd's window, of 2^n bytes; 0: the level's own
  bool operator==(const CompressionSetting&) const = default;
};
// "auto", "off", "1" to "19"; but for "off" a window may follow, a power of two such as ":1M".
// kInvalid says what would be right.
Result<CompressionSetting> parse_compression(std::string_view text);
// Returns the text that parse_compression() takes.
std::string text_of(const CompressionSetting& setting);

}  // namespace gpusnap
