// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device.h"

BOTH unsigned turned(unsigned value, unsigned factor, unsigned more) {
  return value * (2 * factor + 1) + more;
}
