#!/usr/bin/env python3
"""Compares the organisations of snapshots that the paper on GPU Snapshot names.

  scripts/bench organisations [--program NAME]... [--organisation ORG]... [--svg FOLDER] [--json]

For each program: its time with one more checkpoint, taken once its dirty zones have saturated, less
its time without; relative to that of b+f, the library's own full blocking checkpoint, which also
fingerprints all memory. On the software GPU, whose virtual clock gives the times; with --gpu on the
machine's GPU, where times are those of its own events. Then nb+i+h+d with other device buffers and with
slower copies within the device, beside the least that a buffer allows where all dirty zones are
overwritten at once. Then which zones change, for checkpoints every 1, 8, 64 and 512 steps, and which
parts of these zones: by content, so that a zone which is stored to with what it held does not count.

These are not figures 6 to 11 of the paper. The programs are others, the device buffer is a larger part
of their memory, i-fg moves as small pieces as it tracks, there is one speed of the link, a kernel waits
for whole allocations, and nb+f+h is not among the organisations.

  --gpu          on the GPU; also the bandwidth of transfers by their size, gathered by copies and not
                 by the library's kernel
  --memory MIB   of a program (default 64; 4096 with --gpu)
  --device-cache SIZE  of the library (default: a quarter of the program's memory); with it, and with
                 --organisation, no other buffers are measured
  --rounds N     times that each is measured; the median counts (default 1; 5 with --gpu)
  --only PART    stall, zones or transfers
  --svg FOLDER   writes stall.svg, zones.svg and transfers.svg there
  --json         prints JSON instead of tables
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg  # noqa: E402 (beside this file)

TOP = pathlib.Path(__file__).resolve().parents[2]

# Steps from the first checkpoint on until the dirty zones have saturated, and after the second one.
PROGRAMS = {'stencil': (8, 40), 'particles': (6, 24), 'gradients': (40, 40), 'sweep': (3, 14),
            'adaptive': (40, 60)}
BASIC = ['b+f', 'b+i', 'nb+f', 'nb+i', 'nb+i+h']
DEVICE_SIDE = ['nb+i-fg+h', 'nb+f+h+d', 'nb+i+h+d', 'nb+i-fg+h+d']
BASE = 'b+f'
# More of one of them: parts of the memory that the device buffer has, and what the software GPU's
# copy engine is said to reach alone (tools/simcuda/README.md).
BEST = 'nb+i+h+d'
BUFFERS = {'buffer of 1/4': 4, 'buffer of 1/2': 2, 'buffer of all': 1}
SLOW_COPIES = 'copy:93G'
TO_HOST = 25e9  # bytes a second to the host, as the software GPU has it

# Memory and steps of the runs that look at zones.
ZONE_MEMORY, ZONE_STEPS = 16, 1024
INTERVALS = ['1', '8', '64', '512']
MOST_POINTS = 256  # of a line that is drawn

# The host's clock runs this much faster than the virtual one: what host code takes hardly counts.
PACE = 1000
PATIENCE = 300  # seconds for a checkpoint


class Failed(Exception):
    pass


class Bench:
    def __init__(self, options):
        self.options = options
        self.build = options.build.resolve()
        self.memory = options.memory or (4096 if options.gpu else 64)
        self.rounds = options.rounds or (5 if options.gpu else 1)
        self.cache = options.device_cache or f'{max(self.memory // 4, 1)}M'

    def check_build(self):
        needed = ['tools/gpusnap', 'interpose/libgpusnap.so', 'tests/bench/mini/mini',
                  'tests/bench/mini/transfers']
        for name in needed if self.options.gpu else [*needed, 'tools/simcuda/libcuda.so.1']:
            if not (self.build / name).exists():
                raise Failed(f'{self.build / name} is not there: build it first')

    def environment(self, clock, **settings):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith('GPUSNAP_')
                and not (name.startswith('SIMCUDA_') and self.options.gpu)}
        if not self.options.gpu:
            kept['LD_LIBRARY_PATH'] = str(self.build / 'tools' / 'simcuda')
            kept.setdefault('SIMCUDA_MEMORY', f'{4 * self.memory + 1024}M')
            if clock:
                kept.setdefault('SIMCUDA_PACE', str(PACE))
                kept['SIMCUDA_CLOCK'] = 'virtual'
        kept.update(settings)
        return kept

    def mini(self, program):
        return [str(self.build / 'tests' / 'bench' / 'mini' / program[0]), *program[1:]]

    def alone(self, *program, clock=True):
        done = subprocess.run(self.mini(program), env=self.environment(clock), text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(f'{" ".join(program)}: {done.stderr.strip()}')
        return [json.loads(line) for line in done.stdout.splitlines()]

    def checkpoints(self, store):
        listed = subprocess.run([self.build / 'tools' / 'gpusnap', 'list', '--json', '--store', store],
                                text=True, capture_output=True, check=False)
        found = json.loads(listed.stdout) if listed.stdout.strip() else []
        return sorted((c for c in found if c['state'] == 'complete'), key=lambda c: c['epoch'])

    def timed(self, program, organisation, second, cache, bandwidth):
        """Milliseconds, and what was stored, of a run with one checkpoint or two."""
        before, after = PROGRAMS[program]
        with tempfile.TemporaryDirectory() as folder:
            store, ready = os.path.join(folder, 'store'), os.path.join(folder, 'ready')
            settings = {'GPUSNAP_ORG': organisation, 'GPUSNAP_PFS': store, 'GPUSNAP_JOB': 'bench',
                        'GPUSNAP_EVERY': 'signal:USR1', 'GPUSNAP_KEEP': '4', 'GPUSNAP_MAX_STALL': '1h',
                        'GPUSNAP_DRAIN': '1h', 'GPUSNAP_DEVICE_CACHE': cache or self.cache,
                        'GPUSNAP_HOST_CACHE': f'{3 * self.memory}M', 'GPUSNAP_LOG': 'warn'}
            if bandwidth:
                settings['SIMCUDA_BANDWIDTH'] = bandwidth
            command = [self.build / 'tools' / 'gpusnap', 'run', *([] if self.options.gpu else ['--sim']),
                       '--', *self.mini(['mini', program, '--memory', str(self.memory), '--steps',
                                         str(before), str(after), '--first', '--wait', ready,
                                         *(['--second'] if second else [])])]
            with open(os.path.join(folder, 'err'), 'w+', encoding='utf-8') as errors:
                process = subprocess.Popen(command, env=self.environment(True, **settings), text=True,
                                           stdout=subprocess.PIPE, stderr=errors)
                self.wait_for_first(process, store)
                pathlib.Path(ready).touch()
                output, _ = process.communicate()
                errors.seek(0)
                said = errors.read().strip()
            stored = self.checkpoints(store)
            if process.returncode != 0 or len(stored) != 1 + second:
                raise Failed(f'{program}, {organisation}: {len(stored)} checkpoints of {1 + second}: '
                             f'{said or "nothing said"}')
            return json.loads(output)['milliseconds'], stored[-1]['stored_bytes']

    def wait_for_first(self, process, store):
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and not self.checkpoints(store):
            if time.monotonic() > deadline:
                process.kill()
                raise Failed('the first checkpoint does not become complete')
            time.sleep(0.1)

    def median(self, program, organisation, second, cache=None, bandwidth=None):
        runs = [self.timed(program, organisation, second, cache, bandwidth)
                for _ in range(self.rounds)]
        return statistics.median(time for time, _ in runs), runs[-1][1]

    def more_of_best(self):
        """Label: size of the device buffer in MiB, bandwidths."""
        found = {label: (max(self.memory // part, 1), None) for label, part in BUFFERS.items()}
        if not self.options.gpu:
            found |= {f'{label}, {SLOW_COPIES}': (size, SLOW_COPIES)
                      for label, (size, _) in found.items()}
        return found

    def buffers(self, stall):
        """For each program, by label: the stall of the best organisation, and the least it can be
        where all that is dirty is overwritten at once: what the buffer does not hold has to cross
        the link first."""
        results = {}
        for program, measured in stall.items():
            base = measured['organisations'][BASE]['stall_ms']
            rows = {}
            for label, (size, bandwidth) in self.more_of_best().items():
                total, stored = self.median(program, BEST, True, f'{size}M', bandwidth)
                over = max(stored - size * 2**20, 0)
                rows[label] = {'relative': (total - measured['without_ms']) / base,
                               'device_cache_mib': size,
                               'least_at_once': over / TO_HOST * 1e3 / base}
            results[program] = rows
        return results

    def stall(self, programs, organisations):
        """For each program: milliseconds without, and by organisation the stall and bytes."""
        results = {}
        for program in programs:
            without, _ = self.median(program, BASE, False)
            rows = {}
            for organisation in organisations:
                try:
                    total, stored = self.median(program, organisation, True)
                    rows[organisation] = {'stall_ms': total - without, 'stored_bytes': stored}
                except Failed as error:
                    rows[organisation] = {'failed': str(error)}
                    print(f'organisations: {error}', file=sys.stderr)
            base = rows.get(BASE, {}).get('stall_ms')
            for row in rows.values():
                if base and 'stall_ms' in row:
                    row['relative'] = row['stall_ms'] / base
            results[program] = {'without_ms': without, 'organisations': rows}
        return results

    def zones(self, programs):
        return {program: self.alone('mini', program, '--memory', str(ZONE_MEMORY), '--zones',
                                    str(ZONE_STEPS), clock=False)[0] for program in programs}

    def transfers(self):
        return self.alone('transfers', '256')


def print_stall(results, organisations):
    print(f'{"stall relative to " + BASE:24}' + ''.join(f'{p:>12}' for p in results))
    for organisation in organisations:
        cells = []
        for result in results.values():
            row = result['organisations'][organisation]
            cells.append(f'{row["relative"]:12.3f}' if 'relative' in row else f'{"-":>12}')
        print(f'{organisation:24}' + ''.join(cells))
    line = [r['organisations'].get(BASE, {}).get('stall_ms') for r in results.values()]
    print(f'{"ms, " + BASE:24}' + ''.join(f'{ms:12.3f}' if ms else f'{"-":>12}' for ms in line))


def print_buffers(results):
    print(f'\n{BEST + ", device":24}' + ''.join(f'{p:>12}' for p in results))
    for label in next(iter(results.values())):
        print(f'{label:24}' + ''.join(f'{r[label]["relative"]:12.3f}' for r in results.values()))
    print('least, where all is overwritten at once')
    for label in BUFFERS:
        print(f'{label:24}' +
              ''.join(f'{r[label]["least_at_once"]:12.3f}' for r in results.values()))


def fraction(result, interval):
    """Dirty zones of all, at the last look."""
    dirty = result['intervals'][interval]['dirty']
    return dirty[-1] / result['zones'] if dirty else 0.0


def print_zones(results):
    print(f'\n{"zones of all, last look":24}' + ''.join(f'{p:>12}' for p in results))
    for interval in INTERVALS:
        print(f'{"every " + interval + " steps":24}' +
              ''.join(f'{fraction(r, interval):12.3f}' for r in results.values()))
    print(f'\n{"of a dirty zone, every 64":24}' + ''.join(f'{p:>12}' for p in results))
    for piece in next(iter(results.values()))['intervals']['64']['pieces']:
        print(f'{"in pieces of " + piece:24}' +
              ''.join(f'{r["intervals"]["64"]["pieces"][piece]:12.3f}' for r in results.values()))


def print_transfers(results):
    print(f'\n{"transfer, bytes":24}{"direct, GB/s":>14}{"buffered, GB/s":>16}')
    for row in results:
        buffered = f'{row["buffered"] / 1e9:16.2f}' if 'buffered' in row else ''
        print(f'{row["bytes"]:<24}{row["direct"] / 1e9:14.2f}{buffered}')


def draw_stall(results, organisations, buffers):
    panels = []
    for title, wanted in (('Stall relative to b+f, without the device side', BASIC),
                          ('Stall relative to b+f, with the device side', ['nb+i+h', *DEVICE_SIDE])):
        shown = [o for o in wanted if o in organisations]
        values = [[r['organisations'][o].get('relative') for o in shown] for r in results.values()]
        if shown:
            panels.append(svg.Panel(title, 'stall / stall of b+f')
                          .bars(list(results), shown, values))
    if buffers:
        labels = list(next(iter(buffers.values())))
        panels.append(svg.Panel(f'{BEST} by the size of the device buffer, of the memory',
                                'stall / stall of b+f')
                      .bars(list(buffers), labels,
                            [[r[label]['relative'] for label in labels]
                             for r in buffers.values()]))
    return svg.figure(panels)


def draw_zones(results):
    panels = []
    for program, result in results.items():
        lines = [[(step * int(i), count) for step, count in
                  enumerate(result['intervals'][i]['dirty'], 1)] for i in INTERVALS]
        lines = [line[::max(len(line) // MOST_POINTS, 1)] for line in lines]
        panels.append(svg.Panel(f'{program}: dirty zones of {result["zones"]}', 'zones', height=220)
                      .lines([f'every {i}' for i in INTERVALS], lines, 'steps'))
    panels.append(svg.Panel('Zones that changed, of all, at the last look', 'fraction', top=1).bars(
        list(results), [f'every {i}' for i in INTERVALS],
        [[fraction(r, i) for i in INTERVALS] for r in results.values()]))
    pieces = list(next(iter(results.values()))['intervals']['64']['pieces'])
    panels.append(svg.Panel('Of a dirty zone, when tracked in smaller pieces (every 64 steps)',
                            'fraction', top=1).bars(
        list(results), [f'{p} B' for p in pieces],
        [[r['intervals']['64']['pieces'][p] for p in pieces] for r in results.values()]))
    return svg.figure(panels)


def draw_transfers(results):
    return svg.figure([svg.Panel('Bandwidth to the host by the size of a transfer', 'GB/s').bars(
        [f'{r["bytes"] >> 10} K' for r in results], ['direct', 'buffered'],
        [[r['direct'] / 1e9, r.get('buffered') and r['buffered'] / 1e9] for r in results])])


def measure(bench, options):
    programs = options.program or list(PROGRAMS)
    wanted = options.organisation or BASIC + DEVICE_SIDE
    bench.check_build()
    organisations = [BASE, *(o for o in wanted if o != BASE)]
    results = {'memory_mib': bench.memory, 'device_cache': bench.cache, 'rounds': bench.rounds,
               'gpu': options.gpu}
    drawings = {}
    if options.only in (None, 'stall'):
        results['stall'] = bench.stall(programs, organisations)
        measured = all('stall_ms' in r['organisations'][BASE] for r in results['stall'].values())
        if measured and not options.organisation and not options.device_cache:
            results['buffers'] = bench.buffers(results['stall'])
        drawings['stall'] = draw_stall(results['stall'], organisations, results.get('buffers'))
        if not options.json:
            print_stall(results['stall'], organisations)
            if 'buffers' in results:
                print_buffers(results['buffers'])
    if options.only in (None, 'zones'):
        results['zones'] = bench.zones(programs)
        drawings['zones'] = draw_zones(results['zones'])
        if not options.json:
            print_zones(results['zones'])
    if options.only == 'transfers' or (options.only is None and options.gpu):
        results['transfers'] = bench.transfers()
        drawings['transfers'] = draw_transfers(results['transfers'])
        if not options.json:
            print_transfers(results['transfers'])
    if options.json:
        print(json.dumps(results, indent=1))
    if options.svg:
        options.svg.mkdir(parents=True, exist_ok=True)
        for name, drawing in drawings.items():
            (options.svg / f'{name}.svg').write_text(drawing, encoding='utf-8')
    return 0 if all('failed' not in row for r in results.get('stall', {}).values()
                    for row in r['organisations'].values()) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=TOP / 'build')
    parser.add_argument('--program', action='append', choices=list(PROGRAMS))
    parser.add_argument('--organisation', action='append', choices=BASIC + DEVICE_SIDE)
    parser.add_argument('--only', choices=['stall', 'zones', 'transfers'])
    parser.add_argument('--memory', type=int)
    parser.add_argument('--device-cache')
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--svg', type=pathlib.Path)
    parser.add_argument('--gpu', action='store_true')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    try:
        return measure(Bench(options), options)
    except Failed as error:
        print(f'organisations: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
