// Settings of the devices' engines in the environment: how fast they are on the virtual clock,
// which faults are injected, and which engines are held. Read once, by cuInit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/simcuda/driver/links.h"

namespace simcuda {

// Engines do the work of streams; each device has one of each.
enum class Engine : uint8_t {
  kCompute,   // kernels and sets
  kToHost,    // copies to the host
  kToDevice,  // copies from the host
  kCopy,      // copies within and between devices
};
inline constexpr size_t kEngines = 4;

struct ClockSettings {
  bool is_virtual = false;  // SIMCUDA_CLOCK: virtual or host
  // SIMCUDA_BANDWIDTH: bytes a second of each engine; kCompute's is that of the device's memory.
  std::array<uint64_t, kEngines> bandwidth = {2'000'000'000'000, 25'000'000'000, 25'000'000'000,
                                              1'000'000'000'000};
  uint64_t instructions = 20'000'000'000'000;  // SIMCUDA_BANDWIDTH: of all threads, a second
  // SIMCUDA_LATENCY: nanoseconds that each kernel or set, each copy or batch of copies, and each
  // further copy of a batch takes besides.
  uint64_t kernel_latency = 5'000;
  uint64_t copy_latency = 10'000;
  uint64_t batch_latency = 1'000;
  uint64_t pace = 100;  // SIMCUDA_PACE: time of the host that is one unit of virtual time
};

// Points where a fault can be injected.
enum class FaultPoint : uint8_t {
  kAllocation,    // of device or managed memory
  kPinned,        // pinned memory, made or registered
  kCopy,          // any copy
  kCopyToHost,    //
  kCopyToDevice,  //
  kLaunch,        // of a kernel
  kContext,       // the context, by an operation that a stream does
};
inline constexpr size_t kFaultPoints = 7;

struct FaultRule {
  uint64_t at = 0;       // which one fails, from 1; 0: none
  bool onwards = false;  // and all after it
};

struct EngineSettings {
  ClockSettings clock;
  std::array<FaultRule, kFaultPoints> faults;  // SIMCUDA_FAULT
  // SIMCUDA_HOLD: an engine begins no operation while its file exists; empty: never held.
  std::array<std::string, kEngines> held_by;
  // SIMCUDA_PINNING: bytes of host memory that are registered in a second of the host's; 0: at
  // once.
  uint64_t pinning = 0;
  Links links;        // SIMCUDA_LINKS
  std::string trace;  // SIMCUDA_TRACE: a file for a line about each operation; empty: none
};

// Reads the environment, for so many devices. On a value that cannot be read, returns false with
// one line that names the variable, the value and what would be right.
bool read_engine_settings(int devices, EngineSettings* settings, std::string* error);

// A number with K, M, G or T for powers of 1000, as rates a second are given, from 1M to 1000T.
std::optional<uint64_t> parse_rate(std::string_view text);

}  // namespace simcuda
