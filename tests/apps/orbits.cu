// Many small planets around one sun, in double precision.
#include "orbits.h"

KERNEL void travel(Orbit* orbits, double* energies, double time) {
  const unsigned at = global_index();
  Orbit orbit = orbits[at];
  for (int part = 0; part < kParts; ++part) advance(orbit, time);
  orbits[at] = orbit;
  energies[at] = energy(orbit);
}
