// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tools/cli/text.h"

namespace gpusnap {

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)), shown_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  constexpr int kWidth = 30;
  const auto percent = static_cast<int>(total > 0 ? done * 100.0 / total : 100);
  total_ = total;
  if (!shown_ || percent == last_percent_) return;
  last_percent_ = percent;
  const int filled = percent * kWidth / 100;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
  const double rate = static_cast<double>(done) / std::max(took.count(), 1e-9);
  fmt::print(stderr, "\r{}  [{:#<{}}{:.<{}}] {:3}% of {}, {}/s, {:.0f} s left\033[K", title_, "",
             filled, "", kWidth - filled, percent, show_bytes(total),
             show_bytes(static_cast<uint64_t>(rate)),
             static_cast<double>(total - done) / std::max(rate, 1.0));
  std::fflush(stderr);
}

}  // namespace gpusnap
