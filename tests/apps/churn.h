#pragma once

#include "device.h"

BOTH unsigned stirred(unsigned value, unsigned other, unsigned salt) {
  for (int round = 0; round < 12; ++round) {
    value = (value ^ (other >> 3)) * 2246822519u + salt;
    other = (other << 7 | other >> 25) + value;
  }
  return value;
}
