# SPDX-License-Identifier: Apache-2.0
"""A plate that CuPy heats: one line a step, the same in each run.

  cupy_loop.py [STEPS]
"""
import hashlib
import sys

import cupy


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    relax = cupy.ElementwiseKernel('raw float32 heat, int32 width', 'float32 next', '''
        const int x = i % width, y = i / width;
        const bool edge = x == 0 || y == 0 || x == width - 1 || y == width - 1;
        next = edge ? heat[i]
                    : 0.25f * (heat[i - 1] + heat[i + 1] + heat[i - width] + heat[i + width]);
        ''', 'relax')
    heat = cupy.zeros((1024, 1024), dtype=cupy.float32)
    heat[0, :] = cupy.linspace(0, 1, 1024, dtype=cupy.float32)
    for step in range(steps):
        heat = relax(heat, cupy.int32(1024), size=heat.size).reshape(heat.shape)
        print('step %d: %s' % (step, float(heat[1, step % 1024]).hex()), flush=True)
    print('digest %s' % hashlib.sha256(cupy.asnumpy(heat).tobytes()).hexdigest())


if __name__ == '__main__':
    main()
