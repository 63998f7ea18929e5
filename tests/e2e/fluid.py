#!/usr/bin/env python3
"""Simulates a fluid with particles in it, and a little of everything else, with Taichi: fluid.py [steps]

A client that knows nothing of checkpoints. All its state stays on the device, the random numbers',
too. Prints digests of it after every step, and at the end how far it is from numpy's results.
"""
import hashlib
import math
import sys

import numpy
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, device_memory_GB=0.09, random_seed=7,
        cpu_max_num_threads=1, num_compile_threads=1, log_level=ti.ERROR)
if ti.cfg.arch != ti.cuda:
    sys.exit('Taichi does not run on CUDA here')

SIZE = 32
BODIES = 128
CELLS = 16
POINTS = 64  # of the Fourier transform

velocity = ti.Vector.field(2, ti.f32, (SIZE, SIZE))
advected = ti.Vector.field(2, ti.f32, (SIZE, SIZE))
divergence = ti.field(ti.f32, (SIZE, SIZE))
pressure = ti.field(ti.f32, (SIZE, SIZE))
smoothed = ti.field(ti.f32, (SIZE, SIZE))
dye = ti.field(ti.f64, (SIZE, SIZE))
light = ti.field(ti.f16, (SIZE, SIZE))
alive = ti.field(ti.u8, (SIZE, SIZE))
born = ti.field(ti.u8, (SIZE, SIZE))
position = ti.Vector.field(3, ti.f32, BODIES)
speed = ti.Vector.field(3, ti.f32, BODIES)
force = ti.Vector.field(3, ti.f32, BODIES)
ordered = ti.field(ti.i32, BODIES)
count = ti.field(ti.i32, CELLS)
begin = ti.field(ti.i32, CELLS)
filled = ti.field(ti.i32, CELLS)
left = ti.field(ti.f32, (SIZE, SIZE))
right = ti.field(ti.f32, (SIZE, SIZE))
product = ti.field(ti.f32, (SIZE, SIZE))
signal = ti.Vector.field(2, ti.f32, POINTS)
spectrum = ti.Vector.field(2, ti.f32, POINTS)
strain = ti.Matrix.field(2, 2, ti.f32, BODIES)
words = ti.field(ti.u32, BODIES)
total = ti.field(ti.f64, ())
highest = ti.field(ti.f32, ())
# Cells that exist once something was written to them: the device allocates them itself.
trail = ti.field(ti.f32)
ti.root.pointer(ti.ij, 8).dense(ti.ij, SIZE // 8).place(trail)


@ti.kernel
def scatter():
    for i in position:
        position[i] = ti.Vector([ti.random(), ti.random(), ti.random()])
        speed[i] = 0.1 * ti.Vector([ti.randn(), ti.randn(), ti.randn()])


@ti.kernel
def stir(time: ti.f32):
    for i, j in velocity:
        x, y = i / SIZE - 0.5, j / SIZE - 0.5
        velocity[i, j] += ti.exp(-40.0 * (x * x + y * y)) * ti.Vector([-y, x + 0.1 * ti.sin(time)])


@ti.func
def sample(field: ti.template(), x, y):
    i, j = ti.floor(x, ti.i32), ti.floor(y, ti.i32)
    u, v = x - i, y - j
    i, j, k, l = i % SIZE, j % SIZE, (i + 1) % SIZE, (j + 1) % SIZE
    return ((1 - u) * ((1 - v) * field[i, j] + v * field[i, l])
            + u * ((1 - v) * field[k, j] + v * field[k, l]))


@ti.kernel
def advect():
    for i, j in velocity:
        back = ti.Vector([i, j]) - 2.0 * velocity[i, j]
        advected[i, j] = sample(velocity, back.x, back.y)


@ti.kernel
def diverge():
    for i, j in divergence:
        divergence[i, j] = 0.5 * (advected[(i + 1) % SIZE, j].x - advected[(i - 1) % SIZE, j].x
                                  + advected[i, (j + 1) % SIZE].y - advected[i, (j - 1) % SIZE].y)


@ti.kernel
def smooth(source: ti.template(), target: ti.template()):
    for i, j in target:
        target[i, j] = 0.25 * (source[(i + 1) % SIZE, j] + source[(i - 1) % SIZE, j]
                               + source[i, (j + 1) % SIZE] + source[i, (j - 1) % SIZE]
                               - divergence[i, j])


@ti.kernel
def project():
    for i, j in velocity:
        velocity[i, j] = advected[i, j] - 0.5 * ti.Vector(
            [pressure[(i + 1) % SIZE, j] - pressure[(i - 1) % SIZE, j],
             pressure[i, (j + 1) % SIZE] - pressure[i, (j - 1) % SIZE]])


@ti.kernel
def colour():
    for i, j in dye:
        dye[i, j] = 0.99 * dye[i, j] + ti.sqrt(ti.cast(velocity[i, j].norm_sqr(), ti.f64))


@ti.kernel
def shine():
    for i, j in light:
        light[i, j] = ti.cast(ti.tanh(dye[i, j]), ti.f16) + light[i, j] * ti.cast(0.5, ti.f16)


@ti.kernel
def attract():
    for i in position:
        pull = ti.Vector([0.0, 0.0, 0.0])
        for j in range(BODIES):
            towards = position[j] - position[i]
            pull += towards * ti.rsqrt(towards.norm_sqr() + 0.01) ** 3
        force[i] = pull / BODIES


@ti.kernel
def drift(step: ti.f32):
    for i in position:
        speed[i] += step * force[i]
        position[i] = (position[i] + step * speed[i]) % 1.0


@ti.func
def cell(i):
    return ti.min(ti.cast(position[i].x * CELLS, ti.i32), CELLS - 1)


@ti.kernel
def tally():
    for c in count:
        count[c] = 0
        filled[c] = 0
    for i in position:
        ti.atomic_add(count[cell(i)], 1)


@ti.kernel
def running_sums():
    ti.loop_config(block_dim=CELLS)
    for c in range(CELLS):
        sums = ti.simt.block.SharedArray((CELLS,), ti.i32)
        sums[c] = count[c]
        ti.simt.block.sync()
        for bit in ti.static(range(4)):
            before = 0
            if c >= 1 << bit:
                before = sums[c - (1 << bit)]
            ti.simt.block.sync()
            sums[c] += before
            ti.simt.block.sync()
        begin[c] = sums[c] - count[c]


@ti.kernel
def place():
    for i in position:
        c = cell(i)
        ordered[begin[c] + ti.atomic_add(filled[c], 1)] = i


@ti.kernel
def order():  # within each cell, whatever the order was in which they came
    for c in begin:
        for i in range(begin[c] + 1, begin[c] + count[c]):
            key, at = ordered[i], i
            while at > begin[c] and ordered[ti.max(at - 1, 0)] > key:
                ordered[at] = ordered[at - 1]
                at -= 1
            ordered[at] = key


@ti.kernel
def live():
    for i, j in born:
        around = -ti.cast(alive[i, j], ti.i32)
        for k, l in ti.static(ti.ndrange((-1, 2), (-1, 2))):
            around += alive[(i + k) % SIZE, (j + l) % SIZE]
        born[i, j] = ti.cast(around == 3 or (around == 2 and alive[i, j] == 1), ti.u8)


@ti.kernel
def grow():
    for i, j in alive:
        alive[i, j] = born[i, j]
        if ti.random() < 0.01:
            alive[i, j] = 1


@ti.kernel
def multiply():
    for i, j in product:
        sum_ = 0.0
        for k in range(SIZE):
            sum_ += left[i, k] * right[k, j]
        product[i, j] = sum_


@ti.kernel
def factors():
    for i, j in left:
        left[i, j] = ti.cast(dye[i, j], ti.f32)
        right[i, j] = pressure[j, i] + (1.0 if i == j else 0.0)


@ti.kernel
def listen():
    for i in signal:
        signal[i] = ti.Vector([position[i].x, position[i + POINTS].y])


@ti.kernel
def transform():
    for k in spectrum:
        sum_ = ti.Vector([0.0, 0.0])
        for i in range(POINTS):
            angle = -2.0 * math.pi * ((i * k) % POINTS) / POINTS
            sum_ += ti.math.cmul(signal[i], ti.Vector([ti.cos(angle), ti.sin(angle)]))
        spectrum[k] = sum_


@ti.kernel
def deform():
    for i in strain:
        u, s, v = ti.svd(ti.Matrix([[1.0 + speed[i].x, speed[i].y], [speed[i].z, 1.0]])
                         + 0.1 * strain[i])
        strain[i] = u @ v.transpose()


@ti.kernel
def mix():
    for i in words:
        word = words[i] ^ ti.bit_cast(position[i].z, ti.u32)
        word ^= word << 13
        word ^= word >> 17
        word ^= word << 5
        words[i] = word + ti.cast(ti.math.popcnt(word) + ti.math.clz(ti.cast(word, ti.i32)), ti.u32)


@ti.kernel
def leave():
    for i in position:
        trail[ti.cast(position[i].x * SIZE, ti.i32) % SIZE,
              ti.cast(position[i].y * SIZE, ti.i32) % SIZE] = ti.log(1.0 + ti.cast(i, ti.f32))


@ti.kernel
def fade():
    for i, j in trail:
        trail[i, j] *= 0.9


@ti.kernel
def weigh() -> ti.f64:
    total[None] = 0.0
    highest[None] = 0.0
    for i, j in dye:
        # Whole numbers, since the order of the sum is not given.
        ti.atomic_add(total[None], ti.floor(dye[i, j] * 1048576.0))
        ti.atomic_max(highest[None], ti.cast(dye[i, j], ti.f32))
    return total[None]


STATE = {'velocity': velocity, 'dye': dye, 'light': light, 'bodies': position, 'cells': ordered,
         'life': alive, 'product': product, 'spectrum': spectrum, 'strain': strain, 'words': words,
         'trail': trail}


def step(number):
    stir(0.1 * number)
    advect()
    diverge()
    for _ in range(4):
        smooth(pressure, smoothed)
        smooth(smoothed, pressure)
    project()
    colour()
    shine()
    attract()
    drift(0.01)
    tally()
    running_sums()
    place()
    order()
    live()
    grow()
    factors()
    multiply()
    listen()
    transform()
    deform()
    mix()
    leave()
    fade()


def digest(field):
    return hashlib.sha256(field.to_numpy().tobytes()).hexdigest()[:12]


def check():
    """Compares the last step's results with numpy's."""
    close = lambda found, wanted: bool(numpy.allclose(found, wanted, rtol=1e-4, atol=1e-4))
    z = signal.to_numpy() @ [1, 1j]
    kept = position.to_numpy()
    apart = kept[None] - kept[:, None]
    pull = (apart / (apart ** 2).sum(-1, keepdims=True).__add__(0.01) ** 1.5).sum(1) / BODIES
    attract()
    cells = numpy.minimum((kept[:, 0] * CELLS).astype(int), CELLS - 1)
    return {
        'product': close(product.to_numpy(), left.to_numpy() @ right.to_numpy()),
        'spectrum': close(spectrum.to_numpy() @ [1, 1j], numpy.fft.fft(z)),
        'forces': close(force.to_numpy(), pull),
        'cells': bool((ordered.to_numpy() == numpy.argsort(cells, kind='stable')).all()),
        'rotations': close(numpy.linalg.det(strain.to_numpy()), 1),
        'total': weigh() == numpy.floor(dye.to_numpy() * 1048576).sum(),
        'highest': close(highest[None], dye.to_numpy().max()),
    }


def main(steps):
    scatter()
    for number in range(steps):
        step(number)
        name = list(STATE)[number % len(STATE)]
        print(f'step {number}: weight {weigh():.17g}, {name} {digest(STATE[name])}', flush=True)
    for name, field in STATE.items():
        print(f'{name} {digest(field)}')
    for name, right_ in check().items():
        print(f'{name} {"ok" if right_ else "WRONG"}')


if __name__ == '__main__':
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
