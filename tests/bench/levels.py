#!/usr/bin/env python3
"""Measures the levels between SSD and store: coding beside ISA-L alone, and the bound on traffic.

  scripts/bench levels [--rounds N] [--quick] [--svg FILE] [--json]

Coding is measured from main memory and from the cache. ISA-L alone is its ec_encode_data() on the same
memory: in blocks of the size that a shard's blocks have, and on whole shards at once; the faster one of
these counts. Ours is the encoder as a part is coded with it. Both are measured in turn in one process,
each the best of three tries; a round's ratio is of that process, and the median ratio of the rounds
counts.

Beside it, without a bar: the checksums of all shards of a stripe, which the nodes that keep them compute
as they arrive; and a channel on this machine, authenticated and encrypted.

Bars: coding at 90% of ISA-L's own speed for each scheme; what passes a bound in some seconds at most the
rate and a burst, and at least 90% of the rate. Exits with 1 if a bar is missed.

  --rounds N    (default 5)
  --quick       less time for the bound and the channel, for CI
  --svg FILE    a chart of the coding
  --json        prints JSON instead of tables
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg  # noqa: E402 (beside this file)

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMES = [(1, 1), (2, 1), (4, 2), (8, 3), (16, 4)]
MEMORY = 256          # MiB of data: more than caches hold
BAR = 0.90            # of ISA-L alone
RATES = [5_000_000, 50_000_000]  # bytes per second
BURST = 1 / 20        # of a second, at full rate (tiers/levels/rate_limit.h)
BLOCK = 64 << 10      # that is on its way when time is up
LEAST = 0.90          # of the rate


def scheme_name(scheme):
    return 'partner' if scheme == (1, 1) else 'rs:%d+%d' % scheme


def driver(options, *words):
    program = options.build / 'tests' / 'bench' / 'levels_driver'
    done = subprocess.run([str(program), *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE)
    return {name: float(value)
            for name, value in (line.split('\t') for line in done.stdout.splitlines() if line)}


def spread(values):
    return {'median': statistics.median(values), 'least': min(values), 'greatest': max(values)}


def measure_code(options, scheme):
    rounds = [driver(options, 'code', *scheme, MEMORY) for _ in range(options.rounds)]
    alone = [max(each['isal'], each['isal_whole']) for each in rounds]
    return {'isal': spread(alone), 'ours': spread([each['ours'] for each in rounds]),
            'ratio': spread([each['ours'] / best for each, best in zip(rounds, alone)]),
            'ours_cached': spread([each['ours_cached'] for each in rounds]),
            'ratio_cached': spread([each['ours_cached'] / each['isal_cached'] for each in rounds]),
            'checksums': spread([each['checksums'] for each in rounds])}


def measure_rate(options, rate):
    seconds = 1 if options.quick else 3
    rounds = [driver(options, 'rate', rate, seconds) for _ in range(options.rounds)]
    # As a part of what may pass in that time.
    return {'of_most': spread([each['bytes'] / (rate * (each['seconds'] + BURST) + BLOCK)
                               for each in rounds]),
            'of_rate': spread([each['bytes'] / each['seconds'] / rate for each in rounds])}


def measure(options):
    mib = 64 if options.quick else 512
    sent = [driver(options, 'send', mib) for _ in range(options.rounds)]
    return {'code': {scheme_name(each): measure_code(options, each) for each in SCHEMES},
            'rate': {str(rate): measure_rate(options, rate) for rate in RATES},
            'channel': {how: spread([each[how] for each in sent])
                        for how in ('authenticated', 'encrypted')}}


def missed_bars(found):
    missed = []
    for scheme, each in found['code'].items():
        for what in ('ratio', 'ratio_cached'):
            if each[what]['median'] < BAR:
                missed.append('coding %s: %s of %.0f%% is under %.0f%%'
                              % (scheme, what, 100 * each[what]['median'], 100 * BAR))
    for rate, each in found['rate'].items():
        if each['of_most']['greatest'] > 1:
            missed.append('%s bytes/s: %.1f%% of what may pass did'
                          % (rate, 100 * each['of_most']['greatest']))
        if each['of_rate']['median'] < LEAST:
            missed.append('%s bytes/s: %.0f%% of the rate passed'
                          % (rate, 100 * each['of_rate']['median']))
    return missed


def gigabytes(value):
    return '%.2f (%.2f-%.2f)' % tuple(value[each] / 1e9 for each in ('median', 'least', 'greatest'))


def percent(value):
    return '%.0f%% (%.0f-%.0f)' % tuple(100 * value[each]
                                       for each in ('median', 'least', 'greatest'))


def print_table(found):
    print('GB/s of data: median (least-greatest)')
    row = '%-9s %20s %20s %16s %20s %16s %20s'
    print(row % ('scheme', 'ISA-L alone', 'ours', 'of it', 'ours, from cache', 'of ISA-L',
                 'checksums'))
    for scheme, each in found['code'].items():
        print(row % (scheme, gigabytes(each['isal']), gigabytes(each['ours']),
                     percent(each['ratio']), gigabytes(each['ours_cached']),
                     percent(each['ratio_cached']), gigabytes(each['checksums'])))
    print('\n%-16s %22s %22s' % ('bound, bytes/s', 'of what may pass', 'of the rate'))
    for rate, each in found['rate'].items():
        print('%-16s %22s %22s' % (rate, percent(each['of_most']), percent(each['of_rate'])))
    print('\nchannel on this machine, GB/s: authenticated %s, encrypted %s'
          % tuple(gigabytes(found['channel'][how]) for how in ('authenticated', 'encrypted')))


def draw(found):
    rows = [[each['isal']['median'] / 1e9, each['ours']['median'] / 1e9]
            for each in found['code'].values()]
    return svg.figure([svg.Panel('Coding, from main memory', 'GB/s of data').bars(
        list(found['code']), ['ISA-L alone', 'ours'], rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=TOP / 'build')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--svg', type=pathlib.Path)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    commit = subprocess.run(['git', '-C', str(TOP), 'rev-parse', '--short', 'HEAD'], text=True,
                            stdout=subprocess.PIPE, check=False).stdout.strip()
    load = os.getloadavg()[0]
    found = measure(options)
    missed = missed_bars(found)
    if options.json:
        print(json.dumps({'commit': commit, 'machine': platform.machine(),
                          'processors': os.cpu_count(), 'load': load, 'rounds': options.rounds,
                          **found, 'missed': missed}, indent=2))
    else:
        print('commit %s, %d processors, load %.1f before, %d rounds\n'
              % (commit, os.cpu_count(), load, options.rounds))
        print_table(found)
        for line in missed:
            print('MISSED: ' + line)
        if not missed:
            print('\nall bars are met')
    if options.svg:
        options.svg.write_text(draw(found), encoding='utf-8')
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
