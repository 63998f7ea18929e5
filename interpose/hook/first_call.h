// SPDX-License-Identifier: Apache-2.0
//
// Functions of the driver that the tables do not know: of names, or of forms of a name, that are
// newer than they. A program gets a thunk in their place. Runtimes resolve all names that they
// know, so nothing is decided before the first call: that ends checkpoints by name.
#pragma once

#include <string_view>

namespace gpusnap {

// Listed in passed_through.table: the name, or one of its forms, "cuDeviceGetUuid_v2".
bool is_passed_through(std::string_view name);

// The thunk that stands for `real`; the same for the same. Any thread, at any time. If there is no
// thunk left, checkpoints end now, and it is `real`.
void* thunk_of(const char* name, void* real);

}  // namespace gpusnap
