#include "tools/simcuda/driver/settings.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "interpose/cuda/cuda_abi.h"

namespace simcuda {
namespace {

constexpr int kMaxDevices = 16;
constexpr uint64_t kMinMemory = uint64_t{16} << 20;
constexpr uint64_t kMaxMemory = uint64_t{512} << 30;

// A decimal number with an optional K, M, G or T for powers of 1024.
std::optional<uint64_t> parse_bytes(std::string_view text) {
  uint64_t value = 0;
  size_t used = 0;
  for (; used < text.size() && text[used] >= '0' && text[used] <= '9'; ++used) {
    if (value > (UINT64_MAX - 9) / 10) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(text[used] - '0');
  }
  if (used == 0 || text.size() - used > 1) return std::nullopt;
  if (used == text.size()) return value;
  constexpr std::string_view kUnits = "KMGT";
  size_t unit = kUnits.find(text[used]);
  if (unit == std::string_view::npos) return std::nullopt;
  unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

bool read_number(const char* name, uint64_t low, uint64_t high, const char* right, uint64_t* out,
                 std::string* error) {
  const char* text = std::getenv(name);
  if (text == nullptr) return true;
  auto value = parse_bytes(text);
  if (value && *value >= low && *value <= high) {
    *out = *value;
    return true;
  }
  *error = std::string(name) + "='" + text + "' cannot be read: expected " + right;
  return false;
}

bool read_driver_version(uint64_t* version, std::string* error) {
  return read_number("SIMCUDA_DRIVER_VERSION", 11000, 99990, "a version such as 13010 for 13.1",
                     version, error);
}

// One of two words; `second` sets `out`.
bool read_choice(const char* name, std::string_view first, std::string_view second, bool* out,
                 std::string* error) {
  const char* text = std::getenv(name);
  if (text == nullptr) return true;
  *out = text == second;
  if (*out || text == first) return true;
  *error = std::string(name) + "='" + text + "' cannot be read: expected " + std::string(first) +
           " or " + std::string(second);
  return false;
}

}  // namespace

int driver_version() {
  static const int version = [] {
    uint64_t value = GPUSNAP_CUDA_VERSION;
    std::string error;
    return read_driver_version(&value, &error) ? static_cast<int>(value) : GPUSNAP_CUDA_VERSION;
  }();
  return version;
}

bool read_settings(Settings* settings, std::string* error) {
  uint64_t devices = static_cast<uint64_t>(settings->devices);
  uint64_t arch = static_cast<uint64_t>(settings->arch);
  uint64_t machine_code = 0, version = 0;
  if (!read_number("SIMCUDA_DEVICES", 0, kMaxDevices, "a number of devices from 0 to 16", &devices,
                   error) ||
      !read_number("SIMCUDA_MEMORY", kMinMemory, kMaxMemory, "a size from 16M to 512G, such as 4G",
                   &settings->memory, error) ||
      !read_number("SIMCUDA_ARCH", 50, 129, "a compute capability without the dot, such as 90",
                   &arch, error) ||
      !read_driver_version(&version, error) ||
      !read_number("SIMCUDA_SASS", 0, 1, "0 or 1", &machine_code, error) ||
      !read_number("SIMCUDA_ASLR", 0, UINT64_MAX, "a whole number", &settings->device_seed,
                   error) ||
      !read_number("SIMCUDA_HOST_ASLR", 0, UINT64_MAX, "a whole number", &settings->host_seed,
                   error) ||
      !read_choice("SIMCUDA_ADDRESSES", "apart", "host", &settings->addresses_of_host, error) ||
      !read_choice("SIMCUDA_HINTS", "refused", "taken", &settings->hints, error)) {
    return false;
  }
  settings->devices = static_cast<int>(devices);
  settings->machine_code = machine_code != 0;
  if (!read_engine_settings(settings->devices, &settings->engines, error)) return false;
  settings->arch = static_cast<int>(arch);
  if (const char* file = std::getenv("SIMCUDA_STATS")) settings->stats_file = file;
  if (const char* prefix = std::getenv("SIMCUDA_UNCOUNTED")) settings->uncounted = prefix;
  return true;
}

}  // namespace simcuda
