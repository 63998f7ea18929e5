#pragma once

#include "device.h"

BOTH unsigned stirred(unsigned value, unsigned with, unsigned at) {
  return value * 1664525u + with * 22695477u + at;
}
