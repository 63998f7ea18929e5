// A measurement of backend_driver, as its arguments describe it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "throttled_file_system.h"
#include "tiers/backend/backend.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/status.h"

namespace gpusnap::bench {

// Benchmarks have nobody to tell but who runs them.
[[noreturn]] inline void fail(const std::string& why) {
  std::fprintf(stderr, "backend_driver: %s\n", why.c_str());
  std::exit(1);
}
inline void check(const Status& status) {
  if (!status.ok()) fail(status.message());
}
template <class T>
T get(Result<T> result) {
  check(result.status());
  return std::move(result.value());
}

// Sizes as settings have them: 4M. Rates as "1:100M,4:160M": files that move bytes at the same
// time, and bytes a second of all together; changes as "2:0.25": seconds, factor.
struct Setup {
  std::string folder;
  std::string what = "checkpoint";  // plain: a loop that writes the same; calibrate: measures the
                                    // local device and stores it; model: how far such a model is
                                    // off
  uint32_t ranks = 1;
  uint64_t bytes = 64 << 20;  // of each rank
  uint64_t cache = 64 << 20;  // of the staging area
  uint64_t slot = 4 << 20;
  uint64_t chunk = 64 << 20;
  PlacementPolicy policy = PlacementPolicy::kHybridOpt;
  uint32_t writers = 16;     // calibrate, model: the most
  uint32_t checkpoints = 1;  // one after the other
  uint64_t compute_ms = 0;   // before each of them
  uint32_t every_slot = 1;   // those behind the first are increments, of every n-th slot
  uint32_t chain = 0;        // GPUSNAP_CHAIN
  bool synchronous = false;  // each is waited for
  uint32_t workers = 1;
  uint32_t writes = 8;
  uint32_t flushes = 4;
  std::string compress = "off";
  std::string data = "random";  // smooth, zeros
  bool reads = false;           // what was written is read again
  bool threads = false;         // not io_uring
  test::DeviceRates pfs, pfs_reads;
  test::DeviceRates ssd, ssd_reads;  // no rates: there is no local device
};
Setup parse_setup(int argc, char** argv);

// On the devices.
struct Folders {
  std::string pfs;
  std::string ssd;  // empty: none
};
Folders make_folders(const Setup& setup);

Backend::Options options_of(const Setup& setup, const Folders& folders);

struct Report {
  double local_s = 0;     // until all of every rank had been handed over
  double complete_s = 0;  // until all was durable, from the beginning on
  uint64_t memory_bytes = 0;
  uint64_t stored_bytes = 0;
  double plain_write_s = 0;
  double plain_read_s = 0;
  double read_s = 0;
  uint64_t ssd_bytes = 0;
  std::string io;
};

}  // namespace gpusnap::bench
