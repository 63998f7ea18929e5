#!/usr/bin/env python3
"""Whether GPUSNAP_EVERY=auto pays: the total time of jobs that fail, beside fixed intervals.

  scripts/bench auto [--only PART]... [--seeds N] [--jobs N] [--svg FOLDER] [--json]

On a virtual clock (tests/bench/auto), the product's IntervalChoice learns what checkpoints cost as it does
in a process, failures are drawn by seed, and the job restarts from its last committed checkpoint until its
work is done. The failures of a seed come at the same times whatever the interval is, so that differences
are those of the intervals. Nothing there depends on the machine. The fixed intervals were set before
anything was measured, and are the same for all jobs: a factor of 4 apart, on both sides of what pays.

Parts:
  steady     jobs whose checkpoints cost the same from the beginning to the end
  changes    costs that change: once, from checkpoint to checkpoint, or each 17th a full checkpoint
  levels     jobs whose checkpoints may stay in memory, which most failures spare
  guesses    short jobs, whose costs are far from the first guess; and, without a bar, jobs that are told
             a wrong failure rate
  programs   a program on the software GPU that is killed, and restored, again and again, in real time
             (tests/bench/auto_programs.py)

Bars:
  total      auto needs less time than each of the fixed intervals: by more than twice the standard error
             of the mean difference. Short jobs pay for what auto has to learn, and an interval may be near
             the best one of a job by chance: so each fixed one is to need more for all of them together,
             and less for none
  levels     a job that keeps checkpoints in memory needs less time than the same job that sends all to the
             store, both by auto: by more than twice the standard error where most failures spare memory,
             and not more by that where few do
  regret     auto's efficiency is at most REGRET points below that of the best interval of a fine grid,
             which nobody knows before; with costs that change once, auto is better than all of the grid
  prediction the efficiency is within two points of what the model markov-failures predicts for its best
             interval, where the model knows all costs

Exits with 1 if a bar is missed, and with 3 if the programs' rounds differ by more than the ways do, so that
there is no figure.

  --seeds N      jobs of each kind (default 200; ten times as many short ones)
  --jobs N       simulations at the same time (default: one for each processor)
  --svg FOLDER   writes auto-steady.svg and the like there
  --json         prints JSON instead of tables
  --mtbf-error X the jobs are told a failure rate that is wrong by this factor, to see that bars can be missed
"""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import auto_programs  # noqa: E402 (beside this file)
import simulated  # noqa: E402
import svg  # noqa: E402

AUTO = 'auto'
FIXED = {'15 s': 15, '1 min': 60, '4 min': 240, '15 min': 900, '1 h': 3600}
# Factors to what IntervalChoice takes once it knows the costs.
GRID = [2 ** (quarter / 4) for quarter in range(-8, 9)]
POINTS = 2.0   # of efficiency, from the prediction (the planner's bar)
REGRET = 0.5   # points

# A failure each half hour: as often as a machine of a hundred thousand nodes fails.
OFTEN = 'mtbf_s=1800'
LONG = f'{OFTEN} work_s=90000 restart_s=20'    # 50 failures
SHORT = f'{OFTEN} work_s=7200 restart_s=20'    # 4 failures
MORE_SHORT = 10  # times as many of these
STEADY = {
    'cheap: stall 0.3 s': f'{OFTEN} work_s=90000 stall_s=0.3 latency_s=2 restart_s=10',
    'middle: stall 2 s': f'{OFTEN} work_s=90000 stall_s=2 latency_s=5 restart_s=20',
    'costly: stall 20 s': f'{OFTEN} work_s=1440000 stall_s=20 latency_s=40 restart_s=60',
    'rare failures: stall 60 s, 12 h': 'mtbf_s=43200 work_s=2160000 stall_s=60 latency_s=120 restart_s=300',
}
CHANGES = {
    'rises: 0.5 to 20 s': f'{LONG} stall_s=0.5 latency_s=5 changes_at=0.5 later_stall_s=20 later_latency_s=20',
    'falls: 20 to 0.5 s': f'{LONG} stall_s=20 latency_s=20 changes_at=0.5 later_stall_s=0.5 later_latency_s=5',
    'scattered around 5 s': f'{LONG} stall_s=5 latency_s=5 deviation=1',
    'full ones 40 s, others 2 s': f'{LONG} stall_s=2 latency_s=5 first_costs=20 full_costs=20',
}
ONCE = [name for name in CHANGES if name.startswith(('rises', 'falls'))]
GUESSES = {
    'guess 20 times too high': f'{SHORT} stall_s=0.005 latency_s=1',
    'guess 200 times too low': f'{SHORT} stall_s=20 latency_s=5',
    'first one 20 times the rest': f'{SHORT} stall_s=2 latency_s=5 first_costs=20',
}
# The model takes every checkpoint to cost the same.
NOT_PREDICTED = ['full ones 40 s, others 2 s', 'first one 20 times the rest']
# A checkpoint takes long to the store, and none to memory.
STORE = f'{OFTEN} work_s=90000 stall_s=2 latency_s=120 restart_s=60'
MEMORY = 'memory_stall_s=3 memory_latency_s=1 memory_restart_s=20'
LEVELS = {
    'failures of GPUs: 99.6 %': (f'{STORE} survived=0.996', True),
    'failures of GPUs: 90 %': (f'{STORE} survived=0.9', True),
    'failures of GPUs: 50 %': (f'{STORE} survived=0.5', False),
    'of nodes alone': (f'{STORE} survived=0', False),
    'a store as fast as memory': (f'{OFTEN} work_s=90000 stall_s=2 latency_s=1 restart_s=20 survived=0.9', False),
}
WRONG_RATES = [1 / 4, 1 / 2, 1, 2, 4]


def fault(result):
    if result['wrong']:
        return result['wrong']
    parts = sum(result[each] for each in ('work_s', 'stall_s', 'restart_s', 'lost_s'))
    if abs(parts / result['total_s'] - 1) > 1e-9 or result['lost_s'] < -1e-6 * parts:
        return f'its times do not add up: {result}'
    return ''


def mean(found, what='total_s'):
    return statistics.fmean(each[what] for each in found.results)


def efficiency(found):
    """Points."""
    return 100 * mean(found, 'work_s') / mean(found)


def predicted(found):
    return 100 * mean(found, 'work_s') / mean(found, 'predicted_s')


class Difference:
    """By how much auto needs less time than another way, each seed by itself: points of the work."""

    def __init__(self, auto, other):
        each = [100 * (b['total_s'] - a['total_s']) / a['work_s']
                for a, b in zip(auto.results, other.results)]
        self.mean = statistics.fmean(each)
        self.error = statistics.stdev(each) / len(each) ** 0.5
        self.is_clear = self.mean > 2 * self.error

    def __str__(self):
        return f'{self.mean:.2f} +-{self.error:.2f}'


class Simulator(simulated.Simulator):
    at_once = 20

    def __init__(self, build, jobs):
        super().__init__(build / 'tests' / 'bench' / 'auto' / 'auto_model', jobs)


class Bench(simulated.Bench):
    aim = 'bar'

    def __init__(self, options):
        super().__init__(Simulator(options.build.resolve(), options.jobs), fault, options)
        self.has_figure = True

    def compare(self, part, jobs):
        """By job and way: the results of all seeds. Ways of the grid are numbers."""
        error = self.options.mtbf_error
        known = {job: result.results[0]['known_s'] for job, result in self.known(jobs).items()}
        lines = {}
        for job, words in jobs.items():
            said = f' said_mtbf_s={error * value_of(words, "mtbf_s"):g}' if error != 1 else ''
            lines[job, AUTO] = words + said
            lines.update({(job, way): f'{words} interval_s={seconds}' for way, seconds in FIXED.items()})
            lines.update({(job, factor): f'{words} interval_s={known[job] * factor:.6g}'
                          for factor in GRID})
        found = self.run(lines)
        self.keep(part, found)
        return {job: {way: found[job, way] for way in [AUTO, *FIXED, *GRID]} for job in jobs}

    def known(self, jobs):
        """One run of each job, for the interval that it would have if its costs were known."""
        lines = {job: f'{words} seed=1' for job, words in jobs.items()}
        self.simulator.run(lines.values())
        return {job: simulated.Seeds(self.simulator.run([line])) for job, line in lines.items()}

    def report(self, part, jobs, found):
        self.table(f'{part}: efficiency, %', list(jobs), [AUTO, 'predicted', *FIXED, 'best of grid'],
                   lambda job, way: self.cell(job, found[job], way))
        self.table(f'{part}: total time more than with auto, % of the work', list(jobs), list(FIXED),
                   lambda job, way: str(Difference(found[job][AUTO], found[job][way])))
        for job in jobs:
            self.judge(part, job, found[job])
        if set(jobs) == set(GUESSES):
            self.judge_total(f'{part}, all together', together(found.values()))
        self.drawings[part] = svg.figure([svg.Panel(
            f'Efficiency of simulated jobs by interval ({part})', '%', top=100).bars(
                list(jobs), [AUTO, *FIXED],
                [[efficiency(found[job][way]) for way in [AUTO, *FIXED]] for job in jobs])])

    def cell(self, job, ways, way):
        if way == 'predicted':
            return '-' if job in NOT_PREDICTED else f'{predicted(ways[AUTO]):.2f}'
        if way == 'best of grid':
            best = best_of_grid(ways)
            return f'{efficiency(ways[best]):.2f} at {ways[best].results[0]["interval_s"]:.3g} s'
        return f'{efficiency(ways[way]):.2f}'

    def judge(self, part, job, ways):
        auto = ways[AUTO]
        if job in GUESSES:
            self.judge_not_worse(f'{part}, {job}', ways)
        else:
            self.judge_total(f'{part}, {job}', ways)
        best = best_of_grid(ways)
        lost = efficiency(ways[best]) - efficiency(auto)
        most = 0 if job in ONCE else REGRET
        self.bar(f'{part}, {job}: points below the best of the grid', f'at most {most}', f'{lost:.2f}',
                 lost <= most)
        if job not in NOT_PREDICTED:
            off = efficiency(auto) - predicted(auto)
            self.bar(f'{part}, {job}: points from the prediction', f'at most {POINTS:g}', f'{off:+.2f}',
                     abs(off) <= POINTS)

    def judge_total(self, what, ways):
        more = {way: Difference(ways[AUTO], ways[way]) for way in FIXED}
        nearest = min(more, key=lambda way: more[way].mean)
        self.bar(f'{what}: total below that of each fixed interval', 'all five',
                 f'{sum(each.is_clear for each in more.values())} of {len(FIXED)}',
                 all(each.is_clear for each in more.values()),
                 f'nearest: {nearest}, {more[nearest]} % of the work')

    def judge_not_worse(self, what, ways):
        less = [way for way in FIXED if Difference(ways[way], ways[AUTO]).is_clear]
        clear = sum(Difference(ways[AUTO], ways[way]).is_clear for way in FIXED)
        self.bar(f'{what}: total above that of a fixed interval', 'of none', ', '.join(less) or 'none',
                 not less, f'clearly below {clear} of {len(FIXED)}')

    # ---- Parts

    def steady(self):
        self.report('steady', STEADY, self.compare('steady', STEADY))

    def changes(self):
        self.report('changes', CHANGES, self.compare('changes', CHANGES))

    def guesses(self):
        few, self.seeds = self.seeds, range(1, MORE_SHORT * self.options.seeds + 1)
        self.report('guesses', GUESSES, self.compare('guesses', GUESSES))
        self.seeds = few
        words = STEADY['middle: stall 2 s']
        said = {f'{rate:g} of it': rate * value_of(words, 'mtbf_s') for rate in WRONG_RATES}
        found = self.run({name: f'{words} said_mtbf_s={seconds:g}' for name, seconds in said.items()})
        self.table('guesses: GPUSNAP_MTBF is wrong (no bar), middle: efficiency, %', ['auto'], list(said),
                   lambda _, name: f'{efficiency(found[name]):.2f}')

    def levels(self):
        lines = {}
        for job, (words, _) in LEVELS.items():
            lines[job, 'store only'] = words
            lines[job, 'levels'] = f'{words} {MEMORY}'
        found = self.run(lines)
        self.keep('levels', found)
        self.table('levels: efficiency, %', list(LEVELS), ['store only', 'levels', 'kept', 'restored'],
                   lambda job, way: f'{efficiency(found[job, way]):.2f}' if way in ('store only', 'levels')
                   else f'{mean(found[job, "levels"], way):.0f}')
        for job, (_, pays) in LEVELS.items():
            less = Difference(found[job, 'levels'], found[job, 'store only'])
            if pays:
                self.bar(f'levels, {job}: total below that without', 'clearly', f'{less} % of the work',
                         less.is_clear)
            else:
                more = Difference(found[job, 'store only'], found[job, 'levels'])
                self.bar(f'levels, {job}: total above that without', 'not clearly', f'{more} % of the work',
                         not more.is_clear)

    def programs(self):
        found = auto_programs.measure(self.options, self.simulator, self.say)
        self.summary['programs'] = found.summary()
        self.has_figure = found.has_figure or self.options.check
        if found.has_figure:
            for bar in found.bars(POINTS):
                self.bar(*bar)
        self.drawings['programs'] = found.draw()


def value_of(words, key):
    return float(dict(word.split('=') for word in words.split())[key])


def together(jobs):
    """By way: one result for each seed, the sum of the jobs'."""
    def add(way):
        return [{what: sum(each[what] for each in results) for what in ('work_s', 'total_s')}
                for results in zip(*(ways[way].results for ways in jobs))]
    jobs = list(jobs)
    return {way: simulated.Seeds(add(way)) for way in [AUTO, *FIXED]}


def best_of_grid(ways):
    return max(GRID, key=lambda factor: efficiency(ways[factor]))


PARTS = ['steady', 'changes', 'levels', 'guesses', 'programs']
MORE = [('--mtbf-error', {'type': float, 'default': 1}), *auto_programs.OPTIONS]


def main(arguments=None):
    options = simulated.read_options(__doc__, PARTS, arguments, MORE, seeds=200)
    benches = []

    def make(chosen):
        benches.append(Bench(chosen))
        return benches[0]
    code = simulated.run('auto', make, PARTS, options)
    return 3 if code == 0 and not benches[0].has_figure else code


if __name__ == '__main__':
    sys.exit(main())
