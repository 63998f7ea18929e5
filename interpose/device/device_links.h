// SPDX-License-Identifier: Apache-2.0
//
// The links between devices, asked of a driver.
#pragma once

#include <memory>

#include "interpose/device/topology.h"

namespace gpusnap {

// `library`: a loaded libcuda.so.1, whose cuInit() has succeeded. Not thread-safe. Facts need no
// context. The first copy over a link makes the primary contexts of its devices, and a buffer of
// kLongestCopy bytes on each and on the host; all of them are given back at the end. Access between
// contexts stays enabled where somebody else retains them. So copies are for a process of our own,
// and not for the program's.
//
// An error: the driver lacks a function, which is named.
Result<std::unique_ptr<DeviceLinks>> links_of_driver(void* library);

}  // namespace gpusnap
