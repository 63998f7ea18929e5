#!/usr/bin/env python3
"""Simulates the evaluation of the VeloC paper (figures 3 to 8), on a virtual clock.

  scripts/bench comparison [--only PART]... [--seeds N] [--jobs N] [--svg FOLDER] [--json] [--small]

Writers of a node hand over chunks of 64 MiB to a cache in memory or to an SSD, from where they are flushed
to a store that nodes share (tests/bench/comparison). The production code of tiers/placement decides where a
chunk goes. No byte moves, so nothing here depends on the machine. Results are medians over seeds, with the
least and the greatest; a seed sets how much of the store other jobs leave. The local phase ends when the
last byte is on its tier, the flush completion when the last byte is in the store.

cache-only is the ideal: room for all chunks, and as many flushes as the store is best at. ssd-only is judged
by the faster of two ways: as many writers at the same time as there are, or two slots of staging.

Bars are judged with flushes as gpusnapd makes them with GPUSNAP_FLUSHES=auto: its own code says how many and
which (tiers/placement/flush_control.h, tiers/backend/flush_order.h). Other settings are printed beside it. Beside a value stands what the paper's
text says. Exits with 1 if a bar is missed or if an invariant does not hold. Takes about three minutes on two
processors.

Parts:
  figure3      the model of the SSD
  figure4      weak scaling on a node: 64 to 256 writers with 256 MiB each
  figure5      strong scaling on a node: 1 to 256 writers with 64 GiB together
  figure6      the size of the cache, with 16 and with 64 writers
  figure7      64 to 256 nodes
  figure8      a program that computes between checkpoints
  ratios       stores of 0.5 to 10 times the SSD's throughput, 16 to 256 writers
  stores       stores that are best at 1, 4, 16 and 64 files
  constants    what is least certain of the machine, one at a time

  --seeds N      (default 5)
  --jobs N       simulations at the same time (default: one for each processor)
  --svg FOLDER   writes comparison-figure4.svg and the like there
  --json         prints JSON instead of tables
  --small        fewer writers, nodes and sizes: seconds
  --ours POLICY  judges another policy than hybrid-opt, to see that bars can be missed
"""

import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import simulated  # noqa: E402 (beside this file)
import svg  # noqa: E402
from simulated import spread  # noqa: E402

IDEAL, SSD, STAGED, SAME, NAIVE, OURS = ('cache-only', 'ssd-only', 'ssd-only, 2 slots',
                                         'the same cache', 'hybrid-naive', 'hybrid-opt')
# Label: words of a configuration.
APPROACHES = {
    IDEAL: 'approach=ideal',
    SSD: 'approach=ssd-only',
    STAGED: 'approach=ssd-only staging_slots=2',
    SAME: 'approach=cache-only',
    NAIVE: 'approach=hybrid-naive',
    OURS: 'approach=hybrid-opt',
}
BOTH = [NAIVE, OURS]
JUDGED = 'gpusnapd'
SETTINGS = {
    '4, in order': 'flushes=4',
    '4, cache first': 'flushes=4 order=cache-first',
    'adaptive, waits count': 'flushes=auto order=cache-first',
    'adaptive, cache first': 'flushes=auto order=cache-first waits=0',
    'one for each chunk': 'flushes=each',
    JUDGED: 'flushes=product order=product waits=0',
}
SYNCHRONOUS = 'synchronous'

# Checkpoints before the one that is measured, so that a backend knows the store. It may know it from an
# earlier backend (tiers/placement/flush_record.h). All begin at a set time, so that all approaches meet
# the same interference.
WARM = 'checkpoints=6 period_s=3600'
COLD = 'checkpoints=1 period_s=3600'
TOTAL = 1024          # chunks: 64 GiB
CACHES = [2, 4, 6, 8]  # GiB
RATIOS = [0.5, 1, 2, 3.5, 5, 10]
SSD_PEAK = 700e6
BEST_FILES = [1, 4, 16, 64]
# Nodes, chunks of a writer (10 are 5 GiB on a node, 22 are 11 GiB), and in the paper, how many times less
# the run time increases than with GenericIO, which is synchronous (ssd-only at 8 nodes: "slightly").
PROGRAMS = {'8 nodes, 5 GiB': (8, 10, {SSD: 1, NAIVE: 2.9, OURS: 3.3}),
            '128 nodes, 11 GiB': (128, 22, {SSD: 2, NAIVE: 5.5, OURS: 9.4, IDEAL: 11})}
COMPUTE_S = 10  # of each of the three phases between checkpoints
CONSTANTS = {
    'as above': WARM,
    'the first checkpoint': COLD,
    'nobody interferes': f'{WARM} store_left=1',
    'others leave 0.1 to 1': f'{WARM} store_left=0.1',
    'reads of the SSD cost nothing': f'{WARM} read_weight=0',
    'one writer to memory 2.5 GB/s': f'{WARM} memory_of_one=2.5e9',
    'SSD as fast with few writers': f'{WARM} ssd_rise=0',
    'SSD as fast with many writers': f'{WARM} ssd_decline=0',
    'store falls beyond 16 files': f'{WARM} store_decline=0.012',
    'store best at 32 files': f'{WARM} store_files=32',
    'node writes 2.1 GB/s': f'{WARM} store=2.1e9',
    'node writes 4.1 GB/s': f'{WARM} store=4.1e9',
}

# Bars, as published or as aimed at.
LESS_LOCAL = 0.40        # figure 4: up to 40% (section V.D)
COMPLETE_NAIVE = 2.0     # figure 4
COMPLETE_SSD = 2.5       # figure 4
NEAR_IDEAL = 1.10        # figure 4: "very close to cache-only"
LESS_STRONG = 0.15       # figure 5: 15% to 60%
LESS_16 = 0.25           # figure 6(a): at least, regardless of the size
MORE_64 = 2.0            # figure 6(b): more than, with 2 and 4 GB
SMALL_CACHES = [2, 4]    # GiB
MORE_NODES = 1.5         # figure 7: up to
MORE_SYNCHRONOUS = 3.0   # figure 8
PAYS = 0.95              # of the local phase with the same cache and no SSD
PUBLISHED_16 = {2: 0.38}  # less local time than naive with 16 writers: figure 5, the optimum


class Simulator(simulated.Simulator):
    def __init__(self, build, jobs):
        super().__init__(build / 'tests' / 'bench' / 'comparison' / 'comparison', jobs)


def fault(result):
    """The faults of a result; empty if there is none."""
    return result['wrong']


class Sizes:
    """The extent of the simulation: all, or enough to see in seconds what has broken."""

    def __init__(self, small):
        self.weak = [64, 256] if small else [64, 128, 192, 256]
        self.strong = [4, 64, 256] if small else [1, 2, 4, 8, 16, 32, 64, 128, 256]
        self.caches = SMALL_CACHES if small else CACHES
        self.nodes = [2, 4] if small else [64, 128, 192, 256]
        # The cache is that of the small one, so that it is as scarce for a node.
        self.store_total = ' store_total=7.5e9' if small else ''
        self.ratio_writers = [64] if small else [16, 64, 256]
        self.programs = {k: v for k, v in PROGRAMS.items() if not small or v[0] == 8}
        self.settings = [JUDGED] if small else list(SETTINGS)


def reduction(found, baseline, ours):
    """How much less the local phase is."""
    return 1 - found[ours].median('local_s') / found[baseline].median('local_s')


class Bench(simulated.Bench):
    def __init__(self, options):
        super().__init__(Simulator(options.build.resolve(), options.jobs), fault, options)
        self.sizes = Sizes(options.small)
        self.approaches = {**APPROACHES, OURS: f'approach={options.ours}'}
        self.setting = JUDGED  # that is judged now
        self.judged = {}         # by setting and bar

    def bar(self, name, published, value, met, note=''):
        self.judged[self.setting, name] = f'{value}{"" if met else " missed"}'
        if self.setting == JUDGED:
            super().bar(name, published, value, met, note)

    def judge_all(self, judge, found):
        """Prints bars by setting. Only those of one count."""
        before = set(self.judged)
        for self.setting in found:
            judge(found[self.setting])
        names = dict.fromkeys(name for key, name in self.judged if (key, name) not in before)
        self.summary.setdefault('bars by flushes', {}).update({
            name: {setting: self.judged[setting, name] for setting in found} for name in names})
        self.table('Bars by flushes', list(names), list(found),
                   lambda name, setting: self.judged[setting, name])

    def settings(self, part, groups, approaches, warm=WARM):
        """groups: label -> words. setting -> group -> approach -> Seeds."""
        found = self.run({(setting, group, approach):
                          f'{words} {warm} {SETTINGS[setting]} {self.approaches[approach]}'
                          for setting in self.sizes.settings for group, words in groups.items()
                          for approach in approaches})
        self.keep(part, found)
        return {setting: {group: {approach: found[setting, group, approach]
                                  for approach in approaches} for group in groups}
                for setting in self.sizes.settings}

    def print_groups(self, title, found, what='local_s', approaches=None):
        groups = list(found[JUDGED])
        approaches = approaches or list(found[JUDGED][groups[0]])
        self.table(f'{title}, {JUDGED}', groups, approaches,
                   lambda group, approach: spread(found[JUDGED][group][approach], what))

    def print_settings(self, title, found, what='local_s'):
        """hybrid-opt beside hybrid-naive, by setting."""
        groups = list(found[JUDGED])
        self.table(f'{title}, naive / opt by flushes', groups, list(found),
                   lambda group, setting: ' / '.join(
                       f'{found[setting][group][a].median(what):.3g}' for a in BOTH))

    def draw_groups(self, title, unit, found, what, approaches, logarithmic=True):
        each = found[JUDGED]
        return svg.Panel(title, unit, logarithmic=logarithmic).bars(
            list(each), approaches,
            [[each[g][a].median(what) for a in approaches] for g in each],
            [[(min(each[g][a].values(what)), max(each[g][a].values(what))) for a in approaches]
             for g in each])

    def draw_reductions(self, title, found, published):
        """By group and setting. published: by group, or for all."""
        settings = list(found)
        groups = list(found[JUDGED])
        return svg.Panel(title, '% less', height=260).bars(
            groups, settings,
            [[100 * max(reduction(found[s][g], NAIVE, OURS), 0) for s in settings] for g in groups],
            marks=[100 * published[g] if g in published else None for g in groups])

    # ---- Figure 3

    def figure3(self):
        result, = self.run({('model',): 'writers=180 chunks=1 model=1'})['model',].results[:1]
        self.summary['figure3'] = {k: result[k] for k in result if k.startswith('model_')}
        self.say(f'\nFigure 3: the model of the SSD is off by {result["model_error_mean"]:.1%} on '
                 f'average, {result["model_error_most"]:.1%} at most (with '
                 f'{result["model_error_most_at"]} writers), of the assumed curve')
        lines = [[(i + 1, rate / 1e6) for i, rate in enumerate(result[key])]
                 for key in ('ssd_rates', 'ssd_predicted')]
        self.drawings['figure3'] = svg.figure([svg.Panel(
            'Throughput of the SSD by writers (figure 3): assumed, not measured', 'MB/s').lines(
                ['assumed', 'B-spline through the samples'], lines, 'writers')])

    # ---- Figure 4

    def figure4(self):
        groups = {f'{w} writers': f'writers={w} chunks=4' for w in self.sizes.weak}
        found = self.settings('figure4', groups, list(APPROACHES))
        for title, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s'),
                            ('chunks on the SSD', 'ssd_chunks')):
            self.print_groups(f'Figure 4: {title}', found, what)
            self.print_settings(f'Figure 4: {title}', found, what)
        self.judge_all(self.judge_figure4, found)
        shown = [a for a in APPROACHES if a != SAME]
        self.drawings['figure4'] = svg.figure([
            self.draw_groups('Local phase, 256 MiB for each writer (figure 4a)', 's, log', found,
                             'local_s', shown),
            self.draw_groups('Flush completion (figure 4b)', 's, log', found, 'complete_s', shown),
            self.draw_groups('Chunks on the SSD (figure 4c)', 'chunks, log', found, 'ssd_chunks',
                             [SSD, NAIVE, OURS]),
            self.draw_reductions('Local phase of hybrid-opt beside hybrid-naive, by flushes '
                                 '(published: up to 40%)', found,
                                 {g: LESS_LOCAL for g in found[JUDGED]})])

    def judge_figure4(self, found):
        less = {g: reduction(each, NAIVE, OURS) for g, each in found.items()}
        self.bar('4a: local phase under hybrid-naive, least', 'up to 40%', percent(min(less.values())),
                 min(less.values()) >= LESS_LOCAL, listed(less, percent))
        beside = {name: {g: complete(each, baseline) for g, each in found.items()}
                  for name, baseline in ((NAIVE, [NAIVE]), ('ssd-only', [SSD, STAGED]))}
        for name, least in ((NAIVE, COMPLETE_NAIVE), ('ssd-only', COMPLETE_SSD)):
            value = min(beside[name].values())
            self.bar(f'4b: flush completion over {name}, least', f'{least:g}x', times(value),
                     value >= least, listed(beside[name], times))
        near = {g: each[OURS].median('complete_s') / each[IDEAL].median('complete_s')
                for g, each in found.items()}
        self.bar(f'4b: flush completion beside the ideal, most ({NEAR_IDEAL:g})', 'very close',
                 f'{max(near.values()):.2f}', max(near.values()) <= NEAR_IDEAL)

    # ---- Figure 5

    def figure5(self):
        groups = {w: f'writers={w} chunks={TOTAL // w}' for w in self.sizes.strong}
        found = self.settings('figure5', groups, list(APPROACHES))
        for title, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s')):
            self.print_groups(f'Figure 5, by writers: {title}', found, what)
            self.print_settings(f'Figure 5, by writers: {title}', found, what)
        self.judge_all(self.judge_figure5, found)
        self.drawings['figure5'] = svg.figure([
            self.draw_groups('Local phase by writers, 64 GiB together (figure 5)', 's, log', found,
                             'local_s', [IDEAL, SSD, STAGED, NAIVE, OURS]),
            self.draw_reductions('Local phase of hybrid-opt beside hybrid-naive, by flushes '
                                 '(published: 15% to 60%, 38% with 16 writers)', found,
                                 {w: PUBLISHED_16[2] if w == 16 else LESS_STRONG
                                  for w in groups})])

    def judge_figure5(self, found):
        less = {w: reduction(each, NAIVE, OURS) for w, each in found.items()}
        self.bar('5: local phase under hybrid-naive, least', '15% to 60%', percent(min(less.values())),
                 min(less.values()) >= LESS_STRONG, listed(less, percent))

    # ---- Figure 6

    def figure6(self):
        panels = []
        for part, writers, judge in (('6a', 16, self.judge_figure6a),
                                     ('6b', 64, self.judge_figure6b)):
            groups = {f'{c} GiB': f'writers={writers} chunks={TOTAL // writers} cache_chunks={16 * c}'
                      for c in self.sizes.caches}
            found = self.settings(f'figure{part}', groups, list(APPROACHES))
            for title, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s')):
                self.print_groups(f'Figure {part}, {writers} writers: {title}', found, what)
                self.print_settings(f'Figure {part}, {writers} writers: {title}', found, what)
            self.judge_all(judge, found)
            published = {g: LESS_16 if part == '6a' else 1 - 1 / MORE_64 for g in groups
                         if part == '6a' or int(g.split()[0]) in SMALL_CACHES}
            panels += [
                self.draw_groups(f'Local phase by the size of the cache, {writers} writers (figure '
                                 f'{part})', 's, log', found, 'local_s',
                                 [IDEAL, SSD, STAGED, NAIVE, OURS]),
                self.draw_reductions(f'Local phase of hybrid-opt beside hybrid-naive, {writers} '
                                     'writers, by flushes', found, published)]
        self.drawings['figure6'] = svg.figure(panels)

    def judge_figure6a(self, found):
        less = {g: reduction(each, NAIVE, OURS) for g, each in found.items()}
        self.bar('6a: local phase under hybrid-naive, least', 'at least 25%',
                 percent(min(less.values())), min(less.values()) >= LESS_16, listed(less, percent))

    def judge_figure6b(self, found):
        more = {g: each[NAIVE].median('local_s') / each[OURS].median('local_s')
                for g, each in found.items()}
        small = min(more[f'{c} GiB'] for c in SMALL_CACHES)
        self.bar('6b: local phase over hybrid-naive, 2 and 4 GiB', 'more than 2x', times(small),
                 small > MORE_64, listed(more, times))

    # ---- Figure 7

    def figure7(self):
        groups = {f'{n} nodes': f'nodes={n} writers=16 chunks=32{self.sizes.store_total}'
                  for n in self.sizes.nodes}
        found = self.settings('figure7', groups, [IDEAL, SSD, NAIVE, OURS])
        for title, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s')):
            self.print_groups(f'Figure 7, 32 GiB on each node: {title}', found, what)
            self.print_settings(f'Figure 7: {title}', found, what)
        self.judge_all(self.judge_figure7, found)
        shown = [IDEAL, SSD, NAIVE, OURS]
        self.drawings['figure7'] = svg.figure([
            self.draw_groups('Local phase by nodes that share the store (figure 7a)', 's, log', found,
                             'local_s', shown),
            self.draw_groups('Flush completion (figure 7b)', 's, log', found, 'complete_s', shown),
            self.draw_reductions('Local phase of hybrid-opt beside hybrid-naive, by flushes '
                                 '(published: up to 1.5x, that is 33%)', found,
                                 {g: 1 - 1 / MORE_NODES for g in groups})])

    def judge_figure7(self, found):
        more = {g: each[NAIVE].median('local_s') / each[OURS].median('local_s')
                for g, each in found.items()}
        self.bar('7: local phase over hybrid-naive, best', 'up to 1.5x', times(max(more.values())),
                 max(more.values()) >= MORE_NODES, listed(more, times))
        self.bar('7: local phase over hybrid-naive, least', 'a steady advantage',
                 times(min(more.values())), min(more.values()) >= 1)

    # ---- Figure 8

    def figure8(self):
        program = (f'checkpoints=19 warm_up=16 compute_s={3 * COMPUTE_S} '
                   f'compute_after_s={2 * COMPUTE_S} slowdown=0.05')
        groups = {name: f'nodes={nodes} writers=8 chunks={chunks}'
                  for name, (nodes, chunks, _) in self.sizes.programs.items()}
        self.approaches[SYNCHRONOUS] = 'approach=synchronous'
        approaches = [SYNCHRONOUS, SSD, NAIVE, OURS, IDEAL]
        found = self.settings('figure8', groups, approaches, warm=program)
        what = 'increase_s'
        self.print_groups('Figure 8: increase of the run time by 3 checkpoints, s', found, what)
        self.print_settings('Figure 8: the same', found, what)
        self.judge_all(self.judge_figure8, found)
        each = found[JUDGED]
        panels = [self.draw_groups('Increase of the run time by 3 checkpoints (figure 8)', 's, log',
                                   found, what, approaches)]
        panels += [svg.Panel(f'How many times less than synchronous, {name} (published: than '
                             'GenericIO)', 'times', height=240).bars(
            approaches[1:], ['simulated'],
            [[each[name][SYNCHRONOUS].median(what) / each[name][a].median(what)]
             for a in approaches[1:]],
            marks=[self.sizes.programs[name][2].get(a) for a in approaches[1:]]) for name in groups]
        self.drawings['figure8'] = svg.figure(panels)

    def judge_figure8(self, found):
        what = 'increase_s'
        for name, each in found.items():
            published = self.sizes.programs[name][2]
            ratio = each[SYNCHRONOUS].median(what) / each[OURS].median(what)
            of_ssd = published[SSD] * each[SSD].median(what) / each[OURS].median(what)
            self.bar(f'8: increase of the run time over synchronous, {name} ({MORE_SYNCHRONOUS:g}x)',
                     f'{published[OURS]:g}x', times(ratio), ratio >= MORE_SYNCHRONOUS,
                     f'over GenericIO, if ssd-only is {published[SSD]}x as fast: {times(of_ssd)}')

    # ---- Stores

    def ratios(self):
        panels = []
        for writers in self.sizes.ratio_writers:
            groups = {r: f'writers={writers} chunks={TOTAL // writers} store={r * SSD_PEAK}'
                      for r in RATIOS}
            found = self.settings(f'ratios, {writers} writers', groups, list(APPROACHES))
            title = f'Store by SSD, {writers} writers, 64 GiB, 2 GiB of cache'
            for name, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s'),
                               ('chunks on the SSD', 'ssd_chunks')):
                self.print_groups(f'{title}: {name}', found, what)
            self.print_settings(f'{title}: local phase, s', found)
            self.judge_all(functools.partial(self.judge_ratios, writers), found)
            panels += [self.draw_groups(f'{name} by the ratio of the store to the SSD, {writers} '
                                        'writers', unit, found, what, shown)
                       for name, unit, what, shown in (
                           ('Local phase', 's, log', 'local_s', [IDEAL, SSD, SAME, NAIVE, OURS]),
                           ('Chunks on the SSD', 'chunks, log', 'ssd_chunks', [SSD, NAIVE, OURS]))]
        self.drawings['ratios'] = svg.figure(panels)

    def judge_ratios(self, writers, found):
        # One that puts nothing there is not faster because of it.
        pays = [r for r, each in found.items()
                if any(each[a].median('ssd_chunks') > 0 and
                       each[a].median('local_s') <= PAYS * each[SAME].median('local_s')
                       for a in BOTH)]
        chunks = {r: tuple(round(found[r][a].median('ssd_chunks')) for a in (OURS, NAIVE))
                  for r in pays}
        self.bar(f'chunks on the SSD where it pays, {writers} writers', 'above 0, below naive',
                 f'in {sum(0 < ours < naive for ours, naive in chunks.values())} of {len(chunks)}',
                 all(0 < ours < naive for ours, naive in chunks.values()),
                 '; '.join(f'{r:g}: {ours} of {naive}' for r, (ours, naive) in chunks.items()))

    def stores(self):
        groups = {f'{b} files': f'writers=64 chunks=16 store_files={b} store_decline=0.012'
                  for b in BEST_FILES}
        found = self.settings('stores', groups, [IDEAL, SAME, NAIVE, OURS])
        for title, what in (('local phase, s', 'local_s'), ('flush completion, s', 'complete_s')):
            self.print_groups(f'Stores by their best number of files, 64 writers: {title}', found, what)
            self.print_settings(f'Stores, 64 writers: {title}', found, what)
        self.table('Flushes in the end', list(groups), [JUDGED],
                   lambda group, setting: spread(found[setting][group][OURS], 'flushes'))
        self.drawings['stores'] = svg.figure([
            self.draw_groups(f'{title} by the best number of files of the store, 64 writers', 's, log',
                             found, what, [IDEAL, SAME, NAIVE, OURS])
            for title, what in (('Local phase', 'local_s'), ('Flush completion', 'complete_s'))])

    # ---- Other constants

    def constants(self):
        cases = {'256 writers, 2 GiB': 'writers=256 chunks=4',
                 '16 writers, 2 GiB': 'writers=16 chunks=64',
                 '16 writers, 8 GiB': 'writers=16 chunks=64 cache_chunks=128'}
        found = self.run({(constant, case, approach):
                          f'{words} {more} {SETTINGS[JUDGED]} {self.approaches[approach]}'
                          for constant, more in CONSTANTS.items() for case, words in cases.items()
                          for approach in (IDEAL, NAIVE, OURS)})
        self.keep('constants', found)
        for title, what in (('local phase', 'local_s'), ('flush completion', 'complete_s')):
            self.table(f'Other constants: {title}, s: ideal / naive / opt', list(CONSTANTS), list(cases),
                       lambda constant, case, what=what: ' / '.join(
                           f'{found[constant, case, a].median(what):.3g}'
                           for a in (IDEAL, NAIVE, OURS)))


def complete(each, baselines):
    """How many times as long the flush completion of the best of them is as ours."""
    return min(each[b].median('complete_s') for b in baselines) / each[OURS].median('complete_s')


def percent(value):
    return f'{value:.0%}'


def times(value):
    return f'{value:.2f}x'


def listed(values, form):
    return ', '.join(f'{name}: {form(value)}' for name, value in values.items())


PARTS = ['figure3', 'figure4', 'figure5', 'figure6', 'figure7', 'figure8', 'ratios', 'stores',
         'constants']
OPTIONS = [('--small', {'action': 'store_true'}), ('--ours', {'default': 'hybrid-opt'})]


if __name__ == '__main__':
    sys.exit(simulated.run('comparison', Bench, PARTS,
                           simulated.read_options(__doc__, PARTS, more=OPTIONS)))
