// SPDX-License-Identifier: Apache-2.0
#include "tools/simcuda/driver/links.h"

#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "tools/simcuda/driver/engine_settings.h"

namespace simcuda {
namespace {

// Takes all before the separator at the front of `text`, which loses both; all if there is none.
std::string_view take_item(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view item = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return item;
}

size_t count_items(std::string_view text, char separator) {
  size_t count = 1;
  for (const char each : text) count += each == separator ? 1 : 0;
  return count;
}

// None: it is no matrix of rates for so many devices with nothing on its diagonal.
std::optional<std::vector<uint64_t>> parse_matrix(std::string_view text, size_t devices) {
  std::vector<uint64_t> rates;
  if (count_items(text, '/') != devices) return std::nullopt;
  for (size_t from = 0; from < devices; ++from) {
    std::string_view row = take_item(&text, '/');
    if (count_items(row, ',') != devices) return std::nullopt;
    for (size_t to = 0; to < devices; ++to) {
      const std::string_view item = take_item(&row, ',');
      const std::optional<uint64_t> rate = item == "0" ? 0 : parse_rate(item);
      if (!rate || (from == to && *rate > 0)) return std::nullopt;
      rates.push_back(*rate);
    }
  }
  return rates;
}

}  // namespace

int Links::rank(DevicePair pair) const {
  if (!is_set()) return 0;
  const std::set<uint64_t> speeds(rates_.begin(), rates_.end());
  return static_cast<int>(std::distance(speeds.upper_bound(rate(pair)), speeds.end()));
}

bool read_links(int devices, Links* links, std::string* error) {
  const char* text = std::getenv("SIMCUDA_LINKS");
  if (text == nullptr) return true;
  auto rates = parse_matrix(text, static_cast<size_t>(devices));
  if (!rates) {
    *error =
        std::string("SIMCUDA_LINKS='") + text +
        "' cannot be read: expected a row for each of the " + std::to_string(devices) +
        " devices, with rates a second from 1M to 1000T or 0 for no link, and 0 for the device "
        "itself, such as 0,24G/24G,0";
    return false;
  }
  *links = Links(static_cast<size_t>(devices), std::move(*rates));
  return true;
}

}  // namespace simcuda
