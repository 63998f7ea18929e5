#!/usr/bin/env python3
"""Measures what load balancing over devices saves a program of which one device has to save more than
its buffer holds (SC'22 deep tiers talk, slides 14 to 21).

  scripts/bench peers [--memory MIB]... [--cache MIB] [--rounds N] [--json]

The program runs on the software GPU, on a virtual clock: eight devices with the links of a DGX-1V, 24 GB/s
for each NVLink, 12 GB/s to the host. It overwrites all memory of its first device right after a cut, so its
stream waits until all of that is on devices or on the host. That wait, as the checkpoint tells it, is
compared with GPUSNAP_BALANCE=off, and with the least that a plan can take: copies on each link without a
gap. The other devices have nothing to save.

  --memory MIB   of the first device (default 48, 96 and 192)
  --cache MIB    device buffer of each device (default 16)
  --rounds N     times that each is measured; the median counts (default 5)
  --json         prints JSON instead of a table
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from balance import LINKS, HOST, NVLINK, head  # noqa: E402 (beside this file)

MIB = 1 << 20
PATIENCE = 120  # seconds for a checkpoint
OTHERS = [i for i in range(1, len(LINKS))]


class Failed(Exception):
    pass


def script(memory, folder):
    """The program; it waits for files in the folder."""
    lines = [*(f'device {i}' for i in OTHERS), 'stream s', f'alloc a {memory * MIB // 4}', 'sync s']
    for number in (1, 2, 3):
        lines += [f'say ready {number}', f'await {folder}/go{number}', 'sync s', f'set a {number} s',
                  'sync s']
    return '\n'.join([*lines, 'say end', ''])


class Bench:
    def __init__(self, options):
        self.options = options
        self.build = options.build.resolve()
        for name in ('tools/gpusnap', 'tests/apps/script', 'tools/simcuda/libcuda.so.1'):
            if not (self.build / name).exists():
                raise Failed(f'{self.build / name} is not there: build it first')

    def environment(self, folder, balance):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(('GPUSNAP_', 'SIMCUDA_'))}
        links = '/'.join(','.join(f'{n * NVLINK // 10**9}G' if n else '0' for n in row)
                         for row in LINKS)
        kept.update(
            SIMCUDA_DEVICES=str(len(LINKS)), SIMCUDA_LINKS=links, SIMCUDA_CLOCK='virtual',
            SIMCUDA_BANDWIDTH=f'to_host:{HOST}', SIMCUDA_MEMORY='2G', GPUSNAP_BALANCE=balance,
            GPUSNAP_DEVICE_CACHE=f'{self.options.cache}M', GPUSNAP_HOST_CACHE='1G',
            GPUSNAP_PFS=f'{folder}/store', GPUSNAP_JOB='bench', GPUSNAP_EVERY='signal:USR1',
            GPUSNAP_KEEP='3', GPUSNAP_MAX_STALL='1h', GPUSNAP_LOG='info', GPUSNAP_NODE=folder,
            GPUSNAP_BACKEND='thread', GPUSNAP_COMPRESS='off', GPUSNAP_CHAIN='0', XDG_RUNTIME_DIR=folder)
        return kept

    def run(self, memory, balance):
        """Milliseconds that the stream waited at the last cut, and bytes that went to peers."""
        with tempfile.TemporaryDirectory(prefix='gpusnap-bench-') as folder:
            path = pathlib.Path(folder)
            (path / 'script').write_text(script(memory, folder))
            environment = self.environment(folder, balance)
            with open(path / 'out', 'wb') as out, open(path / 'err', 'wb') as err:
                program = subprocess.Popen(
                    [self.build / 'tools' / 'gpusnap', 'run', '--sim', '--',
                     self.build / 'tests' / 'apps' / 'script', path / 'script'],
                    env=environment, cwd=folder, stdout=out, stderr=err)
            try:
                for number in (1, 2, 3):
                    self.wait(program, path, 'out', f'ready {number}\n', 1)
                    program.send_signal(signal.SIGUSR1)
                    (path / f'go{number}').touch()
                    self.wait(program, path, 'err', 'info: checkpoint ', number)
                if program.wait(PATIENCE) != 0:
                    raise Failed((path / 'err').read_text())
            finally:
                program.kill()
                program.wait()
            shown = subprocess.run([self.build / 'tools' / 'gpusnap', 'show', 'bench@3', '--json'],
                                   env=environment, text=True, capture_output=True, check=True)
            rank, = json.loads(shown.stdout)['ranks']
            return rank['stall']['streams_ms'], rank['peer_bytes']

    @staticmethod
    def wait(program, path, file, text, count):
        deadline = time.monotonic() + PATIENCE
        while (path / file).read_text().count(text) < count:
            if program.poll() is not None or time.monotonic() > deadline:
                raise Failed(f'no {text.strip()!r}:\n' + (path / 'err').read_text())
            time.sleep(0.002)

    def least(self, memory, peers):
        """Milliseconds, by the bandwidths alone; the buffers of peers may be full before that."""
        left = max(0, memory - self.options.cache) * MIB
        links = {i: LINKS[0][i] * NVLINK for i in OTHERS if LINKS[0][i]} if peers else {}
        full = {}
        while True:
            rate = HOST + sum(links.values())
            seconds = (left - sum(full.values())) / rate
            over = [i for i, link in links.items() if link * seconds > self.options.cache * MIB]
            if not over:
                return seconds * 1e3
            for i in over:
                full[i] = self.options.cache * MIB
                del links[i]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=pathlib.Path('build'))
    parser.add_argument('--memory', type=int, action='append')
    parser.add_argument('--cache', type=int, default=16)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    if min([options.cache, options.rounds, *(options.memory or [1])]) < 1:
        parser.error('--memory, --cache and --rounds are at least 1')
    try:
        bench = Bench(options)
        rows = []
        for memory in options.memory or [48, 96, 192]:
            row = {'memory_mib': memory}
            for balance in ('off', 'on'):
                runs = [bench.run(memory, balance) for _ in range(options.rounds)]
                waits = sorted(ms for ms, _ in runs)
                row[balance] = {'ms': waits, 'median_ms': statistics.median(waits),
                                'least_ms': bench.least(memory, balance == 'on'),
                                'peer_mib': [sent / MIB for _, sent in runs]}
            rows.append(row)
        described = head()
    except Failed as error:
        print(f'peers: {error}', file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({**described, 'rows': rows}, indent=1))
        return 0
    print('commit {commit}, {date}, {processors} processors'.format(**described))
    print(f'{"MiB":>5}{"balance":>9}{"wait, ms (least to most)":>32}{"by bandwidths":>15}'
          f'{"MiB to peers":>14}')
    for row in rows:
        for balance in ('off', 'on'):
            each = row[balance]
            spread = f'{each["median_ms"]:.2f} ({each["ms"][0]:.2f} to {each["ms"][-1]:.2f})'
            print(f'{row["memory_mib"]:>5}{balance:>9}{spread:>32}{each["least_ms"]:>15.2f}'
                  f'{statistics.median(each["peer_mib"]):>14.1f}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
