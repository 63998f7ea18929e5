#pragma once

#include "device.h"

// The program sets the words of each block that have an even index, and the device adds them up.
constexpr unsigned kSetEvery = 2;
