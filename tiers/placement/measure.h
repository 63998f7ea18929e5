// SPDX-License-Identifier: Apache-2.0
// Measures the write throughput of a folder's device with few and with many concurrent writers: the
// calibration of section IV.C of the VeloC paper. It writes like the backend writes chunks: bulk
// files, a few slots of each in flight, without syncs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tiers/clock.h"
#include "tiers/file_system.h"
#include "tiers/placement/throughput_model.h"
#include "tiers/status.h"

namespace gpusnap {

// Returns the numbers of writers to measure for a model from 1 to `most_writers`: equally spaced
// from 1 on, and fewer than a tenth of the range (section IV.C), so the last one may be a little
// beyond it. A range too small for that gets five numbers, the fewest that give a curve its ends,
// or all numbers of the range. For 180 writers it returns 16 numbers: 1, 13, ... 181.
std::vector<uint32_t> concurrency_levels(uint32_t most_writers);

struct MeasureSettings {
  std::string folder;             // on the device; must exist
  uint32_t most_writers = 1;      // 1 to 4096: each is a thread
  uint64_t bytes_per_writer = 0;  // that each writes to its file: a chunk
  uint64_t slot_bytes = 4 << 20;  // of one write
  uint32_t in_flight = 8;         // writes of each writer
  uint64_t most_bytes = 0;        // in the folder at the same time; 0: no limit
  // Measures every number of writers instead of concurrency_levels(), to compare a model with them
  // (the paper's figure 3).
  bool every_number = false;
};

struct MeasureProgress {
  size_t done = 0;  // samples
  size_t of = 0;
  ThroughputSample last;  // no writers before the first is done
};

// Takes the samples. Each writer writes a file of its own; a sample is the average throughput of
// one writer times the number of writers. The files lie in a folder of their own in
// `settings.folder` and are removed at the end; files of an earlier call whose process died are
// removed first. Returns kBusy while another process measures there. The calling thread calls
// `progress` before, between and after the samples; if that returns false, the measurement ends
// with kInvalid.
Result<std::vector<ThroughputSample>> measure_throughput(
    FileSystem& files, Clock& clock, const MeasureSettings& settings,
    const std::function<bool(const MeasureProgress&)>& progress);

// Returns the bytes per second of one writer that copies into slots of that size, within allocated
// memory. Returns kIo if it took no measurable time.
Result<double> measure_memory(Clock& clock, uint64_t slot_bytes);

}  // namespace gpusnap
