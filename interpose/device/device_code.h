// Our own kernels in a context of the program: fingerprints of zones, computed where the zones are,
// and the gathering of scattered zones into one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "interpose/device/zones.h"
#include "interpose/hook/driver.h"
#include "tiers/checksum.h"
#include "tiers/status.h"

namespace gpusnap {

// The kernels in one context, loaded for good when load() returns: what a driver loads only at the
// first launch may have to wait for a kernel that never ends. They use no local memory.
//
// A plain value. Its functions may be called by any thread that has the context current; they
// enqueue and return, allocate nothing, and do not touch the program's streams.
class DeviceCode {
 public:
  using Span = ZoneSpan;    // fingerprints of its zones go to out[first], out[first + 1], ...
  using Piece = ZonePiece;  // device addresses, bytes

  // Into the current context. An error says what the driver said.
  static Result<DeviceCode> load(const Driver& driver);

  // Enqueues on `stream`. `spans`: `count` Spans in device memory, ascending by `first`. `out`: 64
  // bits for each zone, in device memory. Numbers below `zones` that are in no span are left as
  // they are. `zone_bytes`: a power of two, 4 KiB to 2 MiB. Nothing outside of the spans is read.
  CUresult fingerprints(CUdeviceptr spans, uint32_t count, uint64_t zones, uint64_t zone_bytes,
                        CUdeviceptr out, CUstream stream) const;
  // Enqueues on `stream` the copying of `count` Pieces in device memory, which may lie and be as
  // they like, but must not overlap what another one writes. Fast where a piece's two addresses are
  // alike modulo 16.
  CUresult gather(CUdeviceptr pieces, uint32_t count, CUstream stream) const;
  // With the context current and the kernels not running. Nothing else may be called afterwards.
  void unload();

 private:
  explicit DeviceCode(const Driver& driver) : driver_(&driver) {}
  CUresult load_function(CUfunction& function, const char* name) const;

  const Driver* driver_;
  CUmodule module_ = nullptr;
  CUfunction fingerprints_ = nullptr, gather_ = nullptr;
  unsigned most_blocks_ = 0;  // of a grid: more would only queue
};

}  // namespace gpusnap
