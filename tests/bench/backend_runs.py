"""Runs of backend_driver, in turn and several times, and what is made of them."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SIZES = {'': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}


def size(text):
    """Bytes of '64M'."""
    return int(text[:-1]) * SIZES[text[-1]] if text[-1] in SIZES else int(text)


MEMORY = '/dev/shm'


class Runs:
    """Each configuration as often as `rounds` says, all of a comparison in turn. In one folder; where
    none was asked for, devices whose speed is set are in memory: no other shall be seen."""

    def __init__(self, options):
        self.rounds = options.rounds
        self.driver = options.build.resolve() / 'tests' / 'bench' / 'backend_driver'
        if not os.access(self.driver, os.X_OK):
            sys.exit(f'bench: {self.driver} is not there: build it first')
        set_speed = options.folder or (MEMORY if os.path.isdir(MEMORY) else None)
        self.folders = {is_set: tempfile.TemporaryDirectory(prefix='gpusnap-bench-', dir=folder)
                        for is_set, folder in ((False, options.folder), (True, set_speed))}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for folder in self.folders.values():
            folder.cleanup()

    def once(self, **keys):
        words = [f'{key}={value}' for key, value in keys.items()]
        folder = self.folders['pfs' in keys or 'ssd' in keys].name
        done = subprocess.run([str(self.driver), folder, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f'bench: backend_driver {" ".join(words)}:\n{done.stderr}')
        return json.loads(done.stdout)

    def compare(self, configurations):
        """configurations: name -> keys. Name -> list of reports, one a round."""
        found = {name: [] for name in configurations}
        for _ in range(self.rounds):
            for name, keys in configurations.items():
                found[name].append(self.once(**keys))
        return found


def median(reports, what):
    return statistics.median(report[what] for report in reports)


def ratio(above, below, what, other=None):
    """The median of the ratios within a round."""
    return statistics.median(one[what] / two[other or what] for one, two in zip(above, below))


def few(options, values):
    return values[:2] if options.quick else values


def table(heads, rows):
    """A table as Markdown has it."""
    lines = ['| ' + ' | '.join(heads) + ' |', '| ' + ' | '.join('---' for _ in heads) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(str(cell) for cell in row) + ' |' for row in rows])


class Part:
    """One of a benchmark's parts. measure(runs, options) makes what goes into the JSON; show prints
    it as tables; draw makes an SVG of it, or is None."""

    def __init__(self, measure, show, draw=None):
        self.measure, self.show, self.draw = measure, show, draw


def read_options(description, parts):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / 'build')
    parser.add_argument('--folder', help='on the device to use')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--only', action='append', choices=parts)
    parser.add_argument('--svg', type=pathlib.Path, help='write charts into this folder')
    parser.add_argument('--json', action='store_true', help='print JSON instead of tables')
    parser.add_argument('--quick', action='store_true', help='few configurations, one round')
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    return options


def run_parts(name, description, parts, prepare=None):
    """The whole of a benchmark with such options. parts: name -> Part. prepare(runs) comes before
    all of them."""
    options = read_options(description, parts)
    found = {}
    with Runs(options) as runs:
        if prepare:
            prepare(runs)
        for which in options.only or parts:
            part = parts[which]
            found[which] = part.measure(runs, options)
            if not options.json:
                print(f'\n{which}\n')
                part.show(found[which])
                sys.stdout.flush()
            if options.svg and part.draw:
                options.svg.mkdir(parents=True, exist_ok=True)
                (options.svg / f'{name}-{which}.svg').write_text(part.draw(found[which]))
    if options.json:
        print(json.dumps(found, indent=1))
