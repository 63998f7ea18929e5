// SPDX-License-Identifier: Apache-2.0
//
// Tells whether the system backs memory with large pages. It may ignore the request (madvise)
// because of a setting, or because it has no large pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpusnap {

struct PagesOfRange {
  uint64_t resident = 0;  // bytes that are mapped
  uint64_t large = 0;     // bytes of these that are mapped by large pages
  bool shared = false;    // shared between processes
  bool operator==(const PagesOfRange&) const = default;
};

// Adds up the mappings that overlap [start, end) in a text in the format of /proc/PID/smaps.
class SmapsReader {
 public:
  SmapsReader(uint64_t start, uint64_t end) : start_(start), end_(end) {}
  // Adds the next line, without its newline. Returns false if neither this line nor any later one
  // is about the range.
  bool add_line(std::string_view line);
  const PagesOfRange& pages() const { return pages_; }

 private:
  const uint64_t start_, end_;
  bool is_inside_ = false;
  PagesOfRange pages_;
};

// Returns one line that says, as far as known, why memory of this process that has been touched has
// no large page. Empty: it has some, or that is not known.
std::string lack_of_large_pages(const std::byte* start, uint64_t bytes);

}  // namespace gpusnap
