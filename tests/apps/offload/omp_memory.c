/* OpenMP: memory from the library's own calls, associated by hand, copied as a whole and in boxes;
   mappings that come and go. */
#include <omp.h>

#include "program.h"

enum { kRows = 24, kColumns = 40 };

int main(int argc, char** argv) {
  static unsigned grid[kRows][kColumns], host[kRows][kColumns], box[kRows][kColumns];
  int steps = steps_of(argc, argv);
  int device = omp_get_default_device(), here = omp_get_initial_device();
  unsigned* mine = (unsigned*)omp_target_alloc(sizeof grid, device);
  unsigned* other = (unsigned*)omp_target_alloc(sizeof grid, device);
  check(mine != NULL && other != NULL, "an allocation", 0);
  check(omp_target_memcpy(mine, grid, sizeof grid, 0, 0, device, here) == 0, "a copy", 0);
  check(omp_target_associate_ptr(grid, mine, sizeof grid, 0, device) == 0, "a mapping", 0);
  for (int step = 0; step < steps; ++step) {
    size_t count = (size_t)(step % 5 + 1) * 100;
    unsigned* extra = (unsigned*)malloc(count * sizeof *extra);
    for (size_t i = 0; i < count; ++i) extra[i] = (unsigned)(i * 31 + (size_t)step);
#pragma omp target enter data map(to : extra [0:count])
#pragma omp target teams distribute parallel for collapse(2) num_teams(4) thread_limit(2) \
    firstprivate(count) map(tofrom                                                        \
                            : grid)
    for (int y = 0; y < kRows; ++y)
      for (int x = 0; x < kColumns; ++x)
        grid[y][x] = grid[y][x] * 3 + extra[(size_t)(y * kColumns + x) % count];
#pragma omp target exit data map(delete : extra [0:count])
    for (int y = 0; y < kRows; ++y)
      for (int x = 0; x < kColumns; ++x)
        host[y][x] = host[y][x] * 3 + extra[(size_t)(y * kColumns + x) % count];
    free(extra);
    check(omp_target_memcpy(other, mine, sizeof grid, 0, 0, device, device) == 0, "a copy", step);
#pragma omp target is_device_ptr(other)
    for (int i = 0; i < kColumns; ++i) other[i] += (unsigned)i;
    size_t volume[2] = {3, 10}, to[2] = {1, 2}, from[2] = {(size_t)step % 20, 0};
    size_t whole[2] = {kRows, kColumns};
    check(omp_target_memcpy_rect(box, other, sizeof(unsigned), 2, volume, to, from, whole, whole,
                                 here, device) == 0,
          "a copy", step);
    for (size_t y = 0; y < volume[0]; ++y)
      for (size_t x = 0; x < volume[1]; ++x)
        check(box[to[0] + y][to[1] + x] ==
                  host[from[0] + y][x] + (from[0] + y == 0 ? (unsigned)x : 0),
              "a box", step);
    printf("%d %08x\n", step, digest(box, sizeof box));
  }
  check(omp_target_memcpy(box, mine, sizeof grid, 0, 0, here, device) == 0, "a copy", steps);
  check(memcmp(box, host, sizeof host) == 0, "the grid", steps);
  omp_target_disassociate_ptr(grid, device);
  omp_target_free(other, device);
  omp_target_free(mine, device);
  printf("%08x\nok\n", digest(box, sizeof box));
  return 0;
}
