"""MPI programs in tests: started by the launcher of either MPI, found among the processes, killed in
part or as a whole, and looked at where they hang.

All that a test starts is known by its TMPDIR, which nobody else has: launchers and ranks, whatever
their parents and process groups, and the backends that they started.
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness
import patience
import processes

LAUNCHERS = {'openmpi': 'mpirun.openmpi', 'mpich': 'mpiexec.mpich'}
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


def processes_of(folder):
    """All that run with this TMPDIR."""
    return processes.find(lambda process: process.environment.get('TMPDIR') == folder)


class Job(harness.Run):
    """A launcher and its ranks. One at a time in a test."""

    def __init__(self, command, environment, folder, output, errors):
        super().__init__(command, environment, folder, output, errors)
        self.marker = environment['TMPDIR']
        self.shared = set()  # files that only the ranks themselves would remove

    def members(self):
        """The launcher, its helpers and the ranks, in any order."""
        return [each for each in processes_of(self.marker) if each.program != harness.BACKEND]

    def ranks(self):
        """By their number the ranks that have got to their program."""
        found = {}
        for each in sorted(self.members(), key=lambda each: each.number):
            # A child that a rank forks is not a rank.
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
        # This folder goes with all that killed ranks leave of the memory that they share.
        self.shared = tempfile.mkdtemp(prefix='gpusnap-e2e-',
                                       dir='/dev/shm' if os.path.isdir('/dev/shm') else None)
        self.addCleanup(shutil.rmtree, self.shared)
        self.addCleanup(self._end_runs)  # before it goes

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

    def set_rank(self, rank, **settings):
        """Sets the environment of this rank alone, from the next run on."""
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

    def leaves_nothing(self):
        """No process and no shared memory."""
        self.settle()
        self.wait_until('a backend stays', lambda: not self.backends.running())
        self.wait_until('shared memory stays', lambda: not self.backends.shared_memory())
        self.assertEqual(processes_of(self.folder), [])
