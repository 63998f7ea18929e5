/* SPDX-License-Identifier: Apache-2.0
 *
 * Heat on a plate that is heated at its upper edge, by Jacobi's method: each rank has a strip of
 * rows. A program as others write it for VeloC: it saves its loop counter and its arrays every few
 * iterations and goes on from the newest checkpoint when it is started again.
 *
 *   heat CONFIG ITERATIONS EVERY memory|files
 *
 * memory: checkpoints are made of protected memory; files: of a file that each rank writes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/veloc/veloc.h"

enum { WIDTH = 128, ROWS = 48 }; /* of a strip, without the rows of its neighbours */
enum { COUNTER, HEAT, NEXT };    /* numbers of the protected memory */

static const char* const NAME = "heat";

static int rank, ranks;
static int iteration;
static double heat[ROWS + 2][WIDTH], next[ROWS + 2][WIDTH];

static void fail(const char* what) {
  fprintf(stderr, "rank %d: %s failed\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int result, const char* call) {
  if (result != VELOC_SUCCESS) fail(call);
}
#define MUST(call) must(call, #call)

static void say(const char* what, int number) {
  if (rank != 0) return;
  printf("%s %d\n", what, number);
  fflush(stdout);
}

/* ---- The computation */

static void exchange_edges(void) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(heat[1], WIDTH, MPI_DOUBLE, above, 0, heat[ROWS + 1], WIDTH, MPI_DOUBLE, below, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(heat[ROWS], WIDTH, MPI_DOUBLE, below, 1, heat[0], WIDTH, MPI_DOUBLE, above, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void start(void) {
  for (int x = WIDTH / 4; x < WIDTH / 2; ++x) heat[1][x] = rank == 0 ? 100.0 : 0.0;
}

/* The upper edge keeps its heat, and the other edges stay cold. */
static int is_edge(int y, int x) {
  return x == 0 || x == WIDTH - 1 || (rank == 0 && y == 1) || (rank == ranks - 1 && y == ROWS);
}

/* Returns the greatest change of any cell. */
static double relax(void) {
  double change = 0.0, greatest = 0.0;
  exchange_edges();
  for (int y = 1; y <= ROWS; ++y) {
    for (int x = 0; x < WIDTH; ++x) {
      next[y][x] =
          is_edge(y, x)
              ? heat[y][x]
              : 0.25 * ((heat[y - 1][x] + heat[y + 1][x]) + (heat[y][x - 1] + heat[y][x + 1]));
      change = fmax(change, fabs(next[y][x] - heat[y][x]));
    }
  }
  memcpy(heat[1], next[1], sizeof heat[0] * ROWS);
  MPI_Allreduce(&change, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return greatest;
}

/* The checksum of all bytes of all strips; at rank 0. */
static uint64_t checksum(void) {
  const unsigned char* const bytes = (const unsigned char*)heat[1];
  uint64_t mine = 0xcbf29ce484222325u + (uint64_t)rank, all = 0;
  for (size_t i = 0; i < sizeof heat[0] * ROWS; ++i) mine = (mine ^ bytes[i]) * 0x100000001b3u;
  MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  return all;
}

/* ---- Checkpoints in files */

static FILE* open_state(const char* mode) {
  char original[32], routed[VELOC_MAX_NAME];
  snprintf(original, sizeof original, "state.%d", rank);
  MUST(VELOC_Route_file(original, routed));
  FILE* const file = fopen(routed, mode);
  if (file == NULL) fail(routed);
  return file;
}

static int write_state(void) {
  FILE* const file = open_state("wb");
  const int written =
      fwrite(&iteration, sizeof iteration, 1, file) == 1 && fwrite(heat, sizeof heat, 1, file) == 1;
  return fclose(file) == 0 && written;
}

static void read_state(void) {
  FILE* const file = open_state("rb");
  const int read = fread(&iteration, sizeof iteration, 1, file) == 1 &&
                   fread(heat, sizeof heat, 1, file) == 1 && fgetc(file) == EOF;
  fclose(file);
  if (!read) fail("reading the state");
}

/* ---- Checkpoints */

static void save(int version, int in_files) {
  int success = 1;
  MUST(VELOC_Checkpoint_wait());
  MPI_Barrier(MPI_COMM_WORLD);
  if (version > 1) say("durable", version - 1);
  MUST(VELOC_Checkpoint_begin(NAME, version));
  if (in_files) {
    success = write_state();
  } else {
    MUST(VELOC_Checkpoint_mem());
  }
  MUST(VELOC_Checkpoint_end(success));
}

static void recover(int version, int in_files) {
  MUST(VELOC_Restart_begin(NAME, version));
  if (in_files) {
    read_state();
  } else {
    MUST(VELOC_Recover_mem());
  }
  MUST(VELOC_Restart_end(1));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 5) fail("usage: heat CONFIG ITERATIONS EVERY memory|files:");
  const int iterations = atoi(argv[2]), every = atoi(argv[3]);
  const int in_files = strcmp(argv[4], "files") == 0;
  double change = 0.0;

  MUST(VELOC_Init(MPI_COMM_WORLD, argv[1]));
  MUST(VELOC_Mem_protect(COUNTER, &iteration, 1, sizeof iteration));
  MUST(VELOC_Mem_protect(HEAT, heat, sizeof heat / sizeof(double), sizeof(double)));
  MUST(VELOC_Mem_protect(NEXT, next, sizeof next / sizeof(double), sizeof(double)));
  start();
  const int version = VELOC_Restart_test(NAME, 0);
  if (version > 0) {
    recover(version, in_files);
    say("restored", version);
    if (iteration != version * every) fail("restoring the iteration");
  }

  while (iteration < iterations) {
    change = relax();
    ++iteration;
    if (iteration % every == 0) save(iteration / every, in_files);
  }

  const uint64_t sum = checksum();
  if (rank == 0) printf("change %.9g, checksum %016" PRIx64 "\n", change, sum);
  MUST(VELOC_Finalize(1));
  MPI_Finalize();
  return 0;
}
