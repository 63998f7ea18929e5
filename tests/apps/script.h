#pragma once

#include "device.h"

// A kernel's change to a word: all earlier values stay in it.
BOTH unsigned stirred(unsigned word, unsigned with) {
  return (word ^ with) * 2654435761u + (word >> 13);
}
