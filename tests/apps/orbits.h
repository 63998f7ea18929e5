#pragma once

#include "device.h"

constexpr unsigned kOrbits = 2048;
constexpr int kParts = 12;

struct Orbit {
  double x, y, vx, vy;
  double lost;  // what rounding took from the sum of x, to be given back
  double phase;
};

// The sine by reduction and a polynomial: conversions, rounding and fused arithmetic.
BOTH double sine(double angle) {
  const double turns = angle * 0.15915494309189535;
  const auto whole = static_cast<long long>(turns + (turns < 0 ? -0.5 : 0.5));
  const double x = fused(static_cast<double>(whole), -6.283185307179586, angle);
  const double s = x * x;
  double sum = 1.6059043836821613e-10;
  sum = fused(sum, s, -2.505210838544172e-8);
  sum = fused(sum, s, 2.7557319223985893e-6);
  sum = fused(sum, s, -1.984126984126984e-4);
  sum = fused(sum, s, 8.333333333333333e-3);
  sum = fused(sum, s, -0.16666666666666666);
  return fused(sum * s, x, x);
}

BOTH void advance(Orbit& orbit, double time) {
  const double square = orbit.x * orbit.x + orbit.y * orbit.y;
  const double pull = -1.0 / (square * square_root(square));
  orbit.phase += time;
  orbit.vx = fused(orbit.x * pull, time, orbit.vx) + 1e-6 * sine(orbit.phase);
  orbit.vy = fused(orbit.y * pull, time, orbit.vy);
  const double step = fused(orbit.vx, time, -orbit.lost);
  const double sum = orbit.x + step;
  orbit.lost = (sum - orbit.x) - step;
  orbit.x = sum;
  orbit.y = fused(orbit.vy, time, orbit.y);
}

BOTH double energy(const Orbit& orbit) {
  return 0.5 * (orbit.vx * orbit.vx + orbit.vy * orbit.vy) -
         1.0 / square_root(orbit.x * orbit.x + orbit.y * orbit.y);
}
