#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the journal of a loop on the software GPU: what turns cost in the store, and how fast a replay
skips their launches.

  scripts/bench journal [--turns N] [--launches N] [--rounds N] [--check]

Bars, of which --check leaves out the one that depends on time:
  turns    a thousand turns of a loop whose turns are alike take, all together, at most 1 % of what the first
           takes in the store
  limit    100 million launches, each with arguments of its own, take at most the default of GPUSNAP_JOURNAL;
           reckoned from the launches of this run
  replay   10 million skipped launches a second, the best of the rounds: the program's own time for each, by
           the clock

Exits with 1 if a bar is missed."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST_OF_FIRST = 0.01  # a thousand turns, of the first
DEFAULT_LIMIT = 16 << 30  # GPUSNAP_JOURNAL
MANY = 100_000_000
LEAST_RATE = 10e6


class Bench:
    def __init__(self, arguments, folder):
        self.build = arguments.build.resolve()
        self.launches = arguments.launches
        self.folder = folder
        self.stores = 0

    def environment(self, **settings):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(('GPUSNAP_', 'SIMCUDA_', 'LD_', 'LOOP_'))}
        kept.update(LD_LIBRARY_PATH=str(self.build / 'tools' / 'simcuda'),
                    GPUSNAP_PFS=os.path.join(self.folder, 'store%d' % self.stores), GPUSNAP_JOB='job',
                    GPUSNAP_EVERY='off', GPUSNAP_LOG='warn', GPUSNAP_DEVICE_CACHE='8M',
                    GPUSNAP_HOST_CACHE='64M', GPUSNAP_NODE=self.folder, XDG_RUNTIME_DIR=self.folder,
                    GPUSNAP_BACKEND_IDLE='300ms', GPUSNAP_OUTSIDE='real', GPUSNAP_MAX_STALL='1h',
                    GPUSNAP_DRAIN='1h', LOOP_LAUNCHES=str(self.launches), LOOP_REPORTS='1000000')
        kept.update(settings)
        return kept

    def run(self, turns, preload=True, **settings):
        environment = self.environment(**settings)
        if preload:
            environment['LD_PRELOAD'] = str(self.build / 'interpose' / 'libgpusnap.so')
        done = subprocess.run(['setarch', '-R', str(self.build / 'tests' / 'apps' / 'loop'), str(turns)],
                              env=environment, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit('journal: the program failed:\n' + done.stderr)
        return done

    def save(self, turns, every=None, **settings):
        """A checkpoint at every so many turns, or at the last one alone; what the journal takes in the store in
        each, oldest first."""
        self.stores += 1
        self.run(turns, GPUSNAP_EVERY='syncs:%d' % (every or turns), GPUSNAP_ORG='b+i', GPUSNAP_KEEP='100',
                 **settings)
        listed = json.loads(self.tool('list', '--json'))
        found = sorted((each['epoch'], each['id']) for each in listed if each['state'] == 'complete')
        shown = [json.loads(self.tool('show', each, '--json'))['ranks'][0]['journal'] for _, each in found]
        return [sum(part['file_bytes'] for part in parts) for parts in shown]

    def tool(self, *arguments):
        done = subprocess.run([str(self.build / 'tools' / 'gpusnap'), *arguments], env=self.environment(),
                              text=True, capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit('journal: the tool failed:\n' + done.stderr)
        return done.stdout

    def replay(self, turns, **settings):
        """Launches a second, in the program's eyes."""
        done = self.run(turns, GPUSNAP_RESTORE='job@latest', LOOP_TIMES='1', **settings)
        found = re.search(r'loop: ([\d.]+) ns', done.stderr)
        if found is None:
            sys.exit('journal: the program tells no time:\n' + done.stderr)
        return 1e9 / float(found.group(1))


def judge_stored(bench, turns):
    # All that is there beside the launches.
    bench.launches, launches = 1, bench.launches
    none = bench.save(1)[-1]
    bench.launches = launches
    first = bench.save(1)[-1] - none
    before, after = bench.save(2 * turns, every=turns)[-2:]
    many = after - before
    print(f'{"first turn":38}{first:12} bytes')
    print(f'{str(turns) + " later ones":38}{many:12} bytes, {many / first * 100:.2f} % of the first')
    return [f'{turns} turns take {many / first * 100:.2f} % of the first'] if many > MOST_OF_FIRST * first else []


def judge_varying(bench, turns):
    each = bench.save(turns, LOOP_VARIES='1')[-1] / (turns * bench.launches)
    print(f'{"launch with arguments of its own":38}{each:12.2f} bytes, '
          f'{MANY * each / 2**30:.2f} GiB for {MANY} launches')
    return [f'{MANY} launches take {MANY * each:.0f} bytes'] if MANY * each > DEFAULT_LIMIT else []


def judge_replay(bench, turns, rounds, check):
    bench.save(turns)
    rates = sorted(bench.replay(turns) / 1e6 for _ in range(rounds))
    print(f'{"skipped in a replay":38}{rates[-1]:12.2f} million a second, at least {rates[0]:.2f}, '
          f'{rounds} rounds, load {os.getloadavg()[0]:.1f}')
    if rates[-1] * 1e6 >= LEAST_RATE or check:
        return []
    return [f'a replay skips {rates[-1]:.2f} million launches a second']


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--turns', type=int, default=1000)
    parser.add_argument('--launches', type=int, default=3000, help='of each turn')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--check', action='store_true', help='only what does not depend on time')
    arguments = parser.parse_args()
    commit = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'],
                            capture_output=True, text=True, check=False).stdout.strip()
    with tempfile.TemporaryDirectory(prefix='gpusnap-journal-', dir='/dev/shm') as folder:
        bench = Bench(arguments, folder)
        print(f'commit {commit or "unknown"}, build {bench.build}, {arguments.launches} launches a turn')
        wrong = judge_stored(bench, arguments.turns)
        wrong += judge_varying(bench, max(1, arguments.turns // 10))
        wrong += judge_replay(bench, arguments.turns, arguments.rounds, arguments.check)
    for line in wrong:
        print('beyond the bar: ' + line)
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
