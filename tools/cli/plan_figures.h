// SPDX-License-Identifier: Apache-2.0
//
// The figures of GPU Snapshot and PCCR that a model can draw, with the points that the papers'
// texts state.
#pragma once

#include <string>
#include <vector>

#include "tiers/plan/models.h"
#include "tools/cli/curve_svg.h"

namespace gpusnap {

struct PlanFigure {
  std::string file;  // "gpu-snapshot-figure2.svg"
  std::vector<Chart> charts;
};

// Figures 2, 3, 12, 13 and 14 of GPU Snapshot by this model; figures 4 and 12 of PCCR.
std::vector<PlanFigure> plan_figures(plan::Model model);

}  // namespace gpusnap
