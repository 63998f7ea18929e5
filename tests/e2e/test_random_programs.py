#!/usr/bin/env python3
"""Random programs of all families of calls: undisturbed, watched, killed and restored, they put out
the same.

  test_random_programs.py [--programs N] [--first SEED] [--soak] [--keep] [--mutants]

Each program (tests/random) is made from a seed, and so are its settings and the moment at which it is
killed. A run with checkpoints must put out what an undisturbed one does, and so must a run that goes
on from any of its checkpoints, and one that goes on from what a killed run has left.

  --programs N   how many (200; with --soak 2,000)
  --first SEED   of the first; the others follow. 'test_random_programs.py --programs 1 --first SEED'
                 repeats one; without it they are the same each time, and with --soak drawn and told
  --keep         leaves the folder of what fails
  --mutants      spoils the library on purpose and wants to see that found by 200 programs at most
"""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import harness
import patience
import processes

sys.path.insert(0, os.path.join(harness.SOURCE, 'tests', 'oracle'))
import test_oracle  # noqa: E402

PROGRAM = os.path.join(harness.BUILD, 'tests', 'random', 'random_calls')
TIMEOUT = 120
AT_A_TIME = 2
MOST_FAILURES = 5
# Where no other is asked for.
FIRST_SEED = 9000
# Mistakes of the library (interpose/services/mutation.h) that restored runs show.
MUTANTS = ['deliver-late']
PROGRAMS_FOR_A_MUTANT = 200
# The words of a restore that cannot have memory where it was.
NO_ADDRESSES = 'cannot be had there'


class Failure(Exception):
    """Says what was found wrong with a program's runs."""


def settings_of(seed):
    """The oracle's settings, but for faults: which call one hits is another one in each run."""
    settings, arguments = test_oracle.settings_of(seed)
    settings.pop('SIMCUDA_FAULT', None)
    arguments = [word for word in arguments if word != '--faults']
    draw = random.Random('replay %d' % seed)
    arguments[arguments.index('--steps') + 1] = str(draw.choice([40, 60, 60, 90]))
    # A kernel that may write to anything, beside host functions that change what the host sees too,
    # ends the taking of checkpoints: half of the programs do without such kernels.
    if not {'--no-shared', '--no-guesses'}.intersection(arguments) and draw.random() < 0.5:
        arguments += ['--no-guesses']
    return settings, arguments


class Case:
    def __init__(self, seed, folder, tool=harness.GPUSNAP, mutation=None):
        self.seed = seed
        self.gpusnap = tool
        self.mutation = mutation
        self.folder = folder
        self.settings, self.arguments = settings_of(seed)
        self.draw = random.Random('moments %d' % seed)
        self.command = [PROGRAM, str(seed), *self.arguments, *test_oracle.STAY]
        self.restored = 0
        self.refused = False

    def describe(self):
        words = ['%s=%s' % pair for pair in sorted(self.settings.items())]
        return ('%s %s\nrepeat it by: tests/e2e/test_random_programs.py --programs 1 --first %d' %
                (' '.join(words), ' '.join(self.command), self.seed))

    # ---- running

    def environment(self, store, more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(('GPUSNAP_', 'SIMCUDA_', 'RANDOM_CALLS_', 'LD_'))}
        if test_oracle.SANITIZED:
            kept['TSAN_OPTIONS'] += test_oracle.THREAD_OPTIONS + test_oracle.SUPPRESSIONS[True]
        # A short path: a socket of the backend lies there.
        kept.update(self.settings, GPUSNAP_PFS=os.path.join(self.folder, store), GPUSNAP_JOB='job',
                    GPUSNAP_NODE=self.folder, XDG_RUNTIME_DIR=self.folder,
                    GPUSNAP_BACKEND_IDLE='1s', GPUSNAP_REPLAY_OUTPUT='again')
        if self.mutation:
            kept['ORACLE_MUTATION'] = self.mutation
        kept.update(more)
        return kept

    def start(self, command, store='none', **more):
        return subprocess.Popen(command, env=self.environment(store, more), cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors='replace')

    @staticmethod
    def end(process, what):
        try:
            output, errors = patience.communicate(process, TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            raise Failure('%s: no end after %d s:\n%s' % (
                what, TIMEOUT, test_oracle.last_lines(errors))) from None
        return output, errors

    def ended_well(self, process, what, expected=None):
        output, errors = self.end(process, what)
        self.judge(process, what, output, errors, expected)
        return output, errors

    @staticmethod
    def judge(process, what, output, errors, expected):
        if process.returncode != 0:
            raise Failure('%s: ended with %d:\n%s' % (what, process.returncode,
                                                      test_oracle.last_lines(errors)))
        if expected is not None and output != expected:
            raise Failure('%s: put out\n%snot\n%s%s' % (what, output, expected,
                                                        test_oracle.last_lines(errors)))

    def tool(self, store, *words):
        return self.ended_well(self.start([self.gpusnap, *words], store), words[0])[0]

    def checkpoints(self, store):
        """Complete ones, the oldest first."""
        if not os.path.exists(os.path.join(self.folder, store)):
            return []
        listed = [each for each in json.loads(self.tool(store, 'list', '--json'))
                  if each['state'] == 'complete']
        return sorted(listed, key=lambda each: each['epoch'])

    def outputs(self, times):
        """The program's outputs without the library: a correct program has one."""
        return {self.ended_well(self.start(self.command, LD_LIBRARY_PATH=harness.SIMCUDA),
                                'without the library')[0] for _ in range(times)}

    def end_backends(self):
        """Ends the backends. A killed run's checkpoints may still be on their way to the store."""
        backend = os.path.join(os.path.dirname(self.gpusnap), 'gpusnapd')
        processes.Backends(backend, self.folder).end()

    # ---- what is compared

    def run(self):
        plain, _ = self.ended_well(
            self.start(self.command, LD_LIBRARY_PATH=harness.SIMCUDA), 'without the library')
        self.watch(plain)
        self.kill(plain)

    def watch(self, plain):
        _, errors = self.ended_well(
            self.start([self.gpusnap, 'run', '--sim', '--', *self.command], 'watched'),
            'with checkpoints', plain)
        if 'no more checkpoints' in errors:
            self.refuse(errors)
        found = self.checkpoints('watched')
        if found:
            self.restore('watched', plain, self.draw.choice(found)['id'])

    def kill(self, plain):
        steps = int(self.arguments[self.arguments.index('--steps') + 1])
        moment = '0:%d' % self.draw.randint(steps // 5, steps)
        killed = self.start([self.gpusnap, 'run', '--sim', '--', *self.command], 'killed',
                            RANDOM_CALLS_KILL=moment)
        _, errors = self.end(killed, 'killed')
        if killed.returncode != -9:
            raise Failure('killed at %s: ended with %d:\n%s' % (
                moment, killed.returncode, test_oracle.last_lines(errors)))
        if self.settings['GPUSNAP_BACKEND'] == 'process':
            self.tool('killed', 'wait', '--timeout', '10m')
        found = self.checkpoints('killed')
        if found:
            self.restore('killed', plain, found[-1]['id'])

    def restore(self, store, plain, checkpoint):
        what = 'restored from %s of %s' % (checkpoint, store)
        run = self.start([self.gpusnap, 'restore', '--sim', '--id', checkpoint, '--',
                          *self.command], store)
        output, errors = self.end(run, what)
        if run.returncode == harness.IMPOSSIBLE and NO_ADDRESSES in errors:
            self.refuse(errors)
            return
        self.judge(run, what, output, errors, plain)
        self.restored += 1

    def refuse(self, errors):
        self.refused = True
        print('refused: seed %d: %s' % (self.seed, test_oracle.last_lines(errors, 2)), flush=True)


class Run:
    def __init__(self, keep):
        self.keep = keep
        self.restored = 0
        self.refused = 0
        self.failures = []

    def one(self, seed):
        if len(self.failures) >= MOST_FAILURES:
            return
        folder = tempfile.mkdtemp(prefix='gpusnap-random-', dir=test_oracle.SCRATCH)
        case = Case(seed, folder)
        keep = False
        try:
            case.run()
        except Failure as failure:
            keep = self.keep
            kept = '\nleft in %s' % folder if keep else ''
            if len(case.outputs(30)) > 1:
                kept += '\nwithout the library it does not put out the same each time either'
            self.failures.append('seed %d' % seed)
            print('FAILED %s\n%s%s' % (str(failure).strip(), case.describe(), kept), flush=True)
        finally:
            self.restored += case.restored
            self.refused += case.refused
            case.end_backends()
            if not keep:
                shutil.rmtree(folder)

    def all(self, first, count):
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(self.one, range(first, first + count)))


def spoiled_tool(folder):
    """The tool beside the library that makes mistakes."""
    for name in ('gpusnap', 'gpusnapd'):
        shutil.copy(os.path.join(os.path.dirname(harness.GPUSNAP), name), folder)
    shutil.copy(os.path.join(harness.BUILD, 'tests', 'oracle', 'libgpusnap-oracle.so'),
                os.path.join(folder, 'libgpusnap.so'))
    os.symlink(harness.SIMCUDA, os.path.join(folder, 'simcuda'))
    return os.path.join(folder, 'gpusnap')


def finds(mutation, first, tool):
    """The failure of the first program that shows the mistake; None if none does."""
    for seed in range(first, first + PROGRAMS_FOR_A_MUTANT):
        folder = tempfile.mkdtemp(prefix='gpusnap-random-', dir=test_oracle.SCRATCH)
        case = Case(seed, folder, tool, mutation)
        try:
            case.run()
        except Failure as failure:
            if str(failure).startswith('restored'):
                return 'seed %d: %s' % (seed, str(failure).splitlines()[-1])
            raise
        finally:
            case.end_backends()
            shutil.rmtree(folder)
    return None


def test_mutants(first):
    folder = tempfile.mkdtemp(prefix='gpusnap-random-', dir=test_oracle.SCRATCH)
    good = True
    try:
        tool = spoiled_tool(folder)
        for mutation in MUTANTS:
            found = finds(mutation, first, tool)
            print('%s: %s' % (mutation, 'found: ' + found if found else
                              'FAILED not found by %d programs' % PROGRAMS_FOR_A_MUTANT), flush=True)
            good = good and found is not None
    finally:
        shutil.rmtree(folder)
    return good


def main():
    for needed in (PROGRAM, harness.GPUSNAP, harness.LIBRARY):
        if not os.path.exists(needed):
            sys.exit('%s is missing: build it first, or set GPUSNAP_TEST_BUILD' % needed)
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--programs', type=int)
    parser.add_argument('--first', type=int)
    parser.add_argument('--soak', action='store_true')
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--mutants', action='store_true')
    options = parser.parse_args()
    soak = options.soak or harness.SOAK
    count = options.programs or (2000 if soak else 30)
    first = options.first
    if first is None:
        first = harness.SEED if soak else FIRST_SEED
    print('the first seed: --first %d' % first, flush=True)
    if options.mutants:
        sys.exit(0 if test_mutants(first) else 1)
    began = time.monotonic()
    run = Run(options.keep)
    run.all(first, count)
    print('%d programs from seed %d on: %d runs restored, %d refused, %d failed, %.0f s' % (
        count, first, run.restored, run.refused, len(run.failures), time.monotonic() - began))
    # By chance a kernel of one thread is taken for one that may write to anything, or addresses that
    # a replay needs are another allocation's, where another thread's calls come at the same moment
    # (seed 20189, seldom): a refusal by name is no wrong bit.
    # Some 3 of 100: whether one is depends on what comes first in a run, too.
    if run.refused > max(2, count // 10):
        print('FAILED too many programs were refused')
        sys.exit(1)
    if count >= 20 and not run.failures and run.restored < count:
        print('FAILED too few runs were restored')
        sys.exit(1)
    sys.exit(1 if run.failures else 0)


if __name__ == '__main__':
    main()
