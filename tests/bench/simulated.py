"""Shared by benchmarks on a virtual clock: runs of a simulator with several seeds, tables, bars, and the
command line. A bar is a figure that was published or aimed at; a run that misses one exits with 1."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys


class Failed(Exception):
    pass


class Simulator:
    """Runs configurations, and remembers results."""

    at_once = 4  # configurations of one call of the program

    def __init__(self, program, jobs):
        self.program = program
        self.jobs = jobs
        self.results = {}
        if not os.access(self.program, os.X_OK):
            raise Failed(f'{self.program} is not there: build it first')

    def run(self, configurations):
        new = [c for c in dict.fromkeys(configurations) if c not in self.results]
        shares = [new[i:i + self.at_once] for i in range(0, len(new), self.at_once)]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for share, results in zip(shares, pool.map(self.simulate, shares)):
                self.results.update(zip(share, results, strict=True))
        return [self.results[c] for c in configurations]

    def simulate(self, configurations):
        done = subprocess.run([self.program], input='\n'.join([*configurations, '']), text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f'exit code {done.returncode}')
        return [json.loads(line) for line in done.stdout.splitlines()]


class Seeds:
    """The results of one configuration with several seeds."""

    def __init__(self, results):
        self.results = results

    def values(self, what):
        return sorted(what(r) if callable(what) else r[what] for r in self.results)

    def median(self, what):
        return statistics.median(self.values(what))

    def summary(self):
        keys = [k for k, v in self.results[0].items() if isinstance(v, (int, float))]
        return {k: [min(self.values(k)), self.median(k), max(self.values(k))] for k in keys}


class Bench:
    """A benchmark's parts are methods of a class that is derived from this one. fault(result) says what
    is wrong with a result; nothing is if that is empty."""

    aim = 'published'  # what bars are

    def __init__(self, simulator, fault, options):
        self.options = options
        self.simulator = simulator
        self.fault = fault
        self.seeds = range(1, options.seeds + 1)
        self.bars = []
        self.summary = {}
        self.drawings = {}

    def run(self, configurations):
        """By label: results of all seeds."""
        lines = {label: [f'{words} seed={seed}' for seed in self.seeds]
                 for label, words in configurations.items()}
        self.simulator.run([line for each in lines.values() for line in each])
        found = {label: Seeds(self.simulator.run(each)) for label, each in lines.items()}
        for label, seeds in found.items():
            for line, result in zip(lines[label], seeds.results):
                if self.fault(result):
                    raise Failed(f'{line}: {self.fault(result)}')
        return found

    def bar(self, name, published, value, met, note=''):
        self.bars.append({'bar': name, 'published': published, 'value': value, 'met': bool(met),
                          'note': note})

    def keep(self, part, found):
        self.summary[part] = {' | '.join(map(str, label)): seeds.summary()
                              for label, seeds in found.items()}

    def say(self, line=''):
        if not self.options.json:
            print(line)

    def table(self, title, rows, columns, cell):
        self.say(f'\n{title}')
        width = max(len(str(row)) for row in rows) + 2
        self.say(' ' * width + ''.join(f'{c:>22}' for c in columns))
        for row in rows:
            self.say(f'{row!s:{width}}' + ''.join(f'{cell(row, c):>22}' for c in columns))


def spread(seeds, what, factor=1):
    low, middle, high = min(seeds.values(what)), seeds.median(what), max(seeds.values(what))
    numbers = [f'{v / factor:.3g}' if v / factor < 1000 else f'{v / factor:.0f}'
               for v in (low, middle, high)]
    return numbers[1] if numbers[0] == numbers[2] else f'{numbers[1]} ({numbers[0]}-{numbers[2]})'


def read_options(description, parts, arguments=None, more=(), seeds=5):
    """`more`: names and keywords of further options."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=pathlib.Path('build'))
    parser.add_argument('--only', action='append', choices=parts)
    parser.add_argument('--seeds', type=int, default=seeds)
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1)
    parser.add_argument('--svg', type=pathlib.Path)
    parser.add_argument('--json', action='store_true')
    for name, keywords in more:
        parser.add_argument(name, **keywords)
    return parser.parse_args(arguments)


def measure(name, bench, parts, options):
    """Runs the parts; the exit code."""
    for part in options.only or parts:
        getattr(bench, part)()
    bench.say('\nBars')
    for bar in bench.bars:
        bench.say(f'  {"met   " if bar["met"] else "MISSED"} {bar["bar"]}: {bar["value"]} '
                  f'({bench.aim}: {bar["published"]})' + (f'; {bar["note"]}' if bar['note'] else ''))
    if options.json:
        print(json.dumps({'seeds': list(bench.seeds), 'parts': bench.summary, 'bars': bench.bars},
                         indent=1))
    if options.svg:
        options.svg.mkdir(parents=True, exist_ok=True)
        for drawn, drawing in bench.drawings.items():
            (options.svg / f'{name}-{drawn}.svg').write_text(drawing, encoding='utf-8')
    return 0 if all(bar['met'] for bar in bench.bars) else 1


def run(name, make, parts, options):
    """Measures with the bench that make(options) gives; the exit code."""
    try:
        return measure(name, make(options), parts, options)
    except Failed as error:
        print(f'{name}: {error}', file=sys.stderr)
        return 1
