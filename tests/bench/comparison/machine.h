// SPDX-License-Identifier: Apache-2.0
//
// The machine of the VeloC paper, Theta (section V.A), as far as the paper describes it.
// docs/benchmarks.md names the source of each constant, and what is assumed.
#pragma once

#include <cstdint>
#include <functional>

namespace gpusnap::comparison {

inline constexpr double kChunkBytes = 64 << 20;  // section V.A

// Bytes per second of all that use a device at the same time, by how many they are.
using Curve = std::function<double(double)>;

// `of_one` is the most that one user reaches; 0: no limit but `total`.
Curve memory_curve(double total, double of_one);

// Best at `best` users. Below, `peak` times (users / best) ^ `rise`; above, `peak` divided by
// 1 + `decline` for each user more.
struct SsdCurve {
  double peak = 700e6;
  double best = 16;
  double rise = 0.7;
  double decline = 0.012;
  double operator()(double users) const;
};

// Bandwidths in bytes per second.
struct Store {
  double of_node = 3.5e9;  // what a node reaches at its best number of files
  double best_files = 16;  // one file reaches `of_node` divided by this
  double decline = 0;      // beyond the best number, as of the SSD
  double total = 240e9;    // of all nodes
  // Other jobs leave a part of each node's and of the total bandwidth, from `least_left` to 1,
  // drawn anew after each interval. 1: nobody interferes.
  double least_left = 0.5;
  double interval_s = 5;
  // If set, the store also has only this part of its bandwidth, by the time when an interval
  // begins.
  std::function<double(double)> part_at{};

  double of_files(double files) const;  // of a node that writes so many at the same time
  double of_one_file() const { return of_node / best_files; }
};

struct Machine {
  Curve memory = memory_curve(20e9, 0);
  Curve ssd = SsdCurve();
  // How much of a writer a flush is to the SSD that it reads from. 0: reads cost nothing.
  double read_weight = 1;
  Store store;
};

}  // namespace gpusnap::comparison
