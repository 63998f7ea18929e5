/* OpenMP: bodies that attract each other; a data region, teams and a reduction in each step. */
#include "program.h"

enum { kBodies = 64 };
struct Body {
  long x, y, speed_x, speed_y;
};

#pragma omp declare target
static long pull(long distance) {
  return distance == 0 ? 0 : 65536 / (distance + (distance > 0 ? 64 : -64));
}
#pragma omp end declare target

static void expected_step(struct Body* bodies) {
  for (int i = 0; i < kBodies; ++i)
    for (int j = 0; j < kBodies; ++j) {
      bodies[i].speed_x += pull(bodies[j].x - bodies[i].x);
      bodies[i].speed_y += pull(bodies[j].y - bodies[i].y);
    }
  for (int i = 0; i < kBodies; ++i) {
    bodies[i].x += bodies[i].speed_x >> 6;
    bodies[i].y += bodies[i].speed_y >> 6;
  }
}

int main(int argc, char** argv) {
  static struct Body bodies[kBodies], host[kBodies];
  int steps = steps_of(argc, argv);
  for (int i = 0; i < kBodies; ++i) {
    struct Body body = {i * 7919 % 1000, i * 104729 % 1000, 0, 0};
    bodies[i] = host[i] = body;
  }
#pragma omp target data map(tofrom : bodies)
  for (int step = 0; step < steps; ++step) {
    long energy = 0;
#pragma omp target teams distribute parallel for num_teams(4) thread_limit(4)
    for (int i = 0; i < kBodies; ++i)
      for (int j = 0; j < kBodies; ++j) {
        bodies[i].speed_x += pull(bodies[j].x - bodies[i].x);
        bodies[i].speed_y += pull(bodies[j].y - bodies[i].y);
      }
#pragma omp target teams distribute parallel for num_teams(4) thread_limit(4) \
    reduction(+ : energy) map(tofrom : energy)
    for (int i = 0; i < kBodies; ++i) {
      bodies[i].x += bodies[i].speed_x >> 6;
      bodies[i].y += bodies[i].speed_y >> 6;
      energy += bodies[i].speed_x * bodies[i].speed_x + bodies[i].speed_y * bodies[i].speed_y;
    }
    expected_step(host);
    long host_energy = 0;
    for (int i = 0; i < kBodies; ++i)
      host_energy += host[i].speed_x * host[i].speed_x + host[i].speed_y * host[i].speed_y;
    check(energy == host_energy, "the energy", step);
    printf("%d %ld\n", step, energy);
  }
  check(memcmp(bodies, host, sizeof host) == 0, "a body", steps);
  printf("%08x\nok\n", digest(bodies, sizeof bodies));
  return 0;
}
