#include "tools/simcuda/driver/engine_settings.h"

#include <charconv>
#include <cstdlib>

namespace simcuda {
namespace {

constexpr uint64_t kLeastRate = 1'000'000;
constexpr uint64_t kMostRate = 1'000'000'000'000'000;  // 1000T
constexpr uint64_t kMostLatency = 1'000'000'000;
constexpr uint64_t kMostPace = 1'000'000;

bool refuse(const char* variable, const std::string& value, const char* right, std::string* error) {
  *error = std::string(variable) + "='" + value + "' cannot be read: expected " + right;
  return false;
}

// The digits at the front of `text`, which loses them.
std::optional<uint64_t> take_number(std::string_view* text) {
  uint64_t value = 0;
  auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return value;
}

// A number with ns, us or ms; nanoseconds.
std::optional<uint64_t> parse_latency(std::string_view text) {
  auto value = take_number(&text);
  uint64_t unit = text == "ns" ? 1 : text == "us" ? 1'000 : text == "ms" ? 1'000'000 : 0;
  if (!value || unit == 0 || *value > kMostLatency / unit) return std::nullopt;
  return *value * unit;
}

// Hands each "name:value" of a variable that is a list of them to `take`, which says whether it is
// right.
template <class Take>
bool read_list(const char* variable, const char* right, std::string* error, Take take) {
  const char* set = std::getenv(variable);
  if (set == nullptr) return true;
  std::string_view rest = set;
  for (;;) {
    std::string_view item = rest.substr(0, rest.find(','));
    size_t colon = item.find(':');
    if (colon == std::string_view::npos || !take(item.substr(0, colon), item.substr(colon + 1))) {
      return refuse(variable, set, right, error);
    }
    if (item.size() == rest.size()) return true;
    rest.remove_prefix(item.size() + 1);
  }
}

std::optional<size_t> engine_named(std::string_view name, std::string_view compute) {
  if (name == compute) return static_cast<size_t>(Engine::kCompute);
  if (name == "to_host") return static_cast<size_t>(Engine::kToHost);
  if (name == "to_device") return static_cast<size_t>(Engine::kToDevice);
  if (name == "copy") return static_cast<size_t>(Engine::kCopy);
  return std::nullopt;
}

std::optional<size_t> fault_named(std::string_view name) {
  constexpr std::array<std::string_view, kFaultPoints> kNames = {
      "alloc", "pinned", "copy", "copy_to_host", "copy_to_device", "launch", "context"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return i;
  }
  return std::nullopt;
}

bool read_clock(ClockSettings* clock, std::string* error) {
  if (const char* text = std::getenv("SIMCUDA_CLOCK")) {
    clock->is_virtual = std::string_view(text) == "virtual";
    if (!clock->is_virtual && std::string_view(text) != "host") {
      return refuse("SIMCUDA_CLOCK", text, "virtual or host", error);
    }
  }
  if (const char* text = std::getenv("SIMCUDA_PACE")) {
    std::string_view rest = text;
    auto pace = take_number(&rest);
    if (!pace || !rest.empty() || *pace < 1 || *pace > kMostPace) {
      return refuse("SIMCUDA_PACE", text, "a whole number from 1 to 1000000", error);
    }
    clock->pace = *pace;
  }
  auto bandwidth = [&](std::string_view name, std::string_view value) {
    auto rate = parse_rate(value);
    if (!rate) return false;
    if (name == "instructions") {
      clock->instructions = *rate;
      return true;
    }
    auto engine = engine_named(name, "memory");
    if (engine) clock->bandwidth[*engine] = *rate;
    return engine.has_value();
  };
  auto latency = [&](std::string_view name, std::string_view value) {
    auto time = parse_latency(value);
    if (!time) return false;
    if (name == "kernel") {
      clock->kernel_latency = *time;
    } else if (name == "copy") {
      clock->copy_latency = *time;
    } else if (name == "batch") {
      clock->batch_latency = *time;
    } else {
      return false;
    }
    return true;
  };
  return read_list("SIMCUDA_BANDWIDTH",
                   "memory, to_host, to_device, copy or instructions, each with a colon and a rate "
                   "a second from 1M to 1000T, such as memory:2T,to_host:25G",
                   error, bandwidth) &&
         read_list("SIMCUDA_LATENCY",
                   "kernel, copy or batch, each with a colon and a time up to 1000ms, such as "
                   "kernel:5us,copy:10us",
                   error, latency);
}

}  // namespace

std::optional<uint64_t> parse_rate(std::string_view text) {
  auto value = take_number(&text);
  if (!value || text.size() > 1) return std::nullopt;
  uint64_t unit = 1;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "KMGT";
    size_t at = kUnits.find(text[0]);
    if (at == std::string_view::npos) return std::nullopt;
    for (size_t i = 0; i <= at; ++i) unit *= 1000;
  }
  if (*value > kMostRate / unit || *value * unit < kLeastRate) return std::nullopt;
  return *value * unit;
}

bool read_engine_settings(int devices, EngineSettings* settings, std::string* error) {
  auto fault = [&](std::string_view name, std::string_view value) {
    auto point = fault_named(name);
    auto at = take_number(&value);
    if (!point || !at || *at == 0 || (!value.empty() && value != "+")) return false;
    settings->faults[*point] = {*at, !value.empty()};
    return true;
  };
  auto hold = [&](std::string_view name, std::string_view value) {
    auto engine = engine_named(name, "compute");
    if (!engine || value.empty()) return false;
    settings->held_by[*engine] = value;
    return true;
  };
  if (const char* file = std::getenv("SIMCUDA_TRACE")) settings->trace = file;
  if (const char* text = std::getenv("SIMCUDA_PINNING")) {
    const auto rate = parse_rate(text);
    if (!rate) return refuse("SIMCUDA_PINNING", text, "a rate a second, such as 4G", error);
    settings->pinning = *rate;
  }
  return read_clock(&settings->clock, error) && read_links(devices, &settings->links, error) &&
         read_list(
             "SIMCUDA_FAULT",
             "alloc, pinned, copy, copy_to_host, copy_to_device, launch or context, each with "
             "a colon and which one fails, such as alloc:3 or copy_to_host:2+",
             error, fault) &&
         read_list("SIMCUDA_HOLD",
                   "compute, to_host, to_device or copy, each with a colon and a file, such as "
                   "to_host:/tmp/held",
                   error, hold);
}

}  // namespace simcuda
