// Limits of the simulated device that launches are checked against and queries tell.
#pragma once

#include <cstdint>

namespace simcuda {

inline constexpr int kMaxThreadsPerBlock = 1024;
inline constexpr int kMaxBlockZ = 64;
inline constexpr int kMaxGridX = 0x7fffffff;
inline constexpr int kMaxGridYZ = 65535;
inline constexpr int kSharedPerBlock = 48 << 10;  // bytes, without asking for more
inline constexpr int kMaxPitch = 0x7fffffff;      // bytes
inline constexpr int kMultiprocessors = 8;
inline constexpr int kWarp = 32;
inline constexpr int kDecompressAlgorithms = 7;    // Deflate, Snappy, LZ4
inline constexpr int kMostToDecompress = 4 << 20;  // bytes, of one piece

// Properties that depend on the compute capability (10 * major + minor).
struct DeviceProperties {
  int shared_per_block_optin = 0;     // bytes
  int shared_per_multiprocessor = 0;  // bytes
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
};
DeviceProperties device_properties(int arch);

}  // namespace simcuda
