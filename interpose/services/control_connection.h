// SPDX-License-Identifier: Apache-2.0
//
// The asking end of a connection between the libraries of two processes (control.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tiers/io/system_call.h"

namespace gpusnap {

// To the process of that number, which is this user's. `flags`: of the socket. Not valid: there is
// none, or not now.
Descriptor connect_to(pid_t process, int flags);

// One message, with the descriptors that come along; empty: the other end has gone. Nothing: none
// has come yet, where the socket does not wait.
std::optional<std::string> receive(int connection, std::vector<Descriptor>& files);

}  // namespace gpusnap
