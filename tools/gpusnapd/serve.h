// The node's staging area, served until nothing has happened in it for a while.
#pragma once

#include "interpose/services/settings.h"
#include "tiers/status.h"

namespace gpusnap {

// kBusy where another process serves the node.
Status serve_node(const Settings& settings);

}  // namespace gpusnap
