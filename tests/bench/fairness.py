#!/usr/bin/env python3
"""Measures how fairly slots of the staging area are given to processes that compete for them.

  scripts/bench fairness [--rounds N] [--svg FILE] [--json]

Eight processes save through two slots of the real staging area, 1,000 slots each. The server takes
200 us for each. Two things are looked at:

  overtaking  at each release of a slot: a ticket that waited before and waits still, although a later
              one does not wait any more. There may be none
  local phase the time in which a rank hands over its 1,000 slots. The slowest rank's is at most 1.1
              times the mean

Ends with 1 where one of them is missed. All N rounds (default 5) count, the worst of them most.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg  # noqa: E402 (beside this file)

TOP = pathlib.Path(__file__).resolve().parents[2]
CLIENTS, SLOTS, SAVES, STORE_US = 8, 2, 1000, 200
ALLOWED = 1.1  # the slowest rank's local phase, by the mean


def commit():
    done = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or 'unknown'


def measure(build, rounds):
    driver = build / 'tests' / 'bench' / 'fairness_driver'
    if not os.access(driver, os.X_OK):
        sys.exit(f'fairness: {driver} is not there: build it first')
    found = []
    for _ in range(rounds):
        words = [str(driver), *map(str, (CLIENTS, SLOTS, SAVES, STORE_US))]
        one = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        one['slowest'] = max(one['seconds']) / statistics.mean(one['seconds'])
        found.append(one)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=TOP / 'build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--svg', type=pathlib.Path, help='write a chart into this file')
    parser.add_argument('--json', action='store_true', help='print JSON instead of text')
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rounds = measure(options.build.resolve(), options.rounds)
    slowest = [one['slowest'] for one in rounds]
    overtaken = sum(one['overtaken'] for one in rounds)
    looks = sum(one['looks'] for one in rounds)
    missed = [f'{overtaken} tickets were overtaken'] if overtaken else []
    if max(slowest) > ALLOWED:
        missed.append(f'the slowest rank took {max(slowest):.3f} times the mean, allowed are {ALLOWED}')
    if looks == 0:
        missed.append('nobody ever waited: nothing was measured')
    if options.svg:
        names = [f'rank {rank}' for rank in range(CLIENTS)]
        rows = [[one['seconds'][rank] for one in rounds] for rank in range(CLIENTS)]
        panel = svg.Panel(f'Local phase: {CLIENTS} ranks through {SLOTS} slots', 's')
        labels = [f'round {i + 1}' for i in range(len(rounds))]
        options.svg.write_text(svg.figure([panel.bars(names, labels, rows)]))
    if options.json:
        print(json.dumps({'commit': commit(), 'load': load, 'rounds': rounds, 'missed': missed},
                         indent=1))
    else:
        print(f'commit {commit()}, {os.cpu_count()} processors, {len(rounds)} rounds, '
              f'load {load:.1f} to {os.getloadavg()[0]:.1f}')
        print(f'{CLIENTS} ranks, {SLOTS} slots, {SAVES} saves of each: {looks} looks at a line, '
              f'{overtaken} tickets overtaken')
        print(f'slowest rank, by the mean: {statistics.median(slowest):.4f} '
              f'({min(slowest):.4f} to {max(slowest):.4f}; allowed {ALLOWED})')
        waits = [max(one['longest_wait']) for one in rounds]
        print(f'longest wait: {1000 * statistics.median(waits):.1f} ms '
              f'({1000 * min(waits):.1f} to {1000 * max(waits):.1f})')
        for line in missed:
            print('MISSED: ' + line)
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
