#!/usr/bin/env python3
"""Small computations of many kinds, over and over on the same device memory, with Numba: kernels.py [steps]

A client that knows nothing of checkpoints. Prints digests of its state after every step, and at the end
whether numpy gets the same. Kernels are kept in Numba's own cache: without it the text of one that calls
several functions depends on where Python's objects lie, and so on the environment.
"""
import hashlib
import math
import sys
import warnings

import numpy
from numba import cuda, float32, float64, int32, vectorize
from numba.core.errors import NumbaPerformanceWarning
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32
from numba.cuda.random import xoroshiro128p_normal_float64

warnings.simplefilter('ignore', NumbaPerformanceWarning)

COUNT = 256
SIZE = 32
TILE = 8
PADDED = TILE + 1
BINS = 16
WEIGHTS = numpy.array([0.05, 0.2, 0.5, 0.2, 0.05], dtype=numpy.float32)


@cuda.jit(cache=True)
def draw(states, uniform, normal):
    i = cuda.grid(1)
    if i < uniform.size:
        uniform[i] = xoroshiro128p_uniform_float32(states, i)
        normal[i] = xoroshiro128p_normal_float64(states, i)


@cuda.jit(cache=True)
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + 0.9 * y[i]


@cuda.jit(cache=True)
def convolve(source, target):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < target.size:
        value = float32(0)
        for k in range(5):
            value += weights[k] * source[(i + k - 2) % source.size]
        target[i] = value


@cuda.jit(cache=True)
def heat(source, target):
    i, j = cuda.grid(2)
    n, m = source.shape
    if i < n and j < m:
        target[i, j] = source[i, j] + 0.2 * (source[(i + 1) % n, j] + source[(i - 1) % n, j]
                                             + source[i, (j + 1) % m] + source[i, (j - 1) % m]
                                             - 4.0 * source[i, j])


@cuda.jit(cache=True)
def warm(field, amount):
    i = cuda.grid(1)
    if i < amount.size:
        field[i % field.shape[0], (i * 7) % field.shape[1]] += amount[i]


@cuda.jit(cache=True)
def multiply(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        left[x, y] = a[i, tile * TILE + y]
        right[x, y] = b[tile * TILE + x, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[x, k] * right[k, y]
        cuda.syncthreads()
    c[i, j] = total


@cuda.jit(cache=True)
def transpose(source, target):
    tile = cuda.shared.array((TILE, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[x, y] = source[cuda.blockIdx.x * TILE + x, cuda.blockIdx.y * TILE + y]
    cuda.syncthreads()
    target[cuda.blockIdx.y * TILE + x, cuda.blockIdx.x * TILE + y] = tile[y, x]


@cuda.jit(cache=True)
def scan(source, sums):  # one block
    memory = cuda.shared.array(0, int32)  # its size is given at the launch
    i = cuda.threadIdx.x
    memory[i] = source[i]
    cuda.syncthreads()
    step = 1
    while step < source.size:
        before = memory[i - step] if i >= step else 0
        cuda.syncthreads()
        memory[i] += before
        cuda.syncthreads()
        step *= 2
    sums[i] = memory[i] - source[i]


@cuda.jit(cache=True)
def sort(keys):  # bitonic, one block
    memory = cuda.shared.array(COUNT, float32)
    i = cuda.threadIdx.x
    memory[i] = keys[i]
    cuda.syncthreads()
    width = 2
    while width <= COUNT:
        step = width // 2
        while step > 0:
            other = i ^ step
            if other > i:
                up = (i & width) == 0
                if (memory[i] > memory[other]) == up:
                    memory[i], memory[other] = memory[other], memory[i]
            cuda.syncthreads()
            step //= 2
        width *= 2
    keys[i] = memory[i]


@cuda.jit(cache=True)
def histogram(values, bins):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, min(int(values[i] * bins.size), bins.size - 1), 1)


@cuda.jit(cache=True)
def extremes(values, found):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(found, 0, values[i])
        cuda.atomic.min(found, 1, values[i])


@cuda.jit(cache=True)
def claim(owner, slot):
    i = cuda.grid(1)
    if i < slot.size:
        cuda.atomic.cas(owner, slot[i] % owner.size, -1, slot[i])


@cuda.jit(cache=True)
def warp_sums(values, sums):
    i = cuda.grid(1)
    value = values[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xffffffff, value, step)
        step //= 2
    if i % 32 == 0:
        sums[i // 32] = value


@cuda.jit(cache=True)
def votes(values, masks):
    i = cuda.grid(1)
    mask = cuda.ballot_sync(0xffffffff, values[i] > 0.5)
    if i % 32 == 0:
        masks[i // 32] = cuda.popc(mask) + 64 * cuda.clz(mask) + 4096 * cuda.ffs(mask)


@cuda.jit(device=True, cache=True)
def pull(dx, dy, dz):
    inverse = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + 0.01)
    return inverse * inverse * inverse


@cuda.jit(cache=True)
def attract(bodies, force):
    i = cuda.grid(1)
    if i < bodies.shape[0]:
        sums = cuda.local.array(3, float32)
        for k in range(3):
            sums[k] = 0
        for j in range(bodies.shape[0]):
            strength = pull(bodies[j, 0] - bodies[i, 0], bodies[j, 1] - bodies[i, 1],
                            bodies[j, 2] - bodies[i, 2])
            for k in range(3):
                sums[k] += strength * (bodies[j, k] - bodies[i, k])
        for k in range(3):
            force[i, k] = sums[k]


@cuda.jit(cache=True)
def drift(bodies, speeds, force, step):
    i, k = cuda.grid(2)
    if i < bodies.shape[0] and k < 3:
        speeds[i, k] += step * force[i, k] / bodies.shape[0]
        bodies[i, k] += step * speeds[i, k]


@cuda.jit(cache=True)
def butterflies(data, width, sign):
    i = cuda.grid(1)
    half = width // 2
    first = i // half * width + i % half
    angle = sign * 2.0 * math.pi * (i % half) / width
    twiddled = data[first + half] * complex(math.cos(angle), math.sin(angle))
    data[first + half] = data[first] - twiddled
    data[first] += twiddled


@cuda.jit(cache=True)
def reverse_bits(source, target, bits):
    i = cuda.grid(1)
    target[cuda.brev(numpy.uint32(i)) >> numpy.uint32(32 - bits)] = source[i]


@cuda.jit(cache=True)
def live(before, after):
    i, j = cuda.grid(2)
    n, m = before.shape
    around = -int32(before[i, j])
    for k in range(-1, 2):
        for l in range(-1, 2):
            around += before[(i + k) % n, (j + l) % m]
    after[i, j] = 1 if around == 3 or (around == 2 and before[i, j]) else 0


@cuda.jit(cache=True)
def sow(cells, uniform):
    i = cuda.grid(1)
    if uniform[i] < 0.1:
        cells[i % cells.shape[0], (i // 8) % cells.shape[1]] = 1


@cuda.jit(cache=True)
def escape(times, centre, span):
    i, j = cuda.grid(2)
    start = complex(centre + span * (i / times.shape[0] - 0.5), span * (j / times.shape[1] - 0.5))
    z, n = start, 0
    while n < 20 and z.real * z.real + z.imag * z.imag < 4.0:
        z = z * z + start
        n += 1
    times[i, j] += n


@cuda.jit(cache=True)
def special(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.erf(x[i]) + math.lgamma(1.5 + abs(x[i])) + math.atan2(x[i], 2.0) + 0.1 * y[i]


@cuda.jit(cache=True)
def narrow(x, halves):
    i = cuda.grid(1)
    if i < x.size:
        halves[i] = numpy.float16(x[i]) * numpy.float16(0.5) + halves[i] * numpy.float16(0.25)


@cuda.jit(cache=True)
def mix(words, values):
    i = cuda.grid(1)
    if i < words.size:
        word = words[i] ^ numpy.uint64(values[i] * 1e6)
        word ^= word >> numpy.uint64(12)
        word ^= word << numpy.uint64(25)
        word ^= word >> numpy.uint64(27)
        words[i] = word * numpy.uint64(2685821657736338717)


@vectorize(['float64(float64, float64)'], target='cuda')
def blend(x, y):
    return math.sqrt(x * x + y * y) * 0.5


@cuda.jit(cache=True)
def add_up(values, sums):  # one block, for numbers of any kind
    memory = cuda.shared.array(COUNT, float64)
    i = cuda.threadIdx.x
    memory[i] = values[i]
    cuda.syncthreads()
    half = COUNT // 2
    while half > 0:
        if i < half:
            memory[i] += memory[i + half]
        cuda.syncthreads()
        half //= 2
    if i == 0:
        sums[0] = memory[0]


def filled(shape, dtype, value=0):
    return cuda.to_device(numpy.full(shape, value, dtype))


def main(steps):
    line = (COUNT // 64, 64)
    square = ((SIZE // TILE, SIZE // TILE), (TILE, TILE))
    start = numpy.random.default_rng(5)
    states = create_xoroshiro128p_states(COUNT, seed=11)
    uniform, normal = filled(COUNT, numpy.float32), filled(COUNT, numpy.float64)
    walk, smooth = filled(COUNT, numpy.float64), filled(COUNT, numpy.float32)
    field, other, turned = (filled((SIZE, SIZE), numpy.float32) for _ in range(3))
    product = filled((SIZE, SIZE), numpy.float32)
    numbers, sums = filled(COUNT, numpy.int32, 3), filled(COUNT, numpy.int32)
    keys = filled(COUNT, numpy.float32)
    bins, found = filled(BINS, numpy.int32), filled(2, numpy.float64)
    owner = filled(61, numpy.int32, -1)
    partial, masks = filled(COUNT // 32, numpy.float32), filled(COUNT // 32, numpy.int64)
    bodies = cuda.to_device(start.random((64, 3), numpy.float32))
    speeds, force = filled((64, 3), numpy.float32), filled((64, 3), numpy.float32)
    waves, spectrum = filled(64, numpy.complex128), filled(64, numpy.complex128)
    cells = cuda.to_device(start.integers(0, 2, (SIZE, SIZE)).astype(numpy.uint8))
    next_cells = filled((SIZE, SIZE), numpy.uint8)
    times = filled((SIZE, SIZE), numpy.int32)
    strange, halves = filled(COUNT, numpy.float64), filled(COUNT, numpy.float16)
    totals = filled(2, numpy.float64)
    words = cuda.to_device(numpy.arange(1, COUNT + 1, dtype=numpy.uint64))
    state = {'states': states, 'walk': walk, 'smooth': smooth, 'field': field, 'product': product,
             'sums': sums, 'keys': keys, 'bins': bins, 'found': found, 'owner': owner,
             'partial': partial, 'masks': masks, 'bodies': bodies, 'spectrum': spectrum,
             'cells': cells, 'times': times, 'strange': strange, 'halves': halves, 'words': words}

    def digest(name):
        return hashlib.sha256(state[name].copy_to_host().tobytes()).hexdigest()[:12]

    stream = cuda.stream()
    for number in range(steps):
        draw[line](states, uniform, normal)
        axpy[line](0.25, normal, walk)
        convolve[line](uniform, smooth)
        warm[1, 32](field, smooth[:32])
        heat[square](field, other)
        heat[square](other, field)
        transpose[square](field, turned)
        multiply[square](field, turned, product)
        histogram[line](uniform, bins)
        scan[1, COUNT, 0, 4 * COUNT](numbers, sums)
        keys.copy_to_device(uniform)
        sort[1, COUNT](keys)
        extremes[line](walk, found)
        claim[line](owner, sums)
        warp_sums[line](uniform, partial)
        votes[line](uniform, masks)
        cuda.synchronize()
        attract[2, 32, stream](bodies, force)
        drift[(8, 1), (8, 4), stream](bodies, speeds, force, 0.05)
        stream.synchronize()
        waves.copy_to_device(walk[:64].copy_to_host().astype(numpy.complex128))
        reverse_bits[1, 64](waves, spectrum, 6)
        for bit in range(1, 7):
            butterflies[1, 32](spectrum, 1 << bit, -1.0)
        live[square](cells, next_cells)
        sow[line](next_cells, uniform)
        cells, next_cells = next_cells, cells
        state['cells'] = cells
        escape[square](times, -0.5 - 0.01 * number, 2.0)
        special[line](normal, strange)
        narrow[line](uniform, halves)
        mix[line](words, uniform)
        add_up[1, COUNT](numbers, totals[:1])
        add_up[1, COUNT](blend(walk, strange), totals[1:])
        count, blended = totals.copy_to_host()
        name = list(state)[number % len(state)]
        print(f'step {number}: totals {count:.17g} {blended:.17g}, {name} {digest(name)}',
              flush=True)
    for name in state:
        print(f'{name} {digest(name)}')
    host = {name: array.copy_to_host() for name, array in state.items()}
    field_ = field.copy_to_host()
    mask = (uniform.copy_to_host().reshape(-1, 32) > 0.5)
    checks = {
        'product': numpy.allclose(host['product'], field_ @ field_.T, rtol=1e-4),
        'sums': (host['sums'] == 3 * numpy.arange(COUNT)).all(),
        'keys': (host['keys'] == numpy.sort(uniform.copy_to_host())).all(),
        'bins': host['bins'].sum() == steps * COUNT,
        'spectrum': numpy.allclose(host['spectrum'], numpy.fft.fft(waves.copy_to_host())),
        'partial': numpy.allclose(host['partial'], uniform.copy_to_host().reshape(-1, 32).sum(1)),
        'masks': (host['masks'] % 64 == mask.sum(1) % 64).all(),
        'heat': numpy.isclose(field_.sum(), other.copy_to_host().sum(), rtol=1e-4),
        'found': host['found'][0] >= host['walk'].max() and host['found'][1] <= host['walk'].min(),
    }
    for name, right in checks.items():
        print(f'{name} {"ok" if right else "WRONG"}')


if __name__ == '__main__':
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
