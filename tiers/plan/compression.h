// SPDX-License-Identifier: Apache-2.0
//
// PCCR's cost model of checkpoints that are compressed before they go to a shared file system
// (section II of the paper, figure 4): not compressed, compressed and then stored, and compressed
// in a pipeline with storing.
#pragma once

#include "tiers/status.h"

namespace gpusnap::plan {

struct CompressionCosts {
  double bytes = 0;             // S: of one process
  double collect_s = 0;         // Tc: to collect them
  double compress_s = 0;        // Tzip: to compress them
  double ratio = 1;             // delta: compressed over uncompressed bytes, below 1 if it helps
  double process_rate = 0;      // b: bytes/s that one process can store
  double file_system_rate = 0;  // Bf: bytes/s that the file system takes
};

// kInvalid for what is not positive (times may be 0) or not finite.
Status check(const CompressionCosts& costs);

// Seconds of a checkpoint of so many processes.
struct CheckpointTimes {
  double uncompressed_s = 0;  // Tu
  double sequential_s = 0;    // Tz
  double pipelined_s = 0;     // TP
};

// The formulas as they are printed. Below saturation they store at the whole file system's rate,
// and above they count only the processes beyond it, so that they fall behind the physical time by
// up to S/b.
CheckpointTimes printed_times(const CompressionCosts& costs, double processes);

// Times of the same quantities as they are physically: a process stores no faster than b, and all
// of them together no faster than Bf.
CheckpointTimes corrected_times(const CompressionCosts& costs, double processes);

// Numbers of processes at which the curves of figure 4 bend or cross. Infinity: never.
struct CompressionPoints {
  double saturation = 0;             // k = Bf / b
  double compressed_saturation = 0;  // k'
  double pipelined_saturation = 0;   // k''
  double sequential_benefit = 0;     // p0: from here sequential compression is faster
  double pipelined_benefit = 0;      // p0'
};
CompressionPoints points_of(const CompressionCosts& costs);

}  // namespace gpusnap::plan
