#pragma once

#include "tests/apps/device.h"

// The part of `mass` that goes from a cell to its neighbour.
BOTH unsigned moved(unsigned mass, unsigned round) {
  return (mass * 2654435761u ^ round * 40503u) % (mass / 2 + 1);
}
