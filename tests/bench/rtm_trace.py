"""Checkpoint sizes like those of reverse time migration (RTM) on eight GPUs, by step.

The traces of the SC'22 talk (slides 18 and 19) are not public. Known are: 776 checkpoints, about 53 GB
in all for each GPU, sizes after compression that differ between GPUs and steps. The rest is ours:

- The domain is the unit cube, cut into 2 x 2 x 2 subdomains. GPU i has the one whose three coordinates
  are the bits of i. Each has CELLS^3 cells.
- A wave starts on the surface (z = 0), at a place that the seed chooses, and moves on by the same
  distance in each step. The last step is the one in which it has left the cube, coda included.
- A cell that the wave has not reached compresses to FLOOR of a busy cell. At the front a cell is as busy
  as it can be, and calms down over the length CODA behind the front: what is left falls linearly.
- A checkpoint is as large as its cells are busy. All sizes are scaled so that a GPU's mean is 53 GB / 776.

FLOOR is the one free parameter that was fitted: with it the median overhead of the baseline over five seeds
comes to the published 400 %. Everything else follows, the overhead of the greedy schedule as well.
"""

import bisect
import dataclasses
import itertools
import math
import random

GPUS = 8
STEPS = 776
TOTAL = 53e9  # bytes of each GPU
CELLS = 6     # along each edge of a subdomain
CODA = 0.3    # of the cube's edge
FLOOR = 0.033


@dataclasses.dataclass(frozen=True)
class Shape:
    coda: float = CODA
    floor: float = FLOOR
    grid: tuple = (2, 2, 2)  # subdomains along x, y, z


def subdomain(gpu, grid):
    """The middles of its cells."""
    place = gpu % grid[0], gpu // grid[0] % grid[1], gpu // grid[0] // grid[1]
    axes = [[(place[axis] + (cell + 0.5) / CELLS) / grid[axis] for cell in range(CELLS)]
            for axis in range(3)]
    return [(x, y, z) for x in axes[0] for y in axes[1] for z in axes[2]]


def trace(seed, steps=STEPS, shape=Shape()):
    """sizes[step][gpu], in bytes."""
    chance = random.Random(seed)
    source = chance.random(), chance.random(), 0.0
    distances = [sorted(math.dist(cell, source) for cell in subdomain(gpu, shape.grid))
                 for gpu in range(GPUS)]
    sums = [[0, *itertools.accumulate(each)] for each in distances]
    end = max(map(max, distances)) + shape.coda

    def busy(gpu, front):
        """The mean of 1 - (front - distance) / coda over the cells of the coda, which are consecutive."""
        near, sums_before = distances[gpu], sums[gpu]
        first, last = bisect.bisect_left(near, front - shape.coda), bisect.bisect_right(near, front)
        distance = sums_before[last] - sums_before[first]
        total = (last - first) * (1 - front / shape.coda) + distance / shape.coda
        return shape.floor + total / len(near)

    rows = [[busy(gpu, end * (step + 0.5) / steps) for gpu in range(GPUS)] for step in range(steps)]
    scale = TOTAL / STEPS / (sum(map(sum, rows)) / (steps * GPUS))
    return [[round(scale * size) for size in row] for row in rows]
