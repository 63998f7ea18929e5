#!/usr/bin/env python3
"""Measures how well `gpusnap calibrate` foretells what a device takes from so many writers.

  scripts/bench calibration [--folder FOLDER] [--writers N] [--chunk SIZE] [--slot SIZE]
                            [--rounds N] [--svg FILE] [--json]

Chunks are written as the backend writes them (create_bulk, GPUSNAP_WRITES slots of each on their way,
no sync), by 1 to N writers at the same time (default 64). From a tenth of these numbers of writers a
curve is made, as the placement has it; every number is measured, and compared with the curve: over
all rounds together (default 3), by the median of each number of writers. The mean error is at most
5 %, or it ends with 1.

The device's own spread is measured beside it: how far a round is from the median of the same number
of writers, on average. Where that is more than 5 %, the curve cannot be judged by this device: "no
figure", and it ends with 3.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg  # noqa: E402 (beside this file)

TOP = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = 0.05  # mean error, and spread
NO_FIGURE = 3


def commit():
    done = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or 'unknown'


def one_round(options, folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('GPUSNAP_')}
    environment['GPUSNAP_SLOT'] = options.slot
    tool = options.build.resolve() / 'tools' / 'gpusnap'
    if not os.access(tool, os.X_OK):
        sys.exit(f'calibration: {tool} is not there: build it first')
    done = subprocess.run([str(tool), 'calibrate', folder, '--check', '--json', '--writers',
                           str(options.writers), '--chunk', options.chunk],
                          env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)[0]


def by_writers(rounds, what, value):
    """Number of writers -> median over the rounds."""
    found = {}
    for one in rounds:
        for each in one[what]:
            found.setdefault(each['writers'], []).append(each[value])
    return found


def judge(rounds):
    measured = by_writers(rounds, 'checked', 'bytes_per_second')
    model = by_writers(rounds, 'checked', 'model')
    rows = [(writers, statistics.median(rates), statistics.median(model[writers]))
            for writers, rates in sorted(measured.items())]
    errors = [abs(foretold / rate - 1) for _, rate, foretold in rows]
    spread = [abs(rate / statistics.median(rates) - 1)
              for rates in measured.values() for rate in rates]
    return {'rows': rows, 'samples': len(rounds[0]['samples']), 'error_mean': statistics.mean(errors),
            'error_most': max(errors), 'spread': statistics.mean(spread),
            'memory': statistics.median(one['memory_bytes_per_second'] for one in rounds)}


def draw(found):
    rows = found['rows']
    curves = [[(writers, rate / 1e6) for writers, rate, _ in rows],
              [(writers, foretold / 1e6) for writers, _, foretold in rows]]
    panel = svg.Panel('Throughput by the number of writers', 'MB/s')
    return svg.figure([panel.lines(['measured', 'foretold from the samples'], curves, 'writers')])


def show(found, options, load):
    print(f'commit {commit()}, {os.cpu_count()} processors, {options.rounds} rounds, '
          f'load {load:.1f} to {os.getloadavg()[0]:.1f}')
    print(f'{options.folder}: 1 to {options.writers} writers, chunks of {options.chunk}, slots of '
          f'{options.slot}; memory {found["memory"] / 1e9:.1f} GB/s by each writer')
    print(f'from {found["samples"]} samples of {len(found["rows"])} numbers of writers the curve is off by '
          f'{found["error_mean"]:.1%} on average, {found["error_most"]:.1%} at most')
    print(f'the device itself: {found["spread"]:.1%} from its median on average')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--folder', default='.', help='on the device (default: the current one)')
    parser.add_argument('--build', type=pathlib.Path, default=TOP / 'build')
    parser.add_argument('--writers', type=int, default=64)
    parser.add_argument('--chunk', default='16M')
    parser.add_argument('--slot', default='2M')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--svg', type=pathlib.Path, help='write a chart into this file')
    parser.add_argument('--json', action='store_true', help='print JSON instead of text')
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix='gpusnap-bench-', dir=options.folder) as folder:
        found = judge([one_round(options, folder) for _ in range(options.rounds)])
    if options.svg:
        options.svg.write_text(draw(found))
    if options.json:
        print(json.dumps({'commit': commit(), 'load': load, **found}, indent=1))
    else:
        show(found, options, load)
    if options.rounds < 2 or found['spread'] > ALLOWED:
        print('no figure: the device varies by more than the error that is allowed'
              if options.rounds > 1 else 'no figure: one round has no spread', file=sys.stderr)
        sys.exit(NO_FIGURE)
    if found['error_mean'] > ALLOWED:
        print(f'MISSED: allowed are {ALLOWED:.0%}', file=sys.stderr)
        sys.exit(1)


if __name__ == '__main__':
    main()
