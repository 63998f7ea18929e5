"""Shared by the end-to-end tests: running programs with and without checkpoints, killing them,
restoring them, and looking at what was left.

Every test works in folders of its own below one temporary folder, so that tests may run at the same
time. Decisions of chance (when a program is killed) come from one seed, which is printed;
GPUSNAP_TEST_SEED sets it. The build to test is in GPUSNAP_TEST_BUILD.
"""
import collections
import contextlib
import glob
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'tests'))
import patience  # noqa: E402
import processes  # noqa: E402

BUILD = os.path.abspath(os.environ.get('GPUSNAP_TEST_BUILD', os.path.join(SOURCE, 'build')))
GPUSNAP = os.path.join(BUILD, 'tools', 'gpusnap')
BACKEND = os.path.join(BUILD, 'tools', 'gpusnapd')
LIBRARY = os.path.join(BUILD, 'interpose', 'libgpusnap.so')
SIMCUDA = os.path.join(BUILD, 'tools', 'simcuda')
APPS = os.path.join(BUILD, 'tests', 'apps')
HELPERS = os.path.join(BUILD, 'tests', 'e2e', 'helpers')

SOAK = os.environ.get('GPUSNAP_SOAK', '') not in ('', '0')
KILLS = 20 if SOAK else 1
SEED = int(os.environ.get('GPUSNAP_TEST_SEED') or random.SystemRandom().randrange(1 << 32))

# Exit codes of the tool and the library.
USAGE, DAMAGED, NO_CHECKPOINT, OTHER_PROGRAM, INTERNAL = 64, 65, 66, 69, 70
DIVERGED, IMPOSSIBLE, STORE_UNWRITABLE, TOO_EARLY, BAD_SETTING = 71, 72, 73, 75, 78
STOPPED, NOT_SAVED = 76, 77

# For each program the steps of a short run, and every how many synchronisations it is saved in the
# tests: a few times in a run.
PROGRAMS = {
    'stencil': ('240', 40),
    'particles': ('100', 20),
    'solver': ('6', 200),
    'pointers': ('100', 15),
    'globals': ('200', 60),
    'shared_memory': ('200', 30),
    'churn': ('240', 60),
    'warps': ('80', 25),
    'orbits': ('200', 30),
    'pipeline': ('150', 30),
    'workers': ('200', 150),
    'errands': ('80', 120),
    'locks': ('200', 100),
    'loop': ('400', 40),
    'two_devices': ('60', 120),
    'pools': ('200', 20),
    'expandable': ('120', 25),
    'graph': ('150', 30),
    'graph_nodes': ('120', 40),
    'graph_memory': ('150', 20),
    'keepers': ('300', 20),
    'peers': ('150', 60),
    'uneven': ('40', 24),
    'callbacks': ('300', 20),
    'signals': ('300', 15),
    'signal_nodes': ('300', 12),
    'notices': ('300', 20),
    'batches': ('200', 15),
    'migrations': ('200', 20),
    'managed_modules': ('150', 60),
    'legacy': ('400', 20),
    'catalog': ('400', 20),
    'linked': ('400', 20),
    'textures': ('200', 30),
    'references': ('200', 30),
    'surfaces': ('200', 30),
    'tiles': ('200', 60),
    'unpacking': ('200', 25),
    'logbook': ('300', 45),
    'hoard': ('60', 15),
    'runtime/stencil': ('600', 40),
    'runtime/particles': ('60', 20),
    'runtime/solver': ('3', 200),
    'runtime/pointers': ('300', 15),
    'runtime/globals': ('600', 60),
    'runtime/managed': ('400', 120),
    'runtime/managed_globals': ('400', 60),
    'runtime/churn': ('400', 6),
    'runtime/warps': ('300', 40),
    'runtime/pendulum': ('200', 60),
    'runtime/pipeline': ('600', 150),
    'runtime/ordered': ('400', 60),
    'runtime/streams': ('200', 40),
    'runtime/ferry': ('300', 40),
    'runtime/images': ('300', 40),
    'runtime/graphs': ('300', 100),
    'runtime/threads': ('300', 150),
    'runtime/algorithms': ('60', 30),
    'runtime/groups': ('160', 40),
    'runtime/matrices': ('120', 40),
    'offload/acc_declare': ('300', 100),
    'offload/acc_floats': ('150', 50),
    'offload/acc_heat': ('600', 200),
    'offload/acc_memory': ('300', 250),
    'offload/acc_module': ('600', 200),
    'offload/acc_pools': ('300', 250),
    'offload/acc_queues': ('400', 80),
    'offload/acc_trees': ('600', 100),
    'offload/acc_types': ('300', 120),
    'offload/acc_waves': ('600', 200),
    'offload/omp_bodies': ('40', 20),
    'offload/omp_declare': ('150', 75),
    'offload/omp_lattice': ('400', 100),
    'offload/omp_memory': ('150', 40),
    'offload/omp_module': ('200', 60),
}

# Their kernels write through pointers that device memory holds, or may: the first snapshot is torn.
# libgomp passes a kernel one pointer: to the addresses of what is mapped.
TEARING = {'pointers', 'runtime/pointers', 'runtime/globals'} | {
    name for name in PROGRAMS if name.startswith('offload/')}
# Programs that make mistakes on purpose, and how the driver's lines on standard error begin.
SAID = {'logbook': 'simcuda: '}
# The environment of a program's runs.
PROGRAM_SETTINGS = {
    'two_devices': {'SIMCUDA_DEVICES': '2'},
    'peers': {'SIMCUDA_DEVICES': '2'},
    'expandable': {'SIMCUDA_DEVICES': '2'},
    'uneven': {'SIMCUDA_DEVICES': '3', 'SIMCUDA_LINKS': '0,48G,24G/48G,0,24G/24G,24G,0'},
    # Offload regions are not run by the host where there is no device.
    **{name: {'ACC_DEVICE_TYPE': 'nvidia'} for name in PROGRAMS if name.startswith('offload/acc_')},
    **{name: {'OMP_TARGET_OFFLOAD': 'mandatory'} for name in PROGRAMS if name.startswith('offload/omp_')},
}


def app(name):
    return os.path.join(APPS, name)


def built(names):
    """The programs among these that this build has, in order: some need the toolkit."""
    return [name for name in sorted(names) if os.path.exists(app(name))]


class Run:
    """A program that is running or has ended. Its output goes to a file."""

    def __init__(self, command, environment, folder, output, errors):
        self.command = command
        self.output_path = output
        self.errors_path = errors
        self.kept = None
        self.ended_after = None
        self.started = time.monotonic()
        with open(output, 'wb') as out, open(errors, 'wb') as err:
            # A process group of its own: what it starts is killed with it.
            self.process = subprocess.Popen(command, env=environment, cwd=folder, stdout=out,
                                            stderr=err, stdin=subprocess.DEVNULL,
                                            start_new_session=True)

    @property
    def output(self):
        """So far; of a finished run also after its folder is gone."""
        if self.kept is not None:
            return self.kept
        with open(self.output_path, 'rb') as file:
            return file.read()

    @property
    def errors(self):
        with open(self.errors_path, 'rb') as file:
            return file.read().decode(errors='replace')

    @property
    def seconds(self):
        """How long it ran, or has run."""
        return self.ended_after or time.monotonic() - self.started

    def ended(self):
        return self.process.poll() is not None

    def ends_within(self, seconds):
        """Whether it has ended by itself by then."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self):
        """SIGKILL, also to what it has started. True when the program was still running."""
        if self.ended():
            return False
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        left = patience.Patience(60)
        while not processes.is_group_gone(self.process.pid):
            if left.is_over():
                raise AssertionError('does not end by SIGKILL: ' + ' '.join(self.command))
            time.sleep(0.001)
        return self.process.returncode == -signal.SIGKILL

    def wait(self, timeout):
        try:
            status = patience.wait(self.process, timeout)
            self.ended_after = self.ended_after or time.monotonic() - self.started
            self.kept = self.output
            return status
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError('no end after %d s: %s\n%s' % (
                timeout, ' '.join(self.command), self.errors)) from None


class TestCase(unittest.TestCase):
    """With a temporary folder, and what it takes to run things in it."""

    timeout = 120  # seconds that any one run may take
    run_class = Run

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='gpusnap-e2e-')
        self.addCleanup(shutil.rmtree, self.folder)
        self.backends = processes.Backends(BACKEND, self.folder)
        self.addCleanup(self.backends.end)
        self.store = os.path.join(self.folder, 'store')
        self._stores = 0
        self.working_folder = self.folder  # of the programs
        self.program_settings = {}
        self.random = random.Random('%d %s' % (SEED, self.id()))
        self._runs = []
        self.addCleanup(self._end_runs)

    def _end_runs(self):
        for run in self._runs:
            run.kill()

    # ---- stores ----

    def begin_store(self):
        """Begins a store that is not there yet. Work that still goes on in the one before stays
        apart from it."""
        self._stores += 1
        self.store = os.path.join(self.folder, 'store%d' % self._stores)

    @contextlib.contextmanager
    def store_of_its_own(self):
        """A store that is not there yet, and is removed at the end: when nobody writes to it any more."""
        before = self.store
        self.begin_store()
        first = self._stores
        try:
            yield
        finally:
            self._end_runs()
            self.backends.end()
            for number in range(first, self._stores + 1):
                store = os.path.join(os.path.dirname(self.store), 'store%d' % number)
                if os.path.exists(store):
                    shutil.rmtree(store)
            self.store = before

    # ---- running ----

    def environment(self, **settings):
        """The caller's environment without any setting of ours, and then `settings`."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(('GPUSNAP_', 'SIMCUDA_', 'LD_'))}
        kept['SIMCUDA_UNCOUNTED'] = 'gpusnap_'  # what the program launches is what is compared
        kept.update(self.program_settings)
        kept.update({name: str(value) for name, value in settings.items() if value is not None})
        return kept

    def start(self, command, environment):
        base = os.path.join(self.folder, 'run%d' % len(self._runs))
        run = self.run_class(command, environment, self.working_folder, base + '.out',
                             base + '.err')
        self._runs.append(run)
        return run

    def start_plain(self, command, **settings):
        """Without any of ours: on the software GPU alone."""
        return self.start(command, self.environment(LD_LIBRARY_PATH=SIMCUDA, **settings))

    def settings(self, **settings):
        # The software GPU fills whatever memory it gives.
        return dict({'GPUSNAP_DEVICE_CACHE': '8M', 'GPUSNAP_HOST_CACHE': '64M',
                     'GPUSNAP_PFS': self.store,
                     'GPUSNAP_JOB': 'job', 'GPUSNAP_EVERY': 'off',
                     # No checkpoint is given up because the machine is busy.
                     'GPUSNAP_MAX_STALL': '1h', 'GPUSNAP_DRAIN': '1h',
                     # Backends of other tests are on other nodes.
                     'GPUSNAP_NODE': self.folder, 'XDG_RUNTIME_DIR': self.folder,
                     'GPUSNAP_BACKEND_IDLE': '2s',
                     # A restored run puts out what a whole one does.
                     'GPUSNAP_REPLAY_OUTPUT': 'again'},
                    **settings)

    def start_saved(self, command, **settings):
        """Under `gpusnap run`."""
        return self.start([GPUSNAP, 'run', '--sim', '--'] + command,
                          self.environment(**self.settings(**settings)))

    def start_restored(self, command, checkpoint=None, options=(), **settings):
        """Under `gpusnap restore`."""
        chosen = ['--id', checkpoint] if checkpoint else []
        return self.start([GPUSNAP, 'restore', '--sim'] + chosen + list(options) + ['--'] + command,
                          self.environment(**self.settings(**settings)))

    def tool(self, *arguments, **settings):
        """The tool on this test's store; returns the completed process, with text."""
        return patience.run([GPUSNAP] + list(arguments), self.timeout, cwd=self.folder,
                            env=self.environment(**self.settings(**settings)))

    def finish(self, run, status=0):
        code = run.wait(self.timeout)
        self.assertEqual(code, status, '%s\nended with %d, not %d:\n%s\n%s' % (
            ' '.join(run.command), code, status, tail(run.output.decode(errors='replace')),
            tail(run.errors)))
        return run

    def reference(self, command, **settings):
        """Runs a program undisturbed; returns the ended run."""
        return self.finish(self.start_plain(command, **settings))

    # ---- checkpoints ----

    def checkpoints(self):
        """The checkpoints that `gpusnap list --json` names; none if there is no store yet."""
        if not os.path.exists(self.store):
            return []
        listed = self.tool('list', '--json')
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return json.loads(listed.stdout)

    def complete(self):
        """Complete checkpoints, newest first."""
        found = [each for each in self.checkpoints() if each['state'] == 'complete']
        return sorted(found, key=lambda each: each['epoch'], reverse=True)

    def show(self, checkpoint):
        shown = self.tool('show', checkpoint, '--json')
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return json.loads(shown.stdout)

    def manifests(self):
        return glob.glob(os.path.join(self.store, '*', 'e*', 'r*.manifest'))

    def launches_before(self, checkpoint, rank=0):
        """Kernel launches of the program, or of one of its ranks, before the cut."""
        return self.show(checkpoint)['ranks'][rank]['launches']

    def settle(self):
        """Waits until the store has everything that a killed program handed over. The backend may
        still merge it."""
        waited = self.tool('wait', '--timeout', '10m')
        self.assertEqual(waited.returncode, 0, waited.stderr)

    def stored(self):
        """The fingerprint of all in the store, when nobody writes to it any more."""
        self.backends.end()
        return fingerprint(self.store)

    def verify_all(self):
        """Every checkpoint that is listed as complete verifies."""
        self.settle()
        for each in self.complete():
            verified = self.tool('verify', each['id'])
            self.assertEqual(verified.returncode, 0, '%s: %s' % (each['id'], verified.stderr))

    # ---- killing ----

    def wait_for_checkpoint(self, run, other_than=(), ranks=1):
        """Until as many ranks have a manifest of one epoch that is not in `other_than`; false when the
        run ends first."""
        left = patience.Patience(self.timeout)
        while not left.is_over():
            ended = run.ended()  # before the look at what it has left
            new = set(self.manifests()) - set(other_than)
            committed = collections.Counter(os.path.dirname(path) for path in new)
            if max(committed.values(), default=0) >= ranks:
                return True
            if ended:
                return False
            time.sleep(0.002)
        self.fail('no checkpoint after %d s:\n%s' % (self.timeout, run.errors))
        return False

    def saved_and_killed(self, command, reference, every, **settings):
        """Runs until a first checkpoint is complete and kills at some moment after it. Where others
        want the processors a short program may have ended by then, many times."""
        latest = max(reference.seconds, 0.05)
        for number in range(1, 31):
            self.begin_store()
            run = self.start_saved(command, GPUSNAP_EVERY=every, **settings)
            seen = self.wait_for_checkpoint(run)
            if not seen and self.process_failed(run):
                self.fail('ended with %d before any checkpoint:\n%s' % (
                    run.process.returncode, tail(run.errors)))
            delay = self.random.uniform(0, latest)
            if not run.ends_within(delay) and run.kill():
                print('%s: run %d killed %.3f s after its first checkpoint' % (
                    self.id(), number, delay))
                return run
            latest /= 3
        self.fail('%s ended each time before it could be killed' % ' '.join(command))
        return None

    @staticmethod
    def process_failed(run):
        return run.process.returncode not in (None, 0)

    def assert_same_output(self, run, reference):
        if run.output == reference.output:
            return
        ours, theirs = run.output.splitlines(), reference.output.splitlines()
        line = next((at for at, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]),
                    min(len(ours), len(theirs)))
        self.fail('output differs from line %d on: %r, not %r; it ended with %s:\n%s' % (
            line + 1, ours[line:line + 1], theirs[line:line + 1], run.process.returncode,
            tail(run.errors)))


def tail(text, lines=25):
    return '\n'.join(text.splitlines()[-lines:])


def launches(stats):
    """Kernel launches that simcuda counted in a SIMCUDA_STATS file."""
    with open(stats, 'rb') as file:
        return struct.unpack('<Q', file.read(8))[0]


def heap_left(stats):
    """Launches after which their kernels' heap was not empty, by a SIMCUDA_STATS file."""
    with open(stats, 'rb') as file:
        file.seek(128)
        return struct.unpack('<Q', file.read(8))[0]


def file_faults(report):
    """The calls to files that one process made, at most, and how many calls failed."""
    with open(report) as file:
        lines = file.read().split()
    return max(int(line) for line in lines if line != 'failed'), lines.count('failed')


def fingerprint(folder):
    """Names, sizes and contents of everything in a folder, lock files aside."""
    found = {}
    for path, _, files in os.walk(folder):
        found[os.path.relpath(path, folder)] = 'folder'
        for name in files:
            full = os.path.join(path, name)
            with open(full, 'rb') as file:
                data = hashlib.sha256(file.read()).hexdigest()
            if name != 'lock':
                found[os.path.relpath(full, folder)] = data
    return found


def main():
    print('seed: GPUSNAP_TEST_SEED=%d' % SEED, flush=True)
    for needed in (GPUSNAP, LIBRARY):
        if not os.path.exists(needed):
            sys.exit('%s is missing: build it first, or set GPUSNAP_TEST_BUILD' % needed)
    result = unittest.main(verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if len(result.skipped) >= max(result.testsRun, 1):
        sys.exit(77)  # what meson counts as skipped
