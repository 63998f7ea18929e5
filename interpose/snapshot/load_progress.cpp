// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "interpose/services/log.h"

namespace gpusnap {

namespace {
constexpr int64_t kBetweenLines = 500'000'000;  // ns

std::string mib(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

// How fast: in GiB/s with one decimal.
std::string rate(uint64_t bytes, int64_t ns) {
  const uint64_t tenths = static_cast<uint64_t>(static_cast<double>(bytes) * 1e10 /
                                                static_cast<double>(std::max<int64_t>(ns, 1))) >>
                          30;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB/s";
}

// In place of the line before.
void put(const std::string& text) {
  const std::string line = "\r\033[K" + text;
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

int64_t monotonic_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
}  // namespace

LoadProgress::LoadProgress(uint64_t total, const RestoreReader& reader)
    : total_(total),
      reader_(reader),
      shown_(isatty(STDERR_FILENO) == 1),
      began_(monotonic_ns()),
      last_(began_) {}

LoadProgress::~LoadProgress() {
  const int64_t took = monotonic_ns() - began_;
  const std::string text = mib(done_) + " of device memory loaded in " +
                           std::to_string(took / 1'000'000) + " ms, " + rate(done_, took) +
                           sources();
  if (written_) {
    put("gpusnap: " + text + "\n");
  } else {
    log(LogLevel::kInfo, text);
  }
}

void LoadProgress::add(uint64_t bytes) {
  done_ += bytes;
  const int64_t now = monotonic_ns();
  if (!shown_ || now - last_ < kBetweenLines) return;
  last_ = now;
  written_ = true;
  const int64_t took = now - began_;
  const auto left = static_cast<int64_t>(static_cast<double>(took) / static_cast<double>(done_) *
                                         static_cast<double>(total_ - done_)) /
                    1'000'000'000;
  put("gpusnap: loading device memory: " + mib(done_) + " of " + mib(total_) + ", " +
      rate(done_, took) + ", " + std::to_string(left) + " s left");
}

std::string LoadProgress::sources() const {
  const LocalChunks::Counts& counts = reader_.counts();
  std::string text = "; waited " + std::to_string(reader_.waited_ns() / 1'000'000) +
                     " ms for files, read ahead " + mib(counts.in_memory);
  if (reader_.is_pending()) {
    return text + "; on its way to the store: from memory and SSD " + mib(counts.near) +
           ", from store " + mib(counts.store);
  }
  if (counts.near + counts.passed_over == 0) return text;
  text += "; from SSD " + mib(counts.near) + ", from store " + mib(counts.store);
  if (counts.passed_over != 0) text += ", not right on SSD " + mib(counts.passed_over);
  return text;
}

}  // namespace gpusnap
