# SPDX-License-Identifier: Apache-2.0
"""A gradient descent that JAX compiles: one line a step, the same in each run.

  jax_loop.py [STEPS]
"""
import os
import sys

# All of a GPU's memory otherwise, at once.
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')
os.environ.setdefault('XLA_FLAGS', '--xla_gpu_deterministic_ops=true')

import jax  # noqa: E402 (reads the environment)
import jax.numpy as jnp  # noqa: E402


def loss_of(weights, inputs, wanted):
    return jnp.mean((jnp.tanh(inputs @ weights) - wanted) ** 2)


@jax.jit
def step_of(weights, inputs, wanted):
    loss, slope = jax.value_and_grad(loss_of)(weights, inputs, wanted)
    return weights - 0.1 * slope, loss


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    keys = jax.random.split(jax.random.key(1), 3)
    weights = jax.random.normal(keys[0], (512, 256)) * 0.05
    inputs = jax.random.normal(keys[1], (2048, 512))
    wanted = jnp.tanh(inputs @ jax.random.normal(keys[2], (512, 256)) * 0.05)
    for step in range(steps):
        weights, loss = step_of(weights, inputs, wanted)
        print('step %d: loss %s' % (step, float(loss).hex()), flush=True)
    print('sum of weights %s' % float(weights.sum()).hex())


if __name__ == '__main__':
    main()
