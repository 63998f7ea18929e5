#!/usr/bin/env python3
"""Simulates the evaluation of the GPU cache and prefetch paper (figures 5 to 9), on a virtual clock.

  scripts/bench shots [--only PART]... [--seeds N] [--jobs N] [--svg FOLDER] [--json]

Each process writes 384 checkpoints and reads them back. The planner of tiers/history decides as it would
for a real program; a transfer takes its share of the bandwidths that the paper names (tests/bench/shots).
No byte moves, so nothing here depends on the machine. Results are medians over seeds, with the least and
the greatest; a seed sets sizes and irregular orders. Beside a value stands what the paper's text says, if
it says anything. Exits with 1 if a bar is missed or if an invariant does not hold. Takes about ten minutes
of processor time.

Managed memory, with which the paper compares most, is a model of the driver's migrations
(tests/bench/shots/managed_engine.h).

Parts:
  orders       sizes, orders, hints and evictors, with a wait for flushes and without (figures 5, 6)
  distance     restore rate and prefetch distance by iteration (figure 7)
  interval     the time between checkpoints (figure 8a)
  cache        the size of the device cache (figure 8b)
  scale        1 to 32 GPUs, with a barrier and without (figure 9)
  model        other constants of the machine
  managed      other constants of managed memory

  --seeds N      (default 5)
  --jobs N       simulations at the same time (default: one for each processor)
  --svg FOLDER   writes shots-orders.svg and the like there
  --json         prints JSON instead of tables
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import simulated  # noqa: E402 (beside this file)
import svg  # noqa: E402
from simulated import spread  # noqa: E402

SIZES = ['uniform', 'variable']
ORDERS = ['sequential', 'reverse', 'irregular']
# Label: words of a configuration.
APPROACHES = {
    'score, none': 'approach=score hints=none',
    'score, single': 'approach=score hints=single',
    'score, all': 'approach=score hints=all',
    'as printed, all': 'approach=as-printed hints=all',
    'fifo, none': 'approach=fifo hints=none',
    'fifo, all': 'approach=fifo hints=all',
    'lru, all': 'approach=lru hints=all',
    'no device cache': 'approach=no-device',
    'managed, none': 'approach=managed hints=none',
    'managed, single': 'approach=managed hints=single',
    'managed, all': 'approach=managed hints=all',
}
HINTS = ['none', 'single', 'all']
OURS, PRINTED = 'score, all', 'as printed, all'
FIFO = ['fifo, none', 'fifo, all']
WITHOUT = 'no device cache'
SWEPT = ['score, none', OURS, 'fifo, all', WITHOUT, 'managed, none', 'managed, all']
HARDEST = 'sizes=variable order=irregular wait=0 discard=1'  # sections 5.4.5 and 5.4.6
INTERVALS = [5, 10, 20, 30, 40, 50]  # ms
CACHES = [1, 2, 4, 8]                # GiB
GPUS = [1, 2, 4, 8, 16, 32]
NODE = 8  # GPUs
# Variants of the constants that are not known for sure.
MODELS = {
    'as above': '',
    'drives as in section 5.4.2': 'drives=5.48e9',  # 685 MB/s for each of 8 processes
    'host memory 20 GB/s': 'host_memory=20e9',
    'host cache pinned before': 'pinning=0',
    'nothing is discarded': 'discard=0',
}
# The same of managed memory.
MANAGED_MODELS = {
    'as above': '',
    'faults at 2 GB/s': 'faults=2e9',
    'faults as fast as prefetches': 'faults=23e9',
    'migrations at 9 GB/s': 'migrations=9e9',
    'what was read is freed': 'moves_consumed=0',
    'flushes in the order of writes': 'flushes_by_hints=0',
    '4 blocks at a time': 'batch=4',
    '64 blocks at a time': 'batch=64',
    'drives as in section 5.4.2': 'drives=5.48e9',
    'files in memory, 40 GB/s': 'drives=40e9',
    'host pages mapped before': 'pinning=0',
}

# The deep tiers talk (slide 35): the best restore throughput, as a multiple of that of the
# "state-of-the-art solutions", which are ADIOS2 and FIFO there.
PUBLISHED_FIFO = {'sequential': 7.5, 'reverse': 8.7, 'irregular': 11.7}
PUBLISHED_WAIT = 2.0  # times less I/O wait at least (abstract)
# Times the rate of checkpoints and restores of managed memory: in the worst case, in the best one
# (sections 5.4.2 and 5.4.3). By wait and sizes.
PUBLISHED_MANAGED = {(1, 'uniform'): (2, 74), (1, 'variable'): (1.6, 52),
                     (0, 'uniform'): (1.8, 3.6), (0, 'variable'): (2.9, 22.8)}
PUBLISHED_UNHINTED = 2  # at least, with waits and without hints (section 5.4.2)
PUBLISHED_HARDEST = {'write_rate': 3.7, 'restore_rate': 38}  # section 5.4.3
PUBLISHED_CACHES = 2.6  # in the best case (section 5.4.5)
PUBLISHED_SCALE = 22.8  # in the best case, without hints (section 5.4.6)
PUBLISHED_SOURCES = (32, 256, 96)  # by arithmetic: what the caches hold, and the rest
DEVICE_SPEED_AT = 30  # ms (section 5.4.5)
MOSTLY = 0.95  # of the restores
STABLE = 0.8  # of the rate with one GPU (section 5.4.6)
NEARLY = 0.85  # of what is possible: a bound that takes restores of variable sizes for free
CLOSE = 0.95   # as good as, but for chance

# The machine as in tests/bench/shots/node.h, for bounds.
MIB, GIB = 2**20, 2**30
DEVICE, LINK, DRIVES, PINNING = 1e12, 25e9 / 2, 16e9 / 8, 4e9  # bytes a second of one process of 8
CHECKPOINTS, SIZE, DEVICE_CACHE, HOST_CACHE = 384, 128 * MIB, 4 * GIB, 32 * GIB
COMPUTE = CHECKPOINTS * 0.010  # seconds of a pass


class Simulator(simulated.Simulator):
    def __init__(self, build, jobs):
        super().__init__(build / 'tests' / 'bench' / 'shots' / 'shots', jobs)


def io_wait(result):
    return result['write_wait_s'] + result['restore_wait_s']


def total_rate(result):
    """Bytes written and read over the time for which processes were blocked, each its part."""
    return 2 * result['bytes'] / io_wait(result)


def both_rates(result):
    """The rate of checkpoints and that of restores, as the paper's figures stack them."""
    return result['write_rate'] + result['restore_rate']


def fault(result):
    """Returns what is wrong with a result; empty if nothing is."""
    gpus = result['gpus']
    if result['fault']:
        return result['fault']
    if result['failed'] or result['restored'] != gpus * result['checkpoints']:
        return 'not all checkpoints were written and restored'
    for cache in ('device', 'host'):
        if result[f'{cache}_peak'] > result[f'{cache}_cache']:
            return f'the {cache} cache holds more than it has room for'
    return ''


class Bench(simulated.Bench):
    def __init__(self, options):
        super().__init__(Simulator(options.build.resolve(), options.jobs), fault, options)

    # ---- Figures 5 and 6

    def orders(self):
        found = self.run({(wait, sizes, order, approach):
                          f'sizes={sizes} order={order} wait={wait} discard={1 - wait} {words}'
                          for wait in (1, 0) for sizes in SIZES for order in ORDERS
                          for approach, words in APPROACHES.items()})
        self.keep('orders', found)
        for wait in (1, 0):
            for sizes in SIZES:
                self.print_orders(found, wait, sizes)
        self.print_inside(found)
        self.judge_orders(found)
        self.drawings['orders'] = svg.figure([
            self.draw_orders(found, wait, sizes, what)
            for wait in (1, 0) for sizes in SIZES for what in ('restore_rate', 'write_rate')])

    def print_orders(self, found, wait, sizes):
        figure = '5' if wait else '6'
        after = 'after all is flushed' if wait else 'at once'
        for what, unit, factor in (('restore_rate', 'restore, GB/s', 1e9),
                                   ('restore_wait_s', 'waiting for restores, s', 1),
                                   ('write_rate', 'checkpoint, GB/s', 1e9)):
            self.table(f'Figure {figure}, {sizes} sizes, restores {after}: {unit}',
                       list(APPROACHES), ORDERS,
                       lambda approach, order, what=what, factor=factor:
                       spread(found[wait, sizes, order, approach], what, factor))
        if sizes == 'uniform':
            shot = CHECKPOINTS * SIZE
            self.say(f'least possible: waiting for restores {least_restore_wait(sizes, shot):.2f} s, '
                     f'for checkpoints {least_write_wait(shot):.2f} s')

    def print_inside(self, found):
        """Prints the predictor's error: the time that it expected when a copy had arrived, against
        the time until the copy was flushed or consumed (median of the relative errors). Also prints
        how full the caches were."""
        columns = {'flush, error': ('flush_error', 1), 'restore, error': ('restore_error', 1),
                   'device cache, GiB': ('device_peak', GIB), 'host cache, GiB': ('host_peak', GIB)}
        rows = {f'{sizes}, {order}, {"after flushes" if wait else "at once"}': (wait, sizes, order)
                for wait in (1, 0) for sizes in SIZES for order in ORDERS}
        self.table(f'Predictor and caches, {OURS} hints', list(rows), list(columns),
                   lambda row, column: spread(found[(*rows[row], OURS)], *columns[column]))

    def judge_orders(self, found):
        sources = [tuple(round(r[f'from_{m}']) for m in ('device', 'host', 'drives'))
                   for r in found[1, 'uniform', 'reverse', OURS].results]
        self.bar('restores from device, host, drives (uniform, reverse, with wait)',
                 '32, 256, 96 by arithmetic', ', '.join(map(str, sources[0])),
                 all(s == PUBLISHED_SOURCES for s in sources))
        for order in ORDERS:
            ratios = {(wait, sizes): self.over_fifo(found, wait, sizes, order)
                      for wait in (1, 0) for sizes in SIZES}
            best = max(ratios, key=ratios.get)
            self.bar(f'best restore throughput over FIFO, {order}', f'{PUBLISHED_FIFO[order]}x',
                     f'{ratios[best]:.1f}x', ratios[best] >= PUBLISHED_FIFO[order],
                     f'{best[1]}, {"with" if best[0] else "without"} wait; others ' + ', '.join(
                         f'{r:.1f}x' for label, r in ratios.items() if label != best))
            uniform = [ratios[wait, 'uniform'] for wait in (1, 0)]
            self.bar(f'never slower than FIFO, {order}', '-', f'{min(ratios.values()):.1f}x',
                     min(ratios.values()) >= 1, f'uniform: {uniform[0]:.1f}x, {uniform[1]:.1f}x')
        self.judge_wait(found)
        self.judge_printed(found)
        self.judge_managed(found)

    @staticmethod
    def over_fifo(found, wait, sizes, order):
        """Beside the better one of FIFO with and without hints."""
        fifo = min(found[wait, sizes, order, label].median('restore_wait_s') for label in FIFO)
        return fifo / found[wait, sizes, order, OURS].median('restore_wait_s')

    def judge_wait(self, found):
        ratios, possible = {}, {}
        for wait in (1, 0):
            for sizes in SIZES:
                for order in ORDERS:
                    ours = found[wait, sizes, order, OURS]
                    without = found[wait, sizes, order, WITHOUT].median(io_wait)
                    ratios[wait, sizes, order] = without / ours.median(io_wait)
                    possible[wait, sizes, order] = without / least_wait(sizes, ours.median('bytes'))
        less = [f'{sizes} {order} {"with" if wait else "without"} wait: {ratio:.2f}x of possible '
                f'{possible[wait, sizes, order]:.2f}x'
                for (wait, sizes, order), ratio in ratios.items() if ratio < PUBLISHED_WAIT]
        self.bar(f'I/O wait without a device cache, beside ours: {PUBLISHED_WAIT:g}x, or '
                 f'{NEARLY:g} of what is possible', 'at least 2x',
                 f'{min(ratios.values()):.2f}x to {max(ratios.values()):.2f}x',
                 all(ratio >= min(PUBLISHED_WAIT, NEARLY * possible[label])
                     for label, ratio in ratios.items()), '; '.join(less))
        near = max(found[wait, 'uniform', order, OURS].median(io_wait)
                   for wait in (1, 0) for order in ORDERS) / least_wait('uniform', CHECKPOINTS * SIZE)
        self.bar('I/O wait beside the least possible, uniform sizes', '-', f'{near:.2f}x',
                 near <= 1.1)

    def judge_printed(self, found):
        waits = {label: found[label[:3] + (PRINTED,)].median(io_wait) / seeds.median(io_wait)
                 for label, seeds in found.items() if label[3] == OURS}
        for sizes in SIZES:
            ratios = [w for label, w in waits.items() if label[1] == sizes]
            self.bar(f'I/O wait as printed beside ours, {sizes}', '-',
                     f'{min(ratios):.2f}x to {max(ratios):.2f}x', min(ratios) >= CLOSE)

    def judge_managed(self, found):
        """With the same hints on both sides."""
        rows = {f'{sizes}, {order}, {"after flushes" if wait else "at once"}': (wait, sizes, order)
                for wait in (1, 0) for sizes in SIZES for order in ORDERS}
        for what, title in ((io_wait, 'I/O wait of managed memory beside that of score'),
                            ('restore_wait_s', 'The same, of restores alone')):
            self.table(f'{title}, same hints', list(rows), HINTS, lambda row, hints, what=what:
                       f'{1 / self.ratio(found, rows[row], hints, what):.2f}x')
        for (wait, sizes), (worst, best) in PUBLISHED_MANAGED.items():
            ratios, possible = {}, {}
            for order in ORDERS:
                for hints in HINTS:
                    label = (wait, sizes, order)
                    _, managed = self.beside_managed(found, label, hints)
                    ratios[order, hints] = self.ratio(found, label, hints, both_rates)
                    possible[order, hints] = (most_both(sizes, managed.median('bytes')) /
                                              managed.median(both_rates))
            self.judge_ratios(f'{sizes} sizes, restores {"after flushes" if wait else "at once"}',
                              ratios, possible, worst, best)
            self.say(f'rates of {OURS} over managed, none; {sizes}, wait {wait}: ' + ', '.join(
                f'{order} {found[wait, sizes, order, OURS].median(both_rates) / rate:.2f}x'
                for order in ORDERS
                for rate in [found[wait, sizes, order, "managed, none"].median(both_rates)]))
        unhinted = [self.ratio(found, (1, sizes, order), 'none', both_rates)
                    for sizes in SIZES for order in ORDERS]
        self.bar('rates over managed memory, restores after flushes, no hints',
                 f'at least {PUBLISHED_UNHINTED}x', f'{min(unhinted):.2f}x to {max(unhinted):.2f}x',
                 min(unhinted) >= PUBLISHED_UNHINTED)
        for what, published in PUBLISHED_HARDEST.items():
            ratios = {hints: self.ratio(found, (0, 'variable', 'irregular'), hints, what)
                      for hints in HINTS}
            self.bar(f'{what.split("_")[0]} rate over managed memory, variable, irregular, at once',
                     f'{published}x', f'{max(ratios.values()):.2f}x',
                     max(ratios.values()) >= published,
                     ', '.join(f'{hints} {ratio:.2f}x' for hints, ratio in ratios.items()))

    def ratio(self, found, label, hints, what):
        """Ours beside managed memory, with the same hints."""
        ours, managed = self.beside_managed(found, label, hints)
        return ours.median(what) / managed.median(what)

    @staticmethod
    def beside_managed(found, label, hints):
        return found[(*label, f'score, {hints}')], found[(*label, f'managed, {hints}')]

    def judge_ratios(self, title, ratios, possible, worst, best):
        low, high = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        most = max(possible.values())
        self.bar(f'rates over managed memory, {title}, worst case: {worst:g}x, or {NEARLY:g} of what '
                 'is possible', f'{worst:g}x', f'{ratios[low]:.2f}x ({", ".join(low)})',
                 all(ratio >= min(worst, NEARLY * possible[label])
                     for label, ratio in ratios.items()),
                 '; '.join(f'{", ".join(label)} {ratio:.2f}x of {possible[label]:.2f}x'
                           for label, ratio in ratios.items() if ratio < worst))
        self.bar(f'rates over managed memory, {title}, best case: {best:g}x, or {NEARLY:g} of what is '
                 'possible', f'{best:g}x', f'{ratios[high]:.2f}x ({", ".join(high)})',
                 ratios[high] >= min(best, NEARLY * most), f'possible: {most:.2f}x')

    def draw_orders(self, found, wait, sizes, what):
        title = (f'{"Restore" if what == "restore_rate" else "Checkpoint"} throughput, {sizes} sizes, '
                 f'restores {"after all is flushed" if wait else "at once"} '
                 f'(figure {"5" if wait else "6"})')
        return svg.Panel(title, 'GB/s, log', width=1280, logarithmic=True).bars(
            ORDERS, list(APPROACHES),
            [[found[wait, sizes, order, a].median(what) / 1e9 for a in APPROACHES]
             for order in ORDERS])

    # ---- Figure 7

    def distance(self):
        labels = [f'{approach}, {hints}' for approach in ('score', 'managed') for hints in HINTS]
        found = self.run({(label,): 'sizes=uniform order=sequential wait=0 discard=1 iterations=1 '
                          + APPROACHES[label] for label in labels})
        self.keep('distance', found)
        first = {label: found[label,].results[0] for label in labels}
        at = [0, 16, 32, 64, 96, 128, 192, 256, 320, 383]
        for what, unit, factor in (('rates', 'restore, GB/s', 1e9),
                                   ('distances', 'checkpoints prefetched in advance', 1)):
            self.table(f'Figure 7, uniform sizes, sequential, at once: {unit}', at, labels,
                       lambda i, label, what=what, factor=factor:
                       f'{first[label][what][i] / factor:.1f}')
        self.say('published: about 6.3 GB/s with a single hint; a distance of up to 4 (text) or 32 '
                 '(what the cache holds)')
        panels = [svg.Panel(f'{title} by iteration, sequential (figure 7)', unit,
                            logarithmic=what == 'rates').lines(
                                labels, [[(i, v / factor) for i, v in enumerate(first[l][what])]
                                         for l in labels], 'iterations')
                  for title, what, unit, factor in
                  (('Restore rate', 'rates', 'GB/s, log', 1e9),
                   ('Prefetch distance', 'distances', 'checkpoints', 1))]
        self.drawings['distance'] = svg.figure(panels)

    # ---- Figure 8

    def sweep(self, part, title, key, points, factor):
        found = self.run({(label, point): f'{HARDEST} {key}={point * factor} {APPROACHES[label]}'
                          for label in SWEPT for point in points})
        self.keep(part, found)
        for what, unit, by in (('restore_rate', 'restore, GB/s', 1e9),
                               ('write_rate', 'checkpoint, GB/s', 1e9), (io_wait, 'I/O wait, s', 1)):
            self.table(f'{title}: {unit}', points, SWEPT,
                       lambda point, label, what=what, by=by: spread(found[label, point], what, by))
        self.drawings[part] = svg.figure([
            svg.Panel(f'{title}: {name}', 'GB/s, log', logarithmic=True).bars(
                points, SWEPT, [[found[label, point].median(what) / 1e9 for label in SWEPT]
                                for point in points])
            for name, what in (('restore', 'restore_rate'), ('checkpoint', 'write_rate'))])
        return found

    def interval(self):
        found = self.sweep('interval', 'Figure 8a, variable sizes, irregular, by interval in ms',
                           'interval_ms', INTERVALS, 1)
        part = {i: found[OURS, i].median('at_device_speed') for i in INTERVALS}
        self.say('part of the restores at the speed of the device: ' +
                 ', '.join(f'{i} ms {p:.2f}' for i, p in part.items()))
        self.bar(f'restores at the speed of the device, {DEVICE_SPEED_AT} ms',
                 'peak reached', f'{part[DEVICE_SPEED_AT]:.2f} of them',
                 part[DEVICE_SPEED_AT] >= MOSTLY)

    def cache(self):
        found = self.sweep('cache', 'Figure 8b, variable sizes, irregular, by device cache in GiB',
                           'device_cache_mib', CACHES, 1024)
        ratios = [found[WITHOUT, c].median(io_wait) / found[OURS, c].median(io_wait) for c in CACHES]
        self.say('I/O wait without a device cache, beside ours: ' +
                 ', '.join(f'{c} GiB {r:.1f}x' for c, r in zip(CACHES, ratios)))
        self.judge_best('device caches of 1 to 8 GiB', PUBLISHED_CACHES,
                        {f'{hints} {c} GiB': [found[f'{approach}, {hints}', c]
                                              for approach in ('score', 'managed')]
                         for hints in ('none', 'all') for c in CACHES})

    def judge_best(self, title, published, pairs):
        ratios = {label: ours.median(both_rates) / managed.median(both_rates)
                  for label, (ours, managed) in pairs.items()}
        self.bar(f'rates over managed memory, {title}, best case', f'{published:g}x',
                 f'{max(ratios.values()):.2f}x', max(ratios.values()) >= published,
                 ', '.join(f'{label} {ratio:.2f}x' for label, ratio in ratios.items()))

    # ---- Figure 9

    def scale(self):
        found = self.run({(barrier, label, gpus):
                          f'{HARDEST} barrier={barrier} gpus={gpus} {APPROACHES[label]}'
                          for barrier in (1, 0) for label in SWEPT for gpus in GPUS})
        self.keep('scale', found)
        for barrier in (1, 0):
            title = f'Figure 9, {"a barrier at each iteration" if barrier else "no barrier"}, GPUs'
            for what, unit in ((total_rate, 'both, GB/s of a process'), ('restore_rate', 'restore, GB/s'),
                               ('write_rate', 'checkpoint, GB/s')):
                self.table(f'{title}: {unit}', GPUS, SWEPT,
                           lambda gpus, label, what=what, barrier=barrier:
                           spread(found[barrier, label, gpus], what, 1e9))
            self.judge_scale(found, barrier)
        self.judge_best('1 to 32 GPUs, no hints, with a barrier (b) or none', PUBLISHED_SCALE,
                        {f'{gpus}{"b" if barrier else ""}': [found[barrier, label, gpus] for label in
                                                             ('score, none', 'managed, none')]
                         for barrier in (1, 0) for gpus in GPUS})
        self.drawings['scale'] = svg.figure([
            svg.Panel(f'Throughput of a process, both ways, by GPUs (figure 9, '
                      f'{"barrier" if barrier else "no barrier"})', 'GB/s, log',
                      logarithmic=True).bars(
                GPUS, SWEPT, [[found[barrier, label, gpus].median(total_rate) / 1e9 for label in SWEPT]
                              for gpus in GPUS]) for barrier in (1, 0)])

    def judge_scale(self, found, barrier):
        rates = {gpus: found[barrier, OURS, gpus].median(total_rate) for gpus in GPUS}
        least = min(rates, key=rates.get)
        self.bar(f'least rate of a process beside that with one GPU, {"" if barrier else "no "}barrier',
                 'within 20%', f'{rates[least] / rates[1]:.2f} ({least} GPUs)',
                 rates[least] >= STABLE * rates[1],
                 f'greatest: {max(rates.values()) / rates[1]:.2f}')
        whole = [rate for gpus, rate in rates.items() if gpus >= NODE]
        if not barrier:
            self.bar('the same, least of full nodes beside the greatest', 'within 20%',
                     f'{min(whole) / max(whole):.2f}', min(whole) / max(whole) >= STABLE)

    # ---- Other constants

    def model(self):
        labels = [OURS, 'fifo, none', 'fifo, all', WITHOUT]
        for words, title in ((HARDEST, 'variable sizes, irregular, at once'),
                             ('sizes=uniform order=sequential wait=0 discard=1',
                              'uniform sizes, sequential, at once')):
            found = self.run({(title, model, label): f'{words} {APPROACHES[label]} {more}'.rstrip()
                              for model, more in MODELS.items() for label in labels})
            self.keep(f'model, {title}', found)
            for what, unit in (('restore_wait_s', 'waiting for restores, s'),
                               ('write_wait_s', 'waiting for checkpoints, s')):
                self.table(f'Other constants, {title}: {unit}', list(MODELS), labels,
                           lambda model, label, what=what, title=title:
                           spread(found[title, model, label], what, 1))

    def managed(self):
        columns = [f'managed, {hints}' for hints in HINTS]
        for words, title in ((HARDEST, 'variable sizes, irregular, at once'),
                             ('sizes=uniform order=sequential wait=1 discard=0',
                              'uniform sizes, sequential, after flushes')):
            found = self.run({(title, model, label): f'{words} {APPROACHES[label]} {more}'.rstrip()
                              for model, more in MANAGED_MODELS.items()
                              for label in APPROACHES if label.split(',')[0] in ('managed', 'score')})
            self.keep(f'managed, {title}', found)
            for what, unit in (('restore_wait_s', 'waiting for restores, s'),
                               ('write_wait_s', 'waiting for checkpoints, s')):
                self.table(f'Managed memory, {title}: {unit}', list(MANAGED_MODELS), columns,
                           lambda model, label, what=what, title=title:
                           spread(found[title, model, label], what))
            self.table(f'Managed memory, {title}: rates of score with the same hints over it',
                       list(MANAGED_MODELS), HINTS,
                       lambda model, hints, title=title:
                       f'{self.ratio(found, (title, model), hints, both_rates):.2f}x')


def least_restore_wait(sizes, shot):
    """Seconds, of a process of eight: what the caches cannot hold comes from the drives meanwhile. With
    variable sizes, processes differ in it, and one leaves its part of the drives to the others."""
    from_drives = max(shot - DEVICE_CACHE - HOST_CACHE, 0) if sizes == 'uniform' else 0
    return max(from_drives / DRIVES - COMPUTE, 0) + shot / DEVICE


def least_write_wait(shot):
    """Seconds, of a process of eight: by the end of the pass, all but what the device cache holds has left
    the device, first as fast as the host cache is pinned, then as fast as the link is."""
    leaves = shot - DEVICE_CACHE
    return HOST_CACHE / PINNING + (leaves - HOST_CACHE) / LINK - COMPUTE


def least_wait(sizes, shot):
    return least_restore_wait(sizes, shot) + least_write_wait(shot)


def most_both(sizes, shot):
    """The greatest that both rates can be together, in bytes per second."""
    return shot / least_restore_wait(sizes, shot) + shot / least_write_wait(shot)


PARTS = ['orders', 'distance', 'interval', 'cache', 'scale', 'model', 'managed']


if __name__ == '__main__':
    sys.exit(simulated.run('shots', Bench, PARTS, simulated.read_options(__doc__, PARTS)))
