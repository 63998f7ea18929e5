// SPDX-License-Identifier: Apache-2.0
//
// Whether the system backs memory by large pages. It is asked to (madvise), which it may ignore: by
// a setting, or because it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpusnap {

struct PagesOfRange {
  uint64_t resident = 0;  // bytes that are mapped
  uint64_t large = 0;     // by large pages; part of those
  bool shared = false;    // memory of several processes
  bool operator==(const PagesOfRange&) const = default;
};

// Adds up the mappings that overlap [start, end), of a text as /proc/PID/smaps has it.
class SmapsReader {
 public:
  SmapsReader(uint64_t start, uint64_t end) : start_(start), end_(end) {}
  // The next line, without its end. False: neither this line nor any after it is about the range.
  bool add_line(std::string_view line);
  const PagesOfRange& pages() const { return pages_; }

 private:
  const uint64_t start_, end_;
  bool is_inside_ = false;
  PagesOfRange pages_;
};

// One line that says why memory of this process, some of which has been touched, has no large page,
// for all that is known. Empty: it has some, or it cannot be told.
std::string lack_of_large_pages(const std::byte* start, uint64_t bytes);

}  // namespace gpusnap
