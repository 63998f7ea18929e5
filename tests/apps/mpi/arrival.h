#pragma once

#include "tests/apps/device.h"

using Word = unsigned long long;

constexpr unsigned kCells = 64;
constexpr Word kFactor = 6364136223846793005u;
constexpr Word kSpread = 0x9e3779b97f4a7c15u;
