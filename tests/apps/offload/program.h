/* Shared by the C programs of this folder: programs with OpenACC and OpenMP offload regions, as gcc
   builds them. They name no CUDA call; libgomp's plug-in makes them. Sums are exact whatever their
   order, and each program compares what the device has calculated with the host's own results. */
#ifndef TESTS_APPS_OFFLOAD_PROGRAM_H
#define TESTS_APPS_OFFLOAD_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of steps: the one argument. */
static inline int steps_of(int argc, char** argv) {
  int steps = argc == 2 ? atoi(argv[1]) : 0;
  if (steps > 0) return steps;
  fprintf(stderr, "usage: %s STEPS\n", argv[0]);
  exit(2);
}

static inline void check(int good, const char* what, int step) {
  if (good) return;
  fflush(stdout);
  fprintf(stderr, "step %d: %s is wrong\n", step, what);
  exit(1);
}

/* A value that depends on all bytes. */
static inline unsigned digest(const void* data, size_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  unsigned value = 2166136261u;
  for (size_t i = 0; i < bytes; ++i) value = (value ^ at[i]) * 16777619u;
  return value;
}

#endif
