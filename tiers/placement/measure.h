// Measures how fast a folder's device takes writes from few and from many writers at the same time:
// the calibration of section IV.C of the VeloC paper. It writes as the backend writes chunks: bulk
// files, a few slots of each on their way at the same time, nothing synced.
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

// How many writers to measure with, for a model from 1 to `most_writers`: equally spaced from 1,
// and fewer than a tenth of the range (section IV.C), so the last may be a little beyond it. A
// range too small for that gets five, the fewest that give a curve its ends, or all that it has.
// From 1 to 180 it is 1, 13, ... 181: 16 of them.
std::vector<uint32_t> concurrency_levels(uint32_t most_writers);

struct MeasureSettings {
  std::string folder;             // on the device; has to be there
  uint32_t most_writers = 1;      // 1 to 4096: each is a thread
  uint64_t bytes_per_writer = 0;  // what one writes to its file: a chunk
  uint64_t slot_bytes = 4 << 20;  // written at a time
  uint32_t in_flight = 8;         // of these, for each writer
  uint64_t most_bytes = 0;        // that may lie in the folder at once; 0: no limit
  // With every number of writers, to see how far a model is from them (the paper's figure 3), and
  // not only with concurrency_levels().
  bool every_number = false;
};

struct MeasureProgress {
  size_t done = 0;  // samples
  size_t of = 0;
  ThroughputSample last;  // no writers before the first is done
};

// Takes the samples. Each writer writes a file of its own; a sample is what one writer reached on
// average, times the writers. The files lie in a folder of their own in
// `settings.folder` and are gone afterwards; what an earlier call left because its process died is
// removed first. kBusy while another process measures there. `progress` is called before, between
// and after the samples, by the thread that calls this; when it returns false, the measuring ends
// with kInvalid.
Result<std::vector<ThroughputSample>> measure_throughput(
    FileSystem& files, Clock& clock, const MeasureSettings& settings,
    const std::function<bool(const MeasureProgress&)>& progress);

// Bytes a second that one writer copies into slots of that size, within memory that is there. kIo
// where it took no time.
Result<double> measure_memory(Clock& clock, uint64_t slot_bytes);

}  // namespace gpusnap
