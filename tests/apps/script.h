#pragma once

#include "device.h"

// What a kernel does to a word: all earlier values stay in it.
BOTH unsigned stirred(unsigned word, unsigned with) {
  return (word ^ with) * 2654435761u + (word >> 13);
}
