"""The part `programs` of auto.py: a program on the software GPU that is killed and restored until it ends.

The program's time is the device's alone (tests/bench/auto/toil.cpp), so that a restore repeats none of it, and
a step lasts a set time by the clock. It has real-time priority where that is allowed: other load then changes
little.
Each checkpoint is a full one that holds it (GPUSNAP_ORG=b+f) and goes to a store that takes a set number of
bytes a second (tests/bench/slow_store.cpp); staging memory is small, so that the store's rate is what the
program waits for. It is killed at times that are drawn by a seed, and are the same for all ways of a round.

A round has few failures. So a round's efficiency is compared with
that of the virtual clock at the same failures, with the stall, the latency and the restart that were
measured; the virtual clock is compared with markov-failures in the other parts.
"""

import dataclasses
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

import simulated
import svg

AUTO = 'auto'
COMMITTED = re.compile(r'auto: the next checkpoint .* stall (\d+) us, on its way for (\d+) us')
STALL = re.compile(r'checkpoint \S+: \d+ bytes saved, stall (\d+) us')
RESTORED = re.compile(r'info: restored ')


def real_time_priority():
    """What comes before a command, so that other programs do not take its time; nothing if that is not allowed."""
    command = ['chrt', '--rr', '1']
    allowed = shutil.which('chrt') and subprocess.run([*command, 'true'], stderr=subprocess.DEVNULL).returncode == 0
    return command if allowed else []


def numbers(text):
    return [float(word) for word in text.split(',')]


OPTIONS = [
    ('--rounds', {'type': int, 'default': 5, 'help': 'of programs'}),
    ('--steps', {'type': int, 'default': 800, 'help': 'of the program'}),
    ('--step-us', {'type': int, 'default': 20000, 'help': 'microseconds of each step'}),
    ('--mib', {'type': int, 'default': 32, 'help': 'device memory of the program'}),
    ('--rate', {'type': float, 'default': 250, 'help': 'MB a second to the store'}),
    ('--mtbf', {'type': float, 'default': 5, 'help': 'mean seconds between two kills'}),
    ('--intervals', {'type': numbers, 'default': [0.25, 0.5, 2.5, 5, 10],
                     'help': 'fixed intervals, seconds'}),
    ('--check', {'action': 'store_true', 'help': 'of programs no bars of time: for a machine that is not quiet'}),
]


@dataclasses.dataclass
class Costs:
    """What was measured, in seconds."""
    stall: list = dataclasses.field(default_factory=list)
    latency: list = dataclasses.field(default_factory=list)
    restart: list = dataclasses.field(default_factory=list)


class Programs:
    def __init__(self, options, folder):
        self.options = options
        self.build = options.build.resolve()
        self.folder = folder
        self.costs = Costs()
        self.priority = [] if options.check else real_time_priority()

    def start(self, store, every, restores):
        build, options = self.build, self.options
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(('GPUSNAP_', 'SIMCUDA_', 'LD_', 'SLOW_'))}
        kept['LD_LIBRARY_PATH'] = str(build / 'tools' / 'simcuda')
        if every:
            libraries = [build / 'interpose' / 'libgpusnap.so', build / 'tests' / 'bench' / 'libslow_store.so']
            kept.update({
                'LD_PRELOAD': ':'.join(map(str, libraries)), 'SLOW_FOLDER': store,
                'SLOW_WRITES': str(options.rate * 1e6), 'GPUSNAP_PFS': store, 'GPUSNAP_JOB': 'toil',
                'GPUSNAP_EVERY': every, 'GPUSNAP_MTBF': f'{round(options.mtbf * 1000)}ms',
                'GPUSNAP_ORG': 'b+f', 'GPUSNAP_BACKEND': 'thread', 'GPUSNAP_COMPRESS': 'off',
                'GPUSNAP_HOST_CACHE': '4M', 'GPUSNAP_SLOT': '2M', 'GPUSNAP_WRITES': '1',
                'GPUSNAP_DEVICE_CACHE': '0', 'GPUSNAP_MAX_STALL': '1h', 'GPUSNAP_LOG': 'info',
                'GPUSNAP_NODE': self.folder, 'XDG_RUNTIME_DIR': self.folder})
        if restores:
            kept['GPUSNAP_RESTORE'] = 'latest'
        command = [*self.priority, 'setarch', '-R', str(build / 'tests' / 'bench' / 'auto' / 'toil'), str(options.steps),
                   str(options.mib), str(options.step_us)]
        return subprocess.Popen(command, env=kept, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def plain(self):
        """Seconds, and what the program puts out."""
        begun = time.monotonic()
        output = self.finish(self.start(None, None, False))
        return time.monotonic() - begun, output

    def finish(self, program):
        output, errors = program.communicate()
        if program.returncode != 0:
            raise simulated.Failed('the program failed:\n' + errors)
        return output

    def learn(self, begun, line):
        """Costs that a line of the program says. Called as it is said."""
        if RESTORED.search(line):
            self.costs.restart.append(time.monotonic() - begun)
        if found := COMMITTED.search(line):
            self.costs.latency.append(int(found[2]) / 1e6)
        if found := STALL.search(line):
            self.costs.stall.append(int(found[1]) / 1e6)

    def run_until(self, store, every, deadline):
        """What it puts out; None where it was killed at the deadline."""
        restores = any(pathlib.Path(store).glob('*/e*/r*.manifest'))
        begun = time.monotonic()
        program = self.start(store, every, restores)
        said = []

        def read():
            for line in program.stderr:
                said.append(line)
                self.learn(begun, line)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            program.wait(max(deadline - begun, 0))
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        reader.join()
        output = program.stdout.read()
        program.stdout.close()
        program.stderr.close()
        if program.returncode == 0:
            return output
        if program.returncode != -9:
            raise simulated.Failed('the program failed:\n' + ''.join(said))
        return None

    def run_job(self, every, failures, expected):
        """Seconds until the program ends."""
        with tempfile.TemporaryDirectory(dir=self.folder) as store:
            begun = time.monotonic()
            for failure in failures:
                output = self.run_until(store, every, begun + failure)
                if output is not None:
                    if output != expected:
                        raise simulated.Failed(f'{every}: the program puts out something else')
                    return time.monotonic() - begun
        raise simulated.Failed(f'{every}: it does not end')


def failures_of(seed, mtbf, until):
    drawn, times = random.Random(seed), [0.0]
    while times[-1] < until:
        times.append(times[-1] + drawn.expovariate(1 / mtbf))
    return times[1:]


class Result:
    """Seconds by way and round."""

    def __init__(self, options):
        self.options = options
        self.ways = [AUTO, *options.intervals]
        self.plain = []
        self.total = {way: [] for way in self.ways}
        self.virtual = {way: [] for way in self.ways}  # at the same failures
        self.predicted = {}                            # by markov-failures
        self.costs = {}
        self.loads = [os.getloadavg()[0]]
        self.priority = 'normal priority'

    @property
    def work(self):
        return statistics.median(self.plain)

    def behind(self, way):
        """By how much auto needs less, by round."""
        return [other - ours for ours, other in zip(self.total[AUTO], self.total[way])]

    def is_clear(self, way):
        """Whether the rounds differ by less than the ways do."""
        each = self.behind(way)
        if len(each) < 2:
            return False
        error = statistics.stdev(each) / len(each) ** 0.5
        return abs(statistics.fmean(each)) > 2 * error

    @property
    def has_figure(self):
        return not self.options.check and all(map(self.is_clear, self.options.intervals))

    def efficiency(self, seconds, way):
        return 100 * self.work * len(seconds[way]) / sum(seconds[way])

    def bars(self, points):
        for way in self.options.intervals:
            mean = statistics.fmean(self.behind(way))
            yield (f'programs: total below that of {name(way)}', 'above 0', f'{mean:.2f} s less', mean > 0)
        off = self.efficiency(self.total, AUTO) - self.efficiency(self.virtual, AUTO)
        yield ('programs: points from the virtual clock at the same failures', f'at most {points:g}',
               f'{off:+.2f}', abs(off) <= points)

    def summary(self):
        return {'plain_s': self.plain, 'costs_s': self.costs, 'load': [min(self.loads), max(self.loads)],
                'total_s': {name(way): each for way, each in self.total.items()},
                'virtual_s': {name(way): each for way, each in self.virtual.items()},
                'predicted_s': {name(way): each for way, each in self.predicted.items()}}

    def report(self, say):
        options = self.options
        say(f'\nprograms: {options.rounds} rounds, a kill each {options.mtbf:g} s on average, load '
            f'{min(self.loads):.1f} to {max(self.loads):.1f}, {self.priority}; undisturbed {spread(self.plain)}')
        say('measured: ' + ', '.join(f'{what} {seconds:.3f} s' for what, seconds in self.costs.items()))
        say(f'{"":10}{"total":>28}{"efficiency, %":>16}{"virtual clock":>16}{"markov-failures":>18}'
            f'{"more than auto":>26}')
        for way in self.ways:
            behind = '' if way == AUTO else spread(self.behind(way))
            clear = '' if way == AUTO or self.is_clear(way) else ' (not clear)'
            say(f'{name(way):10}{spread(self.total[way]):>28}{self.efficiency(self.total, way):16.1f}'
                f'{self.efficiency(self.virtual, way):16.1f}{100 * self.work / self.predicted[way]:18.1f}'
                f'{behind:>26}{clear}')
        if not self.has_figure:
            say('no figure: ' + ('--check' if options.check else 'the rounds differ by more than the ways'))

    def draw(self):
        return svg.figure([svg.Panel('Total time of a program that is killed and restored, by interval',
                                     's').bars(
            [name(way) for way in self.ways], ['measured', 'virtual clock, the same failures'],
            [[statistics.median(each[way]) for each in (self.total, self.virtual)] for way in self.ways],
            [[(min(each[way]), max(each[way])) for each in (self.total, self.virtual)]
             for way in self.ways])])


def name(way):
    return way if way == AUTO else f'{way:g} s'


def spread(values):
    return f'{statistics.median(values):.2f} s ({min(values):.2f}-{max(values):.2f})'


def virtual(simulator, result, failures):
    """The same jobs on the virtual clock, with the costs that were measured."""
    costs = result.costs
    for way in result.ways:
        words = (f'work_s={result.work:.6f} mtbf_s={result.options.mtbf} stall_s={costs["stall"]:.6f} '
                 f'latency_s={costs["latency"]:.6f} restart_s={costs["restart"]:.6f}'
                 + ('' if way == AUTO else f' interval_s={way}'))
        lines = [f'{words} failures_s=' + ','.join(f'{each:.6f}' for each in times)
                 for times in failures]
        simulator.run(lines)
        found = [simulator.results[line] for line in lines]
        result.virtual[way] = [each['total_s'] for each in found]
        result.predicted[way] = found[0]['predicted_s']


def measure(options, simulator, say):
    result = Result(options)
    with tempfile.TemporaryDirectory(prefix='gpusnap-auto-', dir='/dev/shm') as folder:
        programs = Programs(options, folder)
        if programs.priority:
            result.priority = 'real-time priority'
        seconds, expected = programs.plain()
        failures = [failures_of(seed, options.mtbf, 100 * seconds)
                    for seed in range(1, options.rounds + 1)]
        for times in failures:
            result.plain.append(programs.plain()[0])
            for way in result.ways:
                every = AUTO if way == AUTO else f'{round(way * 1000)}ms'
                result.total[way].append(programs.run_job(every, times, expected))
                result.loads.append(os.getloadavg()[0])
        for what, values in dataclasses.asdict(programs.costs).items():
            result.costs[what] = statistics.fmean(values) if values else 0
    virtual(simulator, result, failures)
    result.report(say)
    return result
