// Shared by the kernels of the random programs.
#pragma once

#include "tests/apps/device.h"

namespace {

DEVICE inline unsigned threads() {
  return block_size() * block_count();
}
DEVICE inline unsigned mixed(unsigned a, unsigned b) {
  a = (a ^ b) * 0x9e3779b1u;
  return a ^ a >> 15;
}

}  // namespace
