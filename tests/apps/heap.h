#pragma once

#include "device.h"

// Of each block the program sets the words with an even index, and the device adds them up.
constexpr unsigned kSetEvery = 2;
