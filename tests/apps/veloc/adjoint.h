// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/apps/device.h"

// A section through the ground, row by row from the surface down. Its edge stays at rest.
// Passed to kernels by value.
struct Section {
  int width, height;
};

// Receivers are in each cell of this row, next to the surface.
constexpr int kReceiverRow = 1;
