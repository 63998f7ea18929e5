#!/usr/bin/env python3
"""Compares schedules of load balancing over the devices of a node (SC'22 deep tiers talk).

  scripts/bench balance [--only PART]... [--steps N] [--seeds N] [--rounds N] [--svg FILE] [--json]

No byte moves. A schedule takes as long as its slowest link, by bandwidths of a DGX-1V: 24 GB/s for each
NVLink, 12 GB/s to the host. Only the time to make a schedule is measured. Exits with 1 if a bar is
missed. Takes about a minute.

Parts:
  example   slide 46, where the talk says what each schedule takes
  traces    checkpoints of 776 steps on 8 GPUs with 128 MB of room each (slide 19). The talk's traces are
            not public; tests/bench/rtm_trace.py tells how ours are made, and what was fitted
  shapes    the same with traces of other shapes: how much of the result is the trace's own
  time      how long it takes to make each schedule of the traces (slide 20)

  --steps N      of a trace (default 776)
  --seeds N      traces (default 5)
  --rounds N     over all steps, for the time (default 9)
  --svg FILE     draws traces, overheads and times
  --json         prints JSON instead of tables
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rtm_trace  # noqa: E402 (beside this file)
import svg  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
NVLINK, HOST = 24_000_000_000, 12_000_000_000  # bytes a second (slide 15)
ROOM = 128_000_000  # bytes on each GPU (slide 19)
UNIT = 1_000_000    # bytes, of min_time
# NVLinks between the GPUs of a DGX-1V, a hybrid cube mesh; slide 46 shows three of them.
LINKS = [[0, 1, 1, 2, 2, 0, 0, 0],
         [1, 0, 2, 1, 0, 2, 0, 0],
         [1, 2, 0, 2, 0, 0, 1, 0],
         [2, 1, 2, 0, 0, 0, 0, 1],
         [2, 0, 0, 0, 0, 1, 1, 2],
         [0, 2, 0, 0, 1, 0, 2, 1],
         [0, 0, 1, 0, 1, 2, 0, 2],
         [0, 0, 0, 1, 2, 1, 2, 0]]

OURS = 'balance'
OTHERS = ['baseline', 'greedy', 'min_time']
SCHEDULES = [*OTHERS, OURS]
PUBLISHED_MS = {'baseline': 40, 'greedy': 20, 'min_time': 6.667, OURS: 6.667}  # slide 46
PUBLISHED_OVERHEAD = {'baseline': 4.00, 'greedy': 0.97}  # slide 19
ABOUT = 0.25       # of a published overhead: the trace is not the published one
LONGEST_US = 90    # slide 20
COLD = 100         # steps at least that are also measured with cold caches, if there are as many
ROUNDING = 1e-9
SHAPES = {
    'as above': rtm_trace.Shape(),
    'quiet cells compress to 1 %': rtm_trace.Shape(floor=0.01),
    'quiet cells compress to 10 %': rtm_trace.Shape(floor=0.1),
    'shorter coda (0.2)': rtm_trace.Shape(coda=0.2),
    'longer coda (0.5)': rtm_trace.Shape(coda=0.5),
    '4 x 2 x 1 subdomains': rtm_trace.Shape(grid=(4, 2, 1)),
    '8 slabs': rtm_trace.Shape(grid=(8, 1, 1)),
}


class Failed(Exception):
    pass


def problem(remainders, spare):
    """A line of the program's input."""
    gpus = range(len(LINKS))
    peers = [LINKS[i][j] * NVLINK for i in gpus for j in gpus]
    return ' '.join(map(str, [len(LINKS), *remainders, *spare, *[HOST for _ in gpus], *peers]))


def of_sizes(sizes):
    return problem([max(0, size - ROOM) for size in sizes], [max(0, ROOM - size) for size in sizes])


def example():
    remainders, spare = [0] * 8, [0] * 8
    remainders[0], remainders[6] = 480 * UNIT, 240 * UNIT
    spare[1], spare[4] = 140 * UNIT, 480 * UNIT
    return problem(remainders, spare)


class Program:
    def __init__(self, build):
        self.path = build / 'tests' / 'bench' / 'balance' / 'schedules'
        if not os.access(self.path, os.X_OK):
            raise Failed(f'{self.path} is not there: build it first')

    def run(self, problems, rounds=1, every=0):
        done = subprocess.run([self.path, str(rounds), str(every)], text=True, capture_output=True,
                              input=''.join(line + '\n' for line in problems), check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f'{self.path}: exit code {done.returncode}')
        return [json.loads(line) for line in done.stdout.splitlines()]


def overheads(steps):
    """By schedule: what it takes over all steps more than the optimum, as a part of that."""
    totals = {name: sum(step[name]['seconds'] for step in steps) for name in SCHEDULES}
    return {name: totals[name] / totals[OURS] - 1 for name in SCHEDULES}


def senders(sizes):
    """How many steps have 0, 1, ... GPUs with a remainder."""
    counts = [sum(size > ROOM for size in row) for row in sizes]
    return [counts.count(n) for n in range(rtm_trace.GPUS + 1)]


def spread(values, form):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f'{form(middle)} ({form(low)} to {form(high)})'


def percent(value):
    return f'{100 * value:.0f} %'


class Bench:
    def __init__(self, options):
        self.options = options
        self.program = Program(options.build.resolve())
        self.bars = []
        self.found = {}
        self.panels = []
        self.sizes = {seed: rtm_trace.trace(seed, options.steps)
                      for seed in range(1, options.seeds + 1)}

    def say(self, line=''):
        if not self.options.json:
            print(line)

    def bar(self, name, published, value, met):
        self.bars.append({'bar': name, 'published': published, 'value': value, 'met': bool(met)})

    def example(self):
        step, = self.program.run([example()])
        self.found['example'] = {name: step[name]['seconds'] * 1e3 for name in SCHEDULES}
        self.say('\nExample of slide 46, ms')
        for name, ms in self.found['example'].items():
            self.say(f'  {name:10}{ms:10.3f}   published: {PUBLISHED_MS[name]}')
            self.bar(f'example, {name}', f'{PUBLISHED_MS[name]} ms', f'{ms:.3f} ms',
                     abs(ms - PUBLISHED_MS[name]) <= 0.001)

    def traces(self):
        steps = {seed: self.program.run(map(of_sizes, sizes)) for seed, sizes in self.sizes.items()}
        found = {seed: overheads(each) for seed, each in steps.items()}
        self.found['traces'] = {
            'overheads': {name: [each[name] for each in found.values()] for name in SCHEDULES},
            'optimum_s': [sum(step[OURS]['seconds'] for step in each) for each in steps.values()],
            'steps_by_senders': {seed: senders(sizes) for seed, sizes in self.sizes.items()}}
        self.say(f'\nTraces of {self.options.steps} steps, {len(found)} seeds: waiting over the optimum; '
                 'median (least to greatest)')
        for name in SCHEDULES:
            published = PUBLISHED_OVERHEAD.get(name)
            self.say(f'  {name:10}{spread([each[name] for each in found.values()], percent):28}'
                     + (f'published: {percent(published)}' if published else ''))
        waits = self.found['traces']['optimum_s']
        self.say(f'  waiting by {OURS}: {spread(waits, lambda s: f"{s:.2f} s")}')
        self.say('  steps by the number of GPUs with a remainder, 0 to 8:')
        for seed, counts in self.found['traces']['steps_by_senders'].items():
            self.say(f'    seed {seed}: {counts}')
        self.judge(found, [step for each in steps.values() for step in each])
        self.draw_traces(found)

    def judge(self, found, steps):
        for name, published in PUBLISHED_OVERHEAD.items():
            value = statistics.median(each[name] for each in found.values())
            self.bar(f'overhead of {name}, within {percent(ABOUT)} of the published one',
                     f'about {percent(published)}', percent(value),
                     abs(value / published - 1) <= ABOUT)
        for name in ('baseline', 'greedy'):
            longer = sum(step[OURS]['seconds'] > step[name]['seconds'] for step in steps)
            self.bar(f'steps in which {OURS} takes longer than {name}', '-', f'{longer}', longer == 0)
        units = max((step['min_time']['seconds'] - step[OURS]['seconds']) * HOST / UNIT
                    for step in steps)
        self.bar('what min_time takes more than the optimum: two units to the host', '-',
                 f'at most {units:.2f} units', -ROUNDING <= units <= 2)

    def draw_traces(self, found):
        seed, sizes = next(iter(self.sizes.items()))
        self.panels.append(svg.Panel(
            f'Size of checkpoints on each GPU by step, seed {seed}; {ROOM // UNIT} MB fit', 'MB').lines(
                [f'GPU {gpu}' for gpu in range(rtm_trace.GPUS)] + ['room'],
                [[(step, row[gpu] / UNIT) for step, row in enumerate(sizes)]
                 for gpu in range(rtm_trace.GPUS)]
                + [[(step, ROOM / UNIT) for step in range(len(sizes))]], 'steps'))
        seeds = list(found)
        self.panels.append(svg.Panel('Waiting over the optimum, by seed of the trace (slide 19)',
                                     '%').bars(
            ['published'] + [f'seed {each}' for each in seeds], OTHERS,
            [[100 * PUBLISHED_OVERHEAD[name] if name in PUBLISHED_OVERHEAD else None
              for name in OTHERS]]
            + [[100 * found[each][name] for name in OTHERS] for each in seeds]))

    def shapes(self):
        """No bars: what is not known about the published traces decides here."""
        found = {}
        for label, shape in SHAPES.items():
            all_seeds = [overheads(self.program.run(
                map(of_sizes, rtm_trace.trace(seed, self.options.steps, shape))))
                for seed in self.sizes]
            found[label] = {name: [each[name] for each in all_seeds] for name in OTHERS}
        self.found['shapes'] = found
        self.say('\nTraces of other shapes: waiting over the optimum; median (least to greatest)')
        self.say(f'  {"":32}' + ''.join(f'{name:26}' for name in OTHERS))
        for label, each in found.items():
            self.say(f'  {label:32}' + ''.join(f'{spread(each[name], percent):26}' for name in OTHERS))

    def time(self):
        problems = [of_sizes(row) for sizes in self.sizes.values() for row in sizes
                    if any(size > ROOM for size in row)]
        loads = [os.getloadavg()[0]]
        steps = self.program.run(problems, self.options.rounds, max(1, len(problems) // COLD))
        loads.append(os.getloadavg()[0])
        found = {name: sorted(statistics.median(step[name]['ns']) / 1e3 for step in steps)
                 for name in SCHEDULES}
        cold = sorted(ns / 1e3 for step in steps for ns in step['cold_ns'])
        rounds = [statistics.median(step[OURS]['ns'][i] for step in steps) / 1e3
                  for i in range(self.options.rounds)]
        self.found['time'] = {'us': {name: quantiles(each) for name, each in found.items()},
                              'cold_us': quantiles(cold), 'rounds_us': rounds, 'load': loads}
        self.say(f'\nTime to make a schedule for 8 GPUs, us; {len(steps)} steps with a remainder, each the '
                 f'median of {self.options.rounds} rounds')
        self.say(f'  {"":22}{"median":>10}{"99 %":>10}{"longest":>10}')
        for name, each in [*self.found['time']['us'].items(),
                           (f'{OURS}, cold caches', self.found['time']['cold_us'])]:
            self.say(f'  {name:22}' + ''.join(f'{value:10.2f}' for value in each))
        self.say(f'  median of {OURS} by round: {spread(rounds, lambda us: f"{us:.2f}")}; '
                 f'load {loads[0]:.1f} to {loads[1]:.1f}')
        self.bar(f'longest time to make a schedule with {OURS}', f'about {LONGEST_US} us',
                 f'{found[OURS][-1]:.2f} us', found[OURS][-1] < LONGEST_US)
        self.panels.append(svg.Panel(
            f'Time to make a schedule for 8 GPUs (slide 20: about {LONGEST_US} us)', 'us, log',
            logarithmic=True).bars(SCHEDULES, ['median of the steps', '99 %', 'longest'],
                                   [quantiles(found[name]) for name in SCHEDULES]))


def quantiles(values):
    """Median, 99 %, and the greatest, of sorted values."""
    return [statistics.median(values), values[len(values) * 99 // 100], values[-1]]


PARTS = ['example', 'traces', 'shapes', 'time']


def head():
    commit = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'], text=True,
                            capture_output=True, check=False).stdout.strip()
    return {'commit': commit or 'unknown', 'date': datetime.date.today().isoformat(),
            'processors': os.cpu_count()}


def measure(bench, options):
    described = head()
    bench.say('commit {commit}, {date}, {processors} processors'.format(**described))
    for part in options.only or PARTS:
        getattr(bench, part)()
    bench.say('\nBars')
    for bar in bench.bars:
        bench.say(f'  {"met   " if bar["met"] else "MISSED"} {bar["bar"]}: {bar["value"]} '
                  f'(published: {bar["published"]})')
    if options.json:
        print(json.dumps({**described, 'parts': bench.found, 'bars': bench.bars}, indent=1))
    if options.svg:
        options.svg.write_text(svg.figure(bench.panels), encoding='utf-8')
    return 0 if all(bar['met'] for bar in bench.bars) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=pathlib.Path('build'))
    parser.add_argument('--only', action='append', choices=PARTS)
    parser.add_argument('--steps', type=int, default=rtm_trace.STEPS)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--svg', type=pathlib.Path)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    if min(options.steps, options.seeds, options.rounds) < 1:
        parser.error('--steps, --seeds and --rounds are at least 1')
    try:
        return measure(Bench(options), options)
    except Failed as error:
        print(f'balance: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
