#!/usr/bin/env python3
"""Trains a small network on scikit-learn's bundled digits with tinygrad: digits.py [steps]

A client that knows nothing of checkpoints. Prints the loss of every step, digests of the weights now
and then, and the accuracy at the end.
"""
import hashlib
import sys

import numpy
from sklearn.datasets import load_digits
from tinygrad import Context, Tensor, TinyJit, nn


class Network:
    def __init__(self):
        self.first = nn.Linear(64, 48)
        self.second = nn.Linear(48, 10)

    def __call__(self, images):
        return self.second(self.first(images).relu())


def digest(parameters):
    sha = hashlib.sha256()
    for parameter in parameters:
        sha.update(parameter.numpy().tobytes())
    return sha.hexdigest()[:16]


def main(steps):
    digits = load_digits()
    images = (digits.data / 16.0).astype(numpy.float32)
    labels = digits.target.astype(numpy.int32)
    order = numpy.random.default_rng(3).permutation(len(images))
    train, test = order[:1536], order[1536:]

    Tensor.manual_seed(11)
    network = Network()
    parameters = nn.state.get_parameters(network)
    optimizer = nn.optim.SGD(parameters, lr=0.1, momentum=0.9)

    @TinyJit
    def learn(batch, answers):
        optimizer.zero_grad()
        loss = network(batch).sparse_categorical_crossentropy(answers).backward()
        optimizer.step()
        return loss.realize()

    for step in range(steps):
        picked = train[step * 64 % len(train):][:64]
        with Context(TRAINING=1):
            loss = learn(Tensor(images[picked]).realize(), Tensor(labels[picked]).realize())
        print(f'step {step}: loss {loss.item():.9g}', flush=True)
        if step % 10 == 9:
            print(f'step {step}: weights {digest(parameters)}', flush=True)

    guesses = network(Tensor(images[test])).argmax(axis=1).numpy()
    print(f'accuracy {(guesses == labels[test]).mean():.4f}')
    print(f'weights {digest(parameters)}')
    print('ok')


if __name__ == '__main__':
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
