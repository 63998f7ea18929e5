// Compares a program's device memory between looks that are a number of steps apart: which zones
// have changed, as the paper's figures 6 to 8 show it. The content is compared: a zone that is
// overwritten with the same bytes does not count.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/apps/app.h"

namespace app {

struct Range {
  CUdeviceptr address = 0;
  size_t bytes = 0;
};

class ZoneCounter {
 public:
  explicit ZoneCounter(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
    size_t bytes = 0;
    for (const Range& range : ranges_) {
      bytes += range.bytes;
      zones_ += (range.bytes + kZone - 1) / kZone;
    }
    now_.resize(bytes);
    download();
    for (Interval& interval : intervals_) interval.before = now_;
  }

  // After step number `step`, from 1.
  void look(int step) {
    bool loaded = false;
    for (Interval& interval : intervals_) {
      if (step % interval.steps != 0) continue;
      if (!loaded) download();
      loaded = true;
      compare(interval);
      interval.before = now_;
    }
  }

  // One line of JSON: dirty zones at each look, and the part of a dirty zone that is dirty when it
  // is looked at in smaller pieces.
  void print(const std::string& program) const {
    std::printf("{\"program\": \"%s\", \"zones\": %zu, \"bytes\": %zu, \"intervals\": {",
                program.c_str(), zones_, now_.size());
    const char* comma = "";
    for (const Interval& interval : intervals_) {
      std::printf("%s\"%d\": {\"dirty\": [", comma, interval.steps);
      comma = "";
      size_t dirty = 0;
      for (const size_t count : interval.dirty) {
        std::printf("%s%zu", comma, count);
        dirty += count;
        comma = ", ";
      }
      std::printf("], \"pieces\": {");
      comma = "";
      for (size_t i = 0; i < kPieces.size(); ++i) {
        const double part = dirty == 0 ? 0.0
                                       : static_cast<double>(interval.pieces[i] * kPieces[i]) /
                                             static_cast<double>(dirty * kZone);
        std::printf("%s\"%zu\": %.6f", comma, kPieces[i], part);
        comma = ", ";
      }
      std::printf("}}");
    }
    std::printf("}}\n");
  }

 private:
  static constexpr size_t kZone = 64 << 10;
  static constexpr std::array<size_t, 5> kPieces = {16384, 4096, 1024, 256, 64};

  struct Interval {
    int steps = 1;
    std::vector<std::byte> before{};
    std::vector<size_t> dirty{};                  // zones, at each look
    std::array<size_t, kPieces.size()> pieces{};  // dirty ones, in all looks
  };

  void download() {
    size_t at = 0;
    for (const Range& range : ranges_) {
      CHECK(cuMemcpyDtoH_v2(now_.data() + at, range.address, range.bytes));
      at += range.bytes;
    }
  }

  bool differs(const Interval& interval, size_t from, size_t to) const {
    return std::memcmp(now_.data() + from, interval.before.data() + from, to - from) != 0;
  }

  void compare(Interval& interval) const {
    size_t dirty = 0, begin = 0;
    for (const Range& range : ranges_) {
      const size_t end = begin + range.bytes;
      for (size_t zone = begin; zone < end; zone += kZone) {
        const size_t zone_end = std::min(zone + kZone, end);
        if (!differs(interval, zone, zone_end)) continue;
        ++dirty;
        for (size_t i = 0; i < kPieces.size(); ++i) {
          for (size_t piece = zone; piece < zone_end; piece += kPieces[i]) {
            interval.pieces[i] += differs(interval, piece, std::min(piece + kPieces[i], zone_end));
          }
        }
      }
      begin = end;
    }
    interval.dirty.push_back(dirty);
  }

  std::vector<Range> ranges_;
  size_t zones_ = 0;
  std::vector<std::byte> now_;
  std::array<Interval, 4> intervals_{{{1}, {8}, {64}, {512}}};
};

}  // namespace app
