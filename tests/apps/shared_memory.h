#pragma once

#include "device.h"

constexpr unsigned kPoints = 8192;
constexpr unsigned kPointThreads = 128;
constexpr unsigned kPointBlocks = kPoints / kPointThreads;

// The report that a block writes into memory that the host sees, too.
struct Report {
  double largest;
  unsigned step;
  unsigned crossed;
};

BOTH double swung(double position, double& speed, double force) {
  for (int part = 0; part < 6; ++part) {
    speed = speed * 0.999 + (force - position) * 0.03125;
    position += speed * 0.0625;
  }
  return position;
}
