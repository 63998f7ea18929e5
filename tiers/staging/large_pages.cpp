// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/large_pages.h"

#include <charconv>
#include <fstream>

namespace gpusnap {

namespace {

// "[never]", as the system marks what holds of its choices; empty where it has none.
std::string chosen(const char* setting) {
  std::ifstream file(std::string("/sys/kernel/mm/transparent_hugepage/") + setting);
  std::string line;
  std::getline(file, line);
  const size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return line.substr(begin + 1, end - begin - 1);
}

// "AnonHugePages:      2048 kB" -> bytes.
uint64_t bytes_of(std::string_view value) {
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  uint64_t kilobytes = 0;
  (void)std::from_chars(value.data(), value.data() + value.size(), kilobytes);
  return kilobytes << 10;
}

// "7f0000000000-7f0000200000 rw-s 00000000 00:01 4 /dev/shm/name" begins a mapping.
bool begins_mapping(std::string_view line, uint64_t& first, uint64_t& last) {
  const char* const end = line.data() + line.size();
  const auto from = std::from_chars(line.data(), end, first, 16);
  if (from.ec != std::errc() || from.ptr == end || *from.ptr != '-') return false;
  return std::from_chars(from.ptr + 1, end, last, 16).ec == std::errc();
}

}  // namespace

bool SmapsReader::add_line(std::string_view line) {
  uint64_t first = 0, last = 0;
  if (begins_mapping(line, first, last)) {
    is_inside_ = first < end_ && last > start_;
    if (is_inside_ && line.find(" rw-s ") != std::string_view::npos) pages_.shared = true;
    return first < end_;
  }
  if (!is_inside_) return true;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  const std::string_view name = line.substr(0, colon);
  const uint64_t bytes = bytes_of(line.substr(colon + 1));
  if (name == "Rss") pages_.resident += bytes;
  if (name == "AnonHugePages" || name == "ShmemPmdMapped") pages_.large += bytes;
  return true;
}

std::string lack_of_large_pages(const std::byte* start, uint64_t bytes) {
  // Reading ends with this range: the system walks the pages of each mapping.
  const auto first = reinterpret_cast<uint64_t>(start);
  SmapsReader reader(first, first + bytes);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  while (std::getline(smaps, line) && reader.add_line(line)) {
  }
  const PagesOfRange& pages = reader.pages();
  if (pages.resident == 0 || pages.large != 0) return {};
  const char* const setting = pages.shared ? "shmem_enabled" : "enabled";
  const std::string now = chosen(setting);
  return "the system gives staging memory no large pages: touching and pinning it takes longer (" +
         (now.empty()
              ? std::string("it has none")
              : std::string("/sys/kernel/mm/transparent_hugepage/") + setting + " is " + now) +
         ")";
}

}  // namespace gpusnap
