#!/usr/bin/env python3
"""Random programs with checkpoints: every complete one holds exactly what the memory held at its cut.

  test_oracle.py [--programs N] [--first SEED] [--mutants] [--soak] [--keep]

Each program is made from a seed, and so are the settings that it runs with. A library built for this
test copies all device memory at each cut, blocking; afterwards every complete checkpoint in the
store, with what it takes from its parents, is compared with that copy, byte for byte.

  --programs N   how many (200; with --soak 10,000)
  --first SEED   of the first; the others follow. 'test_oracle.py --programs 1 --first SEED' repeats
                 one; without it seeds are drawn and told
  --mutants      the library is spoiled in each way that it knows, and each must be found
  --keep         leaves the folder of what fails
"""
import argparse
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'tests'))
import patience  # noqa: E402
import processes  # noqa: E402

BUILD = os.path.abspath(os.environ.get('GPUSNAP_TEST_BUILD', os.path.join(SOURCE, 'build')))
HERE = os.path.join(BUILD, 'tests', 'oracle')
BACKEND = os.path.join(BUILD, 'tools', 'gpusnapd')
SIMCUDA = os.path.join(BUILD, 'tools', 'simcuda')
CUFILE = os.path.join(BUILD, 'tests', 'support', 'cufile')

MUTANTS = ['clear-pending-early', 'skip-duplicate', 'skip-event-wait', 'skip-hash-compare',
           'build-on-memory']
PROGRAMS_FOR_A_MUTANT = 200
TIMEOUT = 120  # seconds for one program, with a debugging build on a busy machine in mind
ORGANISATIONS = ['nb+i+h+d', 'nb+i+h+d', 'nb+i+d', 'nb+i-fg+h+d', 'nb+i', 'nb+f+h+d', 'nb+f', 'b+f',
                 'b+i', 'b+i-fg']

# Memory, where there is some for files: a disk's syncs would take most of the time.
SCRATCH = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None


def settings_of(seed):
    """The settings of a program, and its own arguments."""
    draw = random.Random('settings %d' % seed)
    settings = {
        'GPUSNAP_EVERY': 'syncs:%d' % draw.choice([1, 1, 2, 3, 5]),
        'GPUSNAP_ZONE': draw.choice(['4K', '4K', '8K', '16K', '64K']),
        'GPUSNAP_KEEP': '100000',
        'GPUSNAP_ORG': draw.choice(ORGANISATIONS),
        'GPUSNAP_DEVICE_CACHE': draw.choice(['0', '16K', '64K', '256K', '16M']),
        'GPUSNAP_HOST_CACHE': draw.choice(['1M', '4M', '64M']),
        # Chains are merged from half of it on.
        'GPUSNAP_CHAIN': str(draw.choice([0, 1, 3, 16, 256])),
        'GPUSNAP_DIRTY': draw.choice(['fingerprint', 'fingerprint', 'fingerprint', 'calls']),
        'GPUSNAP_SPECULATE': draw.choice(['on', 'on', 'off']),
        'GPUSNAP_HINTS': draw.choice(['1us', '100us', '1ms']),
        'GPUSNAP_MAX_STALL': draw.choice(['1ms', '100ms', '1s']),
        'GPUSNAP_COMPRESS': draw.choice(['auto', 'off', '1']),
        'GPUSNAP_BACKEND': draw.choice(['process', 'thread']),
    }
    arguments = ['--steps', str(draw.choice([60, 120, 120, 250]))]
    threads = draw.choice([1, 1, 2, 3])
    if threads > 1:
        arguments += ['--threads', str(threads)]
        # Both in several threads ends the taking of checkpoints.
        arguments += [draw.choice(['--no-shared', '--no-guesses'])]
        if draw.random() < 0.4:
            arguments += ['--contexts', str(draw.randint(2, threads))]
    if draw.random() < 0.3:
        settings['SIMCUDA_DEVICES'] = '2'
    if draw.random() < 0.2:
        arguments += ['--no-pools']
    if draw.random() < 0.15:
        name, most = draw.choice([('alloc', 40), ('pinned', 6), ('copy', 200), ('copy_to_host', 60),
                                  ('copy_to_device', 60), ('launch', 100), ('context', 400)])
        settings['SIMCUDA_FAULT'] = '%s:%d' % (name, draw.randint(1, most))
        arguments += ['--faults']
    if draw.random() < 0.12:
        # Each piece is 2 MiB, in every checkpoint and in its copy: not for long.
        arguments[1] = '60'
        arguments += ['--mapped']
    if '--contexts' in arguments and draw.random() < 0.5:
        # Two devices, which send zones to each other since the way to the host is slow.
        settings.update(SIMCUDA_DEVICES='2', SIMCUDA_CLOCK='virtual', SIMCUDA_PACE='1',
                        SIMCUDA_BANDWIDTH='to_host:20M')
    # Straight to a local tier, by a stand-in for the library.
    if draw.random() < 0.25 and not SANITIZED:
        settings.update(GPUSNAP_DIRECT='always', GPUSNAP_PLACEMENT='hybrid-naive')
    # The others stay in memory, and increments in the store are compared over them: a program that
    # is held makes more of both.
    if settings['GPUSNAP_BACKEND'] == 'process' and draw.random() < 0.5:
        settings.update(GPUSNAP_STORE_EVERY=draw.choice(['2', '3']), GPUSNAP_HOST_CACHE='64M',
                        GPUSNAP_ORG=draw.choice(['b+i', 'b+i-fg', 'nb+i+h+d']), GPUSNAP_CHAIN='16')
    return settings, arguments


# Longer than any program runs.
NO_LIMIT = '1000s'


def without_overlaps(settings):
    """The same, but that no copy of a snapshot's runs beside what overwrites what it reads.

    Such copies are not used. They come from a kernel that goes ahead on a guess, from a call that
    takes over what is on its way, which needs a buffer on the device, and from a snapshot that is
    given up.
    """
    settings = dict(settings, GPUSNAP_SPECULATE='off', GPUSNAP_MAX_STALL=NO_LIMIT,
                    GPUSNAP_DEVICE_CACHE='0')
    settings.pop('SIMCUDA_FAULT', None)
    return settings


class Failure(Exception):
    """Says what was found wrong with a program's checkpoints."""


class Difference(Failure):
    """A complete checkpoint that holds something else than the memory did."""


class Case:
    def __init__(self, seed, mutation=None):
        self.seed = seed
        self.mutation = mutation
        self.settings, self.arguments = settings_of(seed)
        # ThreadSanitizer sees races in device memory too: most programs must not have any.
        self.overlaps = not SANITIZED or seed % 4 == 0
        if not self.overlaps:
            self.settings = without_overlaps(self.settings)
        self.fault = self.settings.get('SIMCUDA_FAULT', '')

    def describe(self):
        words = ['%s=%s' % pair for pair in sorted(self.settings.items())]
        return 'seed %d: %s %s' % (self.seed, ' '.join(words), ' '.join(self.arguments))

    def command(self, command, settings):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(('GPUSNAP_', 'SIMCUDA_', 'ORACLE_', 'LD_'))}
        kept.update(settings)
        if SANITIZED:
            kept['TSAN_OPTIONS'] += THREAD_OPTIONS + SUPPRESSIONS[self.overlaps]
        try:
            done = patience.run(command, TIMEOUT, env=kept)
        except subprocess.TimeoutExpired:
            raise Failure('no end after %d s' % TIMEOUT) from None
        return done

    def program(self, settings):
        fixed = ['setarch', '-R'] if FIXED_ADDRESSES else []
        simulated = {name: value for name, value in self.settings.items()
                     if name.startswith('SIMCUDA_')}
        done = self.command([*fixed, os.path.join(HERE, 'random_program'), str(self.seed),
                             *self.arguments, *STAY],
                            dict(settings, LD_LIBRARY_PATH=CUFILE + ':' + SIMCUDA, **simulated))
        lost = done.returncode == 1 and self.fault.startswith('context')
        if done.returncode != 0 and not lost:
            raise Failure('the program ended with %d: %s' % (done.returncode, last_lines(done.stderr)))
        return done

    def run(self, folder):
        """Numbers of full and of incremental checkpoints that were compared; raises Failure."""
        store, oracle = os.path.join(folder, 'store'), os.path.join(folder, 'oracle')
        os.mkdir(oracle)
        settings = {name: value for name, value in self.settings.items()
                    if name.startswith('GPUSNAP_')}
        if 'GPUSNAP_DIRECT' in settings:
            settings['GPUSNAP_SSD'] = os.path.join(folder, 'ssd')
            os.mkdir(settings['GPUSNAP_SSD'])
        settings.update(ORACLE_FOLDER=oracle, GPUSNAP_PFS=store, GPUSNAP_JOB='job',
                        GPUSNAP_NODE=store, GPUSNAP_BACKEND_IDLE='1s',
                        LD_PRELOAD=os.path.join(HERE, 'libgpusnap-oracle.so'))
        if self.mutation:
            settings['ORACLE_MUTATION'] = self.mutation
        watched = self.program(settings)
        # Which call a fault hits is another one without the library.
        if self.seed % 8 == 0 and not self.fault:
            plain = self.program({})
            if plain.stdout != watched.stdout:
                raise Failure('the program computes %s, and without the library %s' % (
                    watched.stdout.strip(), plain.stdout.strip()))
        if not os.path.exists(store) and self.fault:
            return 0, 0
        if not os.path.exists(store):
            raise Failure('nothing was stored: %s' % last_lines(watched.stderr))
        checked = self.command([os.path.join(HERE, 'check_store'), store, oracle], {})
        counts = re.search(r'^full (\d+) incremental (\d+)$', checked.stdout, re.M)
        if checked.returncode == 1:
            raise Difference(checked.stdout)
        if checked.returncode != 0 or not counts:
            raise Failure(checked.stdout + checked.stderr + last_lines(watched.stderr))
        return int(counts[1]), int(counts[2])


def last_lines(text, count=8):
    return '\n'.join(text.splitlines()[-count:])


def end_backends(folder):
    """They may be merging what a program left there."""
    processes.Backends(BACKEND, folder).end()


def can_fix_addresses():
    return subprocess.run(['setarch', '-R', 'true'], capture_output=True, check=False).returncode == 0


SANITIZED = 'TSAN_OPTIONS' in os.environ
# A thread that ends when libunwind has seen it ends ThreadSanitizer.
STAY = ['--threads-stay'] if SANITIZED else []
# A long history, since what is suppressed is known by its stack. Looking for an address among all
# those that have been suppressed would take most of the time.
THREAD_OPTIONS = ':history_size=7:suppress_equal_addresses=0:suppressions='
SUPPRESSIONS = [os.path.join(SOURCE, 'tests', 'oracle', name + '.suppressions')
                for name in ('ordered', 'overlapping')]
FIXED_ADDRESSES = can_fix_addresses()


class Run:
    """Many cases, two for each processor at a time."""

    def __init__(self, keep, counts=Failure):
        self.keep = keep
        self.counts = counts
        self.full = self.incremental = 0

    def one(self, case):
        folder = tempfile.mkdtemp(prefix='gpusnap-oracle-', dir=SCRATCH)
        keep = False
        try:
            full, incremental = case.run(folder)
            self.full += full
            self.incremental += incremental
            return None
        except Failure as failure:
            if not isinstance(failure, self.counts):
                return None
            keep = self.keep
            kept = '\nleft in %s' % folder if keep else ''
            return '%s\n%s%s' % (case.describe(), str(failure).strip(), kept)
        finally:
            end_backends(folder)
            if not keep:
                shutil.rmtree(folder)

    def all(self, cases, most_failures):
        """The failures, after which it stops at the latest."""
        failures = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            pending = set()
            cases = iter(cases)
            more = True
            while more or pending:
                while more and len(pending) < 2 * (os.cpu_count() or 1):
                    case = next(cases, None)
                    more = case is not None and len(failures) < most_failures
                    if more:
                        pending.add(pool.submit(self.one, case))
                done, pending = concurrent.futures.wait(
                    pending, return_when=concurrent.futures.FIRST_COMPLETED)
                failures += [each.result() for each in done if each.result()]
                more = more and len(failures) < most_failures
        return failures


def change_last_byte(path):
    with open(path, 'r+b') as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))


def shows_a_difference(seed):
    """One wrong byte of the oracle is found: the comparison compares."""
    for at in range(seed, seed + 20):
        case = Case(at)
        if case.fault:
            continue  # what is changed here may lie in a checkpoint that the fault kept from its end
        folder = tempfile.mkdtemp(prefix='gpusnap-oracle-', dir=SCRATCH)
        try:
            try:
                compared = sum(case.run(folder))
            except Failure:
                continue
            if compared == 0:
                continue
            oracle = os.path.join(folder, 'oracle')
            # Every file: which checkpoints were not given up is not known here.
            for file in os.scandir(oracle):
                if file.stat().st_size > 0:
                    change_last_byte(file.path)
            checked = case.command(
                [os.path.join(HERE, 'check_store'), os.path.join(folder, 'store'), oracle], {})
            return checked.returncode == 1 and 'differs' in checked.stdout
        finally:
            end_backends(folder)
            shutil.rmtree(folder)
    return False


def test_programs(first, count, keep):
    began = time.monotonic()
    run = Run(keep)
    failures = run.all((Case(first + i) for i in range(count)), 5)
    for failure in failures:
        print('FAILED ' + failure, flush=True)
    print('%d programs from seed %d on: %d full and %d incremental checkpoints compared, '
          '%d programs failed, %.0f s' % (count, first, run.full, run.incremental, len(failures),
                                          time.monotonic() - began))
    if count >= 20 and min(run.full, run.incremental) < 2 * count:
        print('FAILED too few checkpoints were compared')
        return False
    if not shows_a_difference(first):
        print('FAILED a wrong byte was not found')
        return False
    return not failures


def test_mutants(first, keep):
    good = True
    for mutant in MUTANTS:
        run = Run(keep, Difference)
        cases = (Case(first + i, mutant) for i in range(PROGRAMS_FOR_A_MUTANT))
        failures = run.all(cases, 1)
        print('%s: %s' % (mutant, 'found: ' + failures[0] if failures else
                          'FAILED not found by %d programs' % PROGRAMS_FOR_A_MUTANT), flush=True)
        good = good and bool(failures)
    return good


def main():
    for needed in ('random_program', 'check_store', 'libgpusnap-oracle.so'):
        if not os.path.exists(os.path.join(HERE, needed)):
            sys.exit('%s is missing: build it first, or set GPUSNAP_TEST_BUILD' % needed)
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--programs', type=int)
    parser.add_argument('--first', type=int)
    parser.add_argument('--mutants', action='store_true')
    parser.add_argument('--soak', action='store_true')
    parser.add_argument('--keep', action='store_true')
    options = parser.parse_args()
    soak = options.soak or os.environ.get('GPUSNAP_SOAK', '') not in ('', '0')
    first = options.first
    if first is None:
        first = int(os.environ.get('GPUSNAP_TEST_SEED') or random.SystemRandom().randrange(1 << 32))
    print('the first seed: --first %d' % first, flush=True)
    if options.mutants:
        good = test_mutants(first, options.keep)
    else:
        good = test_programs(first, options.programs or (10000 if soak else 24), options.keep)
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
