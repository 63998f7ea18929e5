#pragma once

#include "tests/apps/device.h"

// One cell of a wave: where it was, where it is, and where it is drawn to.
BOTH double moved_on(double before, double now, double left, double right, double rate) {
  return (2.0 * now - before) + rate * ((left + right) - 2.0 * now);
}
