#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an allocation and its free cost with the arena (GPUSNAP_ARENA), as a ratio to the same with the
driver's own memory: on simcuda, under the library, in turn. Ends with 1 where a ratio is above 2."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

MOST = 2.0


def costs(build, store, arena):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('GPUSNAP_', 'SIMCUDA_'))}
    environment.update(LD_LIBRARY_PATH=str(build / 'tools' / 'simcuda'),
                       LD_PRELOAD=str(build / 'interpose' / 'libgpusnap.so'),
                       GPUSNAP_PFS=store, GPUSNAP_JOB='bench-' + arena, GPUSNAP_EVERY='off',
                       GPUSNAP_HOST_CACHE='64M', GPUSNAP_BACKEND='thread', GPUSNAP_LOG='error',
                       GPUSNAP_ARENA=arena)
    done = subprocess.run(['setarch', '-R', str(build / 'tests' / 'bench' / 'allocation_costs')],
                          env=environment, check=True, text=True, stdout=subprocess.PIPE)
    return {name: float(value)
            for name, value in (line.split('\t') for line in done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--rounds', type=int, default=7)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    rounds = []
    with tempfile.TemporaryDirectory() as store:
        for _ in range(arguments.rounds):
            rounds.append((costs(build, store, 'off'), costs(build, store, 'on')))
    middle = arguments.rounds // 2
    print(f'{"an allocation and its free":30}{"driver, us":>12}{"arena, us":>12}{"ratio":>8}{"from":>8}{"to":>8}')
    missed = False
    for name in rounds[0][0]:
        off = sorted(each[0][name] for each in rounds)[middle]
        on = sorted(each[1][name] for each in rounds)[middle]
        ratios = sorted(each[1][name] / each[0][name] for each in rounds)
        print(f'{name:30}{off / 1000:12.2f}{on / 1000:12.2f}{ratios[middle]:8.2f}'
              f'{ratios[0]:8.2f}{ratios[-1]:8.2f}')
        missed = missed or ratios[middle] > MOST
    if missed:
        sys.exit(f'bench: an allocation with the arena costs more than {MOST} times as much')


if __name__ == '__main__':
    main()
