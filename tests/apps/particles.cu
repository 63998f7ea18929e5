// Gravity between all pairs, a tile of bodies at a time through shared memory.
#include "particles.h"

extern SHARED Body tile[];

KERNEL void advance(const Body* bodies, Body* moved, Body* velocities, int count, float time) {
  const int self = static_cast<int>(global_index());
  const Body body = bodies[self];
  float ax = 0, ay = 0, az = 0;
  for (int begin = 0; begin < count; begin += static_cast<int>(block_size())) {
    tile[thread_index()] = bodies[begin + static_cast<int>(thread_index())];
    __syncthreads();
    for (unsigned other = 0; other < block_size(); ++other) {
      attract(body, tile[other], ax, ay, az);
    }
    __syncthreads();
  }
  Body after = body;
  Body velocity = velocities[self];
  move(after, velocity, ax, ay, az, time);
  moved[self] = after;
  velocities[self] = velocity;
}
