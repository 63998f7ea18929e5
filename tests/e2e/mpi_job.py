"""MPI programs in tests: started by the launcher of either MPI, found among the processes, killed in
part or as a whole, and looked at where they hang.

All that a test starts is known by its TMPDIR, which nobody else has: launchers and ranks, whatever
their parents and process groups, and the backends that they started.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
import patience

LAUNCHERS = {'openmpi': 'mpirun.openmpi', 'mpich': 'mpiexec.mpich'}
BACKEND = os.path.join(harness.BUILD, 'tools', 'gpusnapd')
# For MPICH, which otherwise never lets go of a processor.
YIELDING = harness.app('mpi/mpich/libyield.so')

# Runs in the place of each rank's program and becomes it: what only one rank is to have is in its
# environment then.
OF_EACH_RANK = '''#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
SIMCUDA_STATS=$RANK_STATS.$rank
export SIMCUDA_STATS
if [ -e "$RANK_SETTINGS.$rank" ]; then . "$RANK_SETTINGS.$rank"; fi
if [ -n "$RANK_OUTPUT" ]; then exec > "$RANK_OUTPUT.$rank"; fi
exec "$@"
'''


class Process:
    """One that ran when it was looked for."""

    def __init__(self, number):
        self.number = number
        self.path = '/proc/%d' % number
        self.program = os.readlink(self.path + '/exe')
        with open(self.path + '/environ', 'rb') as file:
            self.environment = dict(each.partition('=')[::2] for each in
                                    file.read().decode(errors='replace').split('\0'))

    @property
    def rank(self):
        for name in ('OMPI_COMM_WORLD_RANK', 'PMI_RANK'):
            if name in self.environment:
                return int(self.environment[name])
        return None

    def signal(self, number):
        try:
            os.kill(self.number, number)
        except ProcessLookupError:
            pass

    def shared_files(self, names):
        """Files of these names that it has mapped."""
        try:
            with open(self.path + '/maps', encoding='utf-8', errors='replace') as file:
                return set(re.findall(r'/dev/shm/(?:%s)\S*' % names, file.read()))
        except OSError:
            return set()  # it has ended

    def threads(self, what):
        """That file of each of its threads."""
        found = []
        for path in glob.glob(self.path + '/task/[0-9]*/' + what):
            try:
                with open(path, encoding='utf-8', errors='replace') as file:
                    found.append(file.read().strip())
            except OSError:
                continue  # it has ended
        return found

    def states(self):
        return [stat.rpartition(')')[2].split()[0] for stat in self.threads('stat')]

    def is_gone(self):
        """With all that it held: a zombie that is alone holds nothing."""
        return self.states() in ([], ['Z'])

    def is_stopped(self):
        return all(state in 'TZ' for state in self.states())

    def stacks(self):
        """Of all its threads, as far as they can be had."""
        if shutil.which('gdb') is not None:
            try:
                return subprocess.run(['gdb', '-batch', '-p', str(self.number), '-ex',
                                       'thread apply all backtrace 30'], capture_output=True,
                                      text=True, errors='replace', timeout=60).stdout
            except subprocess.TimeoutExpired:
                pass
        return '\n'.join('%s: %s' % (what, each) for what in ('comm', 'wchan', 'syscall', 'stack')
                         for each in self.threads(what))

    def __str__(self):
        rank = '' if self.rank is None else ', rank %d' % self.rank
        return 'process %d, %s%s' % (self.number, self.program, rank)


def processes_of(folder):
    """All that run with this TMPDIR."""
    found = []
    for path in glob.glob('/proc/[0-9]*'):
        try:
            process = Process(int(os.path.basename(path)))
        except OSError:
            continue  # it has ended, or is another user's
        if process.environment.get('TMPDIR') == folder:
            found.append(process)
    return found


class Job(harness.Run):
    """A launcher and its ranks. One at a time in a test."""

    def __init__(self, command, environment, folder, output, errors):
        super().__init__(command, environment, folder, output, errors)
        self.marker = environment['TMPDIR']
        self.shared = set()  # files that only the ranks themselves would remove

    def members(self):
        """The launcher, its helpers and the ranks, in any order."""
        return [each for each in processes_of(self.marker) if each.program != BACKEND]

    def ranks(self):
        """By their number the ranks that have got to their program."""
        found = {}
        for each in sorted(self.members(), key=lambda each: each.number):
            # What a rank forks is no other rank.
            if each.rank is not None and each.program.startswith(harness.APPS):
                found.setdefault(each.rank, each)
                self.shared |= each.shared_files('mpich|ucx')
        return found

    def kill(self):
        """SIGKILL to all that is left. True when the launcher was still running."""
        alive = not self.ended()
        if alive:
            self.process.kill()
        left = patience.Patience(60)
        killed = []
        while True:
            members = self.members()
            for each in members:
                self.shared |= each.shared_files('mpich|ucx')
                each.signal(signal.SIGKILL)
            killed += members
            if not members and all(each.is_gone() for each in killed):
                break
            if left.is_over():
                raise AssertionError('does not end by SIGKILL: ' + ', '.join(map(str, members)))
            time.sleep(0.002)
        for path in self.shared:
            if os.path.exists(path):
                os.remove(path)
        self.process.wait()
        return alive

    def wait(self, timeout):
        """Until the launcher and all ranks have ended. A hang is an error, which says where each of
        them is."""
        left = patience.Patience(timeout)
        try:
            status = patience.wait(self.process, timeout)
            while self.members():
                if left.is_over():
                    raise subprocess.TimeoutExpired(self.command, timeout)
                time.sleep(0.005)
        except subprocess.TimeoutExpired:
            self.show_stacks()
            self.kill()
            raise AssertionError('no end after %d s: %s\n%s' % (
                timeout, ' '.join(self.command), harness.tail(self.errors))) from None
        self.ended_after = self.ended_after or time.monotonic() - self.started
        self.kept = self.output
        return status

    def show_stacks(self):
        for each in processes_of(self.marker):
            print('---- %s\n%s' % (each, each.stacks()), file=sys.stderr, flush=True)


class TestCase(harness.TestCase):
    mpi = None
    run_class = Job

    def setUp(self):
        if shutil.which(LAUNCHERS[self.mpi]) is None:
            self.skipTest(LAUNCHERS[self.mpi] + ' is not installed')
        super().setUp()
        self.working_folder = os.path.join(self.folder, 'work')
        os.mkdir(self.working_folder)
        self.of_each_rank = os.path.join(self.folder, 'of-each-rank')
        with open(self.of_each_rank, 'w') as file:
            file.write(OF_EACH_RANK)
        os.chmod(self.of_each_rank, 0o755)
        # What killed ranks leave of the memory that they share goes with it.
        self.shared = tempfile.mkdtemp(prefix='gpusnap-e2e-',
                                       dir='/dev/shm' if os.path.isdir('/dev/shm') else None)
        self.addCleanup(shutil.rmtree, self.shared, ignore_errors=True)
        self.stores = 0
        self.areas = set()  # shared memory that backends were seen to have
        self.addCleanup(self.end_backends)
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for run in self._runs:
            run.kill()

    # ---- running ----

    def environment(self, **settings):
        return super().environment(**{
            'TMPDIR': self.folder,
            'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
            # Ranks are more than processors, and so are tests.
            'OMPI_MCA_rmaps_base_oversubscribe': '1', 'OMPI_MCA_hwloc_base_binding_policy': 'none',
            'OMPI_MCA_mpi_yield_when_idle': '1',
            'OMPI_MCA_btl_vader_backing_directory': self.shared, 'UCX_POSIX_DIR': self.shared,
            'RANK_STATS': self.stats_of(len(self._runs)),
            'RANK_SETTINGS': os.path.join(self.folder, 'settings'),
            **settings})

    def start(self, command, environment):
        for name in self.results():
            os.remove(os.path.join(self.working_folder, name))
        return super().start(command, environment)

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_BACKEND_IDLE': '200ms', 'GPUSNAP_HOST_CACHE': '32M',
                                   **settings})

    def launched(self, ranks, program, directly=False):
        """The command that starts so many ranks of a program, by way of OF_EACH_RANK."""
        return [LAUNCHERS[self.mpi]] + self.ranks_of(ranks, program, directly)

    def ranks_of(self, ranks, program, directly=False):
        command = ['-n', str(ranks)]
        if self.mpi == 'mpich':
            command += ['-env', 'LD_PRELOAD', YIELDING]
        return command + ([] if directly else [self.of_each_rank]) + program

    def program(self, name, *arguments):
        return [harness.app('mpi/%s/%s' % (self.mpi, name)), *arguments]

    def begin_store(self):
        """What backends still take away in the one before is in nobody's way."""
        self.stores += 1
        self.store = os.path.join(self.folder, 'store%d' % self.stores)

    def set_rank(self, rank, **settings):
        """What this rank alone has in its environment, from the next run on."""
        with open(os.path.join(self.folder, 'settings.%d' % rank), 'w') as file:
            for name, value in settings.items():
                file.write('export %s="%s"\n' % (name, value))

    def stats_of(self, number):
        return os.path.join(self.folder, 'stats.%d' % number)

    def launches(self, run, ranks):
        """Kernel launches that were executed, by rank."""
        stats = self.stats_of(self._runs.index(run))
        return [harness.launches('%s.%d' % (stats, rank)) for rank in range(ranks)]

    def results(self):
        """The files that the ranks have written, by name."""
        found = {}
        for path in glob.glob(os.path.join(self.working_folder, 'out.*')):
            with open(path, 'rb') as file:
                found[os.path.basename(path)] = file.read()
        return found

    def wait_for_checkpoint(self, run, other_than=(), ranks=1):
        try:
            return super().wait_for_checkpoint(run, other_than, ranks)
        except AssertionError:
            run.show_stacks()
            raise

    def wait_until(self, what, happens, run=None):
        """A hang is an error. Where `run` is given, so is its end."""
        left = patience.Patience(self.timeout)
        while not happens():
            if run is not None and run.ended() and not happens():
                self.fail('%s; it has ended with %s:\n%s' % (what, run.process.returncode,
                                                            harness.tail(run.errors)))
            if left.is_over():
                if run is not None:
                    run.show_stacks()
                self.fail(what)
            time.sleep(0.005)

    # ---- backends ----

    def backends(self, node=None):
        """Those of this test that run; of one node, where it is named."""
        found = []
        for each in processes_of(self.folder):
            if each.program != BACKEND:
                continue
            if node is not None and each.environment.get('GPUSNAP_NODE') != node:
                continue
            self.areas |= each.shared_files('gpusnap')
            found.append(each)
        return found

    def kill_backends(self, node=None):
        killed = self.backends(node)
        for each in killed:
            each.signal(signal.SIGKILL)
        self.wait_until('a backend does not end', lambda: all(each.is_gone() for each in killed))
        return len(killed)

    def end_backends(self):
        self.kill_backends()
        for area in self.areas:
            if os.path.exists(area):
                os.remove(area)

    def leaves_nothing(self):
        """No process and no shared memory."""
        self.settle()
        self.wait_until('a backend stays', lambda: not self.backends())
        self.wait_until('shared memory stays',
                        lambda: not any(os.path.exists(area) for area in self.areas))
        self.assertEqual(processes_of(self.folder), [])
