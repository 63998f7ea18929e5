#!/usr/bin/env python3
"""Compares where chunks wait for their flush: the four policies of the VeloC paper, in turn.

  scripts/bench placement [--folder FOLDER] [--rounds N] [--only PART]... [--svg FOLDER] [--json]

The real backend writes real files, on tiers whose speed is set, by how many files are written or read
at the same time. The store is set to be 6.4 times as fast as the local device at its best, so a ratio
of that size is an input and no result. The local device reads three times as fast as it writes, and
does both at once no faster. hybrid-opt knows the local device through a calibration of the same run
alone. Measured are the time until all ranks have handed over what they save (local phase), the time
from then until all is durable (flush completion), and how many chunks went to the local device; the
median of N rounds (default 5). Takes about 11 minutes with three rounds. The files are in memory, if no
FOLDER is given: no device shall be seen but those that are set.

This measures the backend, and compares nothing with the paper: scripts/bench comparison does that. The
paper's cache-only has a cache that holds all chunks, and is the ideal that others can only come near to;
here cache-only has the same staging memory as the others, and waits for flushes. The local phase ends
when the last slot is handed over, although its chunk may not be on the local device yet. Sizes are a
sixteenth of the paper's. Nothing fails when a policy does badly.

Parts:
  model    the calibration's curve beside what is measured with every number of writers, on a device of
           set rates
  weak     more ranks, each with as much
  strong   more ranks, all together with as much
  cache    more staging memory
  changes  a store whose speed changes during the run
  program  the increase of a program's run time, beside synchronous checkpoints
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import backend_runs  # noqa: E402 (beside this file)
import svg  # noqa: E402

POLICIES = ['cache-only', 'ssd-only', 'hybrid-naive', 'hybrid-opt']
LABELS = {'cache-only': 'cache-only (same cache)'}  # where the paper's holds all chunks
OURS = 'hybrid-opt'
ALLOWED = 1.05  # what hybrid-opt may be behind another one

# Files that move bytes at the same time, and bytes a second of all of them. The local device is slow
# with one writer and with many; the store is at its best with as many files as there are flushes.
LOCAL = '1:12M,4:31M,8:50M,16:50M,32:42M,64:32M'
LOCAL_READS = '1:150M'
STORE = '1:100M,4:320M,8:320M'
BASE = {'chunk': '4M', 'slot': '1M', 'cache': '32M', 'ssd': LOCAL, 'ssd_reads': LOCAL_READS,
        'pfs': STORE, 'flushes': 4}
MOST_WRITERS = 64
MODEL_CHUNK = '1M'  # each number of writers is measured
RANK = 16 << 20
CHECKPOINTS = 2  # of the program, each after
COMPUTE_S = 1

WEAK = [16, 24, 32]
STRONG = [1, 4, 64]
CACHES = ['16M', '48M']
CHANGES = {'slow in between': '0.3:0.2,0.8:1', 'fast, then slow': '0:1,0.4:0.25',
           'slow, then fast': '0:0.25,0.5:1.5',
           'up and down': '0.2:0.3,0.4:1,0.6:0.3,0.8:1,1:0.3,1.2:1'}


def label(policy):
    return LABELS.get(policy, policy)


def policies(runs, **keys):
    """policy -> medians."""
    compared = runs.compare({policy: {**BASE, **keys, 'policy': policy} for policy in POLICIES})
    chunk = backend_runs.size(BASE['chunk'])
    found = {}
    for policy, reports in compared.items():
        local = backend_runs.median(reports, 'local')
        complete = backend_runs.median(reports, 'complete')
        ssd = backend_runs.median(reports, 'ssd')
        found[policy] = {'local': local, 'complete': complete, 'flush': complete - local,
                         'chunks': round(ssd / chunk)}
    return found


def model(runs, _):
    return runs.once(what='model', ssd=LOCAL, chunk=MODEL_CHUNK, writers=MOST_WRITERS)


def weak(runs, options):
    return {f'{ranks} ranks': policies(runs, ranks=ranks, bytes=RANK)
            for ranks in backend_runs.few(options, WEAK)}


def strong(runs, options):
    total = 16 * RANK
    return {f'{ranks} ranks': policies(runs, ranks=ranks, bytes=total // ranks)
            for ranks in backend_runs.few(options, STRONG)}


def cache(runs, options):
    return {f'cache of {size}': policies(runs, ranks=16, bytes=RANK, cache=size)
            for size in backend_runs.few(options, CACHES)}


def changes(runs, options):
    return {name: policies(runs, ranks=16, bytes=RANK, pfs_changes=CHANGES[name])
            for name in backend_runs.few(options, list(CHANGES))}


def program(runs, _):
    """The cost of checkpoints for a program that computes in between, by who waits for what."""
    keys = {**BASE, 'ranks': 16, 'bytes': RANK, 'checkpoints': CHECKPOINTS,
            'compute_ms': round(1000 * COMPUTE_S)}
    compared = runs.compare({
        'synchronous': {**keys, 'policy': 'cache-only', 'synchronous': 1},
        **{policy: {**keys, 'policy': policy} for policy in POLICIES}})
    return {name: {'increase': backend_runs.median(reports, 'complete') - CHECKPOINTS * COMPUTE_S,
                   'local': backend_runs.median(reports, 'local')}
            for name, reports in compared.items()}


def print_behind(found, times):
    """How far hybrid-opt is behind the best of the other policies, at worst."""
    worst = []
    for name, each in found.items():
        for what, title in times.items():
            best = min(each[policy][what] for policy in POLICIES if policy != OURS)
            worst.append((each[OURS][what] / best, title, name))
    factor, title, name = max(worst)
    print(f'\n{OURS}, by the best of the other policies: at most {factor:.2f} ({title}, {name})'
          f'{"" if factor <= ALLOWED else ": BEHIND"}')


def print_policies(found):
    rows = []
    for name, each in found.items():
        for policy in POLICIES:
            one = each[policy]
            rows.append((name, label(policy), f'{one["local"]:.2f} s', f'{one["flush"]:.2f} s',
                         f'{one["complete"]:.2f} s', one['chunks']))
    print(backend_runs.table(['', 'policy', 'local phase', 'flush completion', 'both',
                              'chunks on SSD'], rows))
    print_behind(found, {'local': 'local phase', 'complete': 'both'})


def print_model(found):
    print(f'the model is off by {found["error_mean"]:.1%} on average, {found["error_most"]:.1%} at '
          f'most (with {found["error_most_at"]} writers), from {len(found["samples"])} samples')


def print_program(found):
    print(backend_runs.table(['', 'increase of run time', 'of it local phases'],
                             [(label(name), f'{each["increase"]:.2f} s', f'{each["local"]:.2f} s')
                              for name, each in found.items()]))
    print_behind({'program': found}, {'increase': 'increase of run time'})


def draw_policies(found):
    names = list(found)
    labels = [label(policy) for policy in POLICIES]
    panels = []
    for what, title, unit in (('local', 'Local phase', 's'), ('flush', 'Flush completion', 's'),
                              ('chunks', 'Chunks on the local device', 'chunks')):
        rows = [[found[name][policy][what] for policy in POLICIES] for name in names]
        panels.append(svg.Panel(title, unit, height=260).bars(names, labels, rows))
    return svg.figure(panels)


def draw_model(found):
    lines = [[(writers, rate / 1e6) for writers, rate, _ in found['checked']],
             [(writers, predicted / 1e6) for writers, _, predicted in found['checked']]]
    errors = [[(writers, 100 * abs(predicted / rate - 1))
               for writers, rate, predicted in found['checked']]]
    title = 'Throughput by the number of writers, on a device of set rates'
    return svg.figure([
        svg.Panel(title, 'MB/s').lines(
            ['measured', 'B-spline through the samples'], lines, 'writers'),
        svg.Panel('Error of the model', '%', height=220).lines(['error'], errors, 'writers')])


def draw_program(found):
    names = list(found)
    return svg.figure([svg.Panel('Increase of run time by checkpoints', 's').bars(
        [label(name) for name in names], ['increase'], [[found[name]['increase']] for name in names])])


def calibrate(runs):
    runs.once(what='calibrate', ssd=LOCAL, chunk=BASE['chunk'], writers=MOST_WRITERS)


PARTS = {'model': backend_runs.Part(model, print_model, draw_model),
         'weak': backend_runs.Part(weak, print_policies, draw_policies),
         'strong': backend_runs.Part(strong, print_policies, draw_policies),
         'cache': backend_runs.Part(cache, print_policies, draw_policies),
         'changes': backend_runs.Part(changes, print_policies, draw_policies),
         'program': backend_runs.Part(program, print_program, draw_program)}


if __name__ == '__main__':
    backend_runs.run_parts('placement', __doc__, PARTS, calibrate)
