// SPDX-License-Identifier: Apache-2.0
#include "tiers/compression/setting.h"

#include <charconv>
#include <optional>

namespace gpusnap {

namespace {

using Mode = CompressionSetting::Mode;

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

std::optional<CompressionSetting> mode_of(std::string_view text) {
  if (text == "auto") return CompressionSetting{};
  if (text == "off") return CompressionSetting{Mode::kOff};
  const std::optional<int> level = number_of(text);
  if (!level || *level < kLeastLevel || *level > kMostLevel) return std::nullopt;
  return CompressionSetting{Mode::kLevel, *level};
}

// n of 2^n bytes, as "512K" or "8M".
std::optional<int> window_of(std::string_view text) {
  const int unit = text.ends_with('K') ? 10 : 20;
  if (!text.ends_with('K') && !text.ends_with('M')) return std::nullopt;
  const std::optional<int> number = number_of(text.substr(0, text.size() - 1));
  for (int log = unit; number && log <= kMostWindowLog; ++log) {
    if (log >= kLeastWindowLog && *number == 1 << (log - unit)) return log;
  }
  return std::nullopt;
}

}  // namespace

Result<CompressionSetting> parse_compression(std::string_view text) {
  const size_t colon = text.find(':');
  std::optional<CompressionSetting> setting = mode_of(text.substr(0, colon));
  if (setting && colon != std::string_view::npos) {
    const std::optional<int> window = window_of(text.substr(colon + 1));
    setting->window_log = window.value_or(0);
    if (!window || setting->mode == Mode::kOff) setting.reset();
  }
  if (setting) return *setting;
  return Status(Code::kInvalid, "'" + std::string(text) + "' is not auto, off or a level from " +
                                    std::to_string(kLeastLevel) + " to " +
                                    std::to_string(kMostLevel) +
                                    ", nor one with a window such as 3:8M (1K to 128M)");
}

std::string text_of(const CompressionSetting& setting) {
  if (setting.mode == Mode::kOff) return "off";
  std::string text = setting.mode == Mode::kAuto ? "auto" : std::to_string(setting.level);
  const int log = setting.window_log;
  if (log >= 20) return text + ":" + std::to_string(1 << (log - 20)) + "M";
  if (log != 0) return text + ":" + std::to_string(1 << (log - 10)) + "K";
  return text;
}

}  // namespace gpusnap
