// SPDX-License-Identifier: Apache-2.0
//
// Input and output of the models that plan checkpoints: what a checkpoint costs on each level of
// storage, how often failures need each level, and the efficiency and intervals that follow.
// Everything in tiers/plan is pure logic without clocks or files; any thread may call it.
#pragma once

#include <string>
#include <vector>

namespace gpusnap::plan {

// One level of storage, from the fastest to the safest. A failure of a level's class is repaired
// from that level; a checkpoint of a level serves the classes of all levels below it, too.
struct Level {
  std::string name;
  double stall_s = 0;         // how long a checkpoint of this level holds the program
  double latency_s = 0;       // then, in the background, until failures of its class are covered
  double restart_s = 0;       // how long a restart from this level takes
  double failures_per_s = 0;  // of the class that needs this level, over the whole job
};

// Share of the total time for each cause. With the efficiency they add up to 1.
struct Overhead {
  std::vector<double> checkpoint;  // by level
  double restart = 0;
  double lost_work = 0;  // computed again after failures, or spent on checkpoints that failed
};

struct Prediction {
  double efficiency = 0;  // useful time over total time; 0: the job never ends
  // Seconds of work between checkpoints of this level or a higher one. 0: a level that costs
  // nothing; infinity: no failure needs the level.
  std::vector<double> intervals_s;
  Overhead overhead;
};

}  // namespace gpusnap::plan
