// Settings of the devices to simulate, from the environment. Read once, by cuInit.
#pragma once

#include <cstdint>
#include <string>

#include "tools/simcuda/driver/engine_settings.h"

namespace simcuda {

struct Settings {
  int devices = 1;                      // SIMCUDA_DEVICES
  uint64_t memory = uint64_t{4} << 30;  // SIMCUDA_MEMORY: bytes of each device
  int arch = 90;                        // SIMCUDA_ARCH: 10 * major + minor
  bool machine_code = false;            // SIMCUDA_SASS: the program holds that alone
  bool addresses_of_host = false;       // SIMCUDA_ADDRESSES: as with hardware, or apart from them
  bool hints = true;                    // SIMCUDA_HINTS: reservations are made where asked for
  uint64_t device_seed = 0;             // SIMCUDA_ASLR: 0 leaves device addresses where they are
  uint64_t host_seed = 0;               // SIMCUDA_HOST_ASLR: likewise pinned and managed memory
  std::string stats_file;               // SIMCUDA_STATS: empty for none
  std::string uncounted;                // SIMCUDA_UNCOUNTED: how names of kernels begin
  EngineSettings engines;
};

// The version that the driver says it has: SIMCUDA_DRIVER_VERSION, as 13010 for 13.1. Asked before
// cuInit, too, which refuses one that cannot be read.
int driver_version();

// Reads the environment into `settings`. On a value that cannot be read, returns false with one
// line that names the variable, the value and what would be right.
bool read_settings(Settings* settings, std::string* error);

}  // namespace simcuda
