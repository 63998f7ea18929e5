// How a backend works, in a process of its own or in that of the program.
#pragma once

#include "interpose/services/settings.h"
#include "tiers/backend/backend.h"

namespace gpusnap {

Backend::Options backend_options(const Settings& settings);

}  // namespace gpusnap
