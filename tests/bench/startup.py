#!/usr/bin/env python3
"""What it costs to make staging memory ready: pinned at once, when the program's first context is
made, or step by step while the program runs. A short program on the software GPU, whose
registrations of host memory take time (SIMCUDA_PINNING): what counts are ratios within one run, and
that rate is an assumption. Medians; all ways in turn, so that each meets the same machine."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {'at once': 'at-once', 'stepwise': 'stepwise'}


def environment(build, **settings):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('GPUSNAP_', 'SIMCUDA_'))}
    return dict(kept, LD_LIBRARY_PATH=str(build / 'tools' / 'simcuda'), **settings)


def run(build, arguments, way, every):
    """Seconds of the whole run, and to the first checkpoint, if one was taken."""
    command = [str(build / 'tests' / 'apps' / arguments.program), str(arguments.steps)]
    with tempfile.TemporaryDirectory() as folder:
        settings = {'SIMCUDA_PINNING': arguments.pinning}
        if way:
            command = ['setarch', '-R'] + command
            settings.update(LD_PRELOAD=str(build / 'interpose' / 'libgpusnap.so'),
                            GPUSNAP_PFS=folder, GPUSNAP_JOB='startup', GPUSNAP_EVERY=every,
                            GPUSNAP_BACKEND='thread', GPUSNAP_HOST_CACHE=arguments.cache,
                            GPUSNAP_DEVICE_CACHE='64M', GPUSNAP_LOG='info',
                            GPUSNAP_PIN=WAYS[way])
        begun = time.monotonic()
        first = None
        program = subprocess.Popen(command, env=environment(build, **settings), text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for line in program.stderr:
            if first is None and 'info: checkpoint startup@' in line:
                first = time.monotonic() - begun
        if program.wait() != 0:
            sys.exit('startup: the program failed')
        return time.monotonic() - begun, first


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--program', default='stencil')
    parser.add_argument('--steps', type=int, default=240)
    parser.add_argument('--every', default='syncs:10', help='when checkpoints are due')
    parser.add_argument('--cache', default='1G', help='staging memory')
    parser.add_argument('--pinning', default='2G', help='bytes registered in a second')
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    build = arguments.build.resolve()

    plain, alone, saved, first = [], {}, {}, {}
    for _ in range(arguments.rounds):
        plain.append(run(build, arguments, None, None)[0])
        for way in WAYS:
            alone.setdefault(way, []).append(run(build, arguments, way, 'off')[0])
            seconds, taken = run(build, arguments, way, arguments.every)
            saved.setdefault(way, []).append(seconds)
            if taken is not None:
                first.setdefault(way, []).append(taken)

    base = statistics.median(plain)
    print(f'{arguments.program} {arguments.steps}: {base:.3f} s without the library; '
          f'{arguments.cache} of staging memory, {arguments.pinning} registered in a second')
    print(f'{"pinned":12}{"no checkpoint":>15}{"ratio":>8}{"checkpoints":>15}{"ratio":>8}'
          f'{"first after":>14}')
    for way in WAYS:
        off, on = statistics.median(alone[way]), statistics.median(saved[way])
        after = f'{statistics.median(first[way]):.3f} s' if first.get(way) else 'none'
        print(f'{way:12}{off:13.3f} s{off / base:8.2f}{on:13.3f} s{on / base:8.2f}{after:>14}')


if __name__ == '__main__':
    main()
